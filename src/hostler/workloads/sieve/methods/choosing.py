"""Which way to search: each method is asked, and the cheapest that finds every item wins."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import log

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.methods.base import Method, Offer
from hostler.workloads.sieve.spec import AUTO, Spec, log_chance

WAYS: Mapping[str, tuple[str, str]] = {
    "low-bits": ("low_bits", "LowBits"),
    "gf2": ("gf2", "Gf2"),
    "lattice": ("lattice", "Lattice"),
    "halves": ("halves", "Halves"),
    "line": ("line", "Line"),
    "twister": ("twister", "Twister"),
    "words": ("words", "Words"),
    "lanes": ("lanes", "Lanes"),
    "opencl": ("opencl", "OpenCl"),
}
"""By name: the module and the class. They are imported when they are asked: they need numpy and numba."""
ALL_AT_ONCE = frozenset({"low-bits", "gf2", "lattice", "halves", "twister", "words"})
MOST_BY_CHANCE = 200
"""How many items may be expected to make the draws by chance where all are found at once."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The method that searches, what it offers, and what the others said: their cost in CPU-seconds, or why not."""

    name: str
    offer: Offer
    others: Mapping[str, float | str]


def choose(spec: Spec, items: int, without: frozenset[str] = frozenset()) -> Choice:
    """The cheapest method for so many items, or the one that ``spec`` names; :class:`SpecError` where none applies.

    Those ``without`` are not asked. One that may miss the true item does so only within the ``miss`` that ``spec``
    allows.
    """
    names = [*WAYS] if spec.method == AUTO else [spec.method]
    answers = {name: "found too many" if name in without else offer_of(name, spec) for name in names}
    offers = {name: answer for name, answer in answers.items() if isinstance(answer, Offer)}
    if not offers:
        told = "; ".join(f"{name}: {answer}" for name, answer in answers.items())
        raise SpecError(f"no method searches for this ({told})")
    name = min(offers, key=lambda each: offers[each].cpu_s(items))
    others = {other: _said(answer, items) for other, answer in answers.items() if other != name}
    return Choice(name, offers[name], others)


def offer_of(name: str, spec: Spec) -> Offer | str:
    """What the method of this name offers."""
    module, kind = WAYS[name]
    method: Method = getattr(importlib.import_module(f"hostler.workloads.sieve.methods.{module}"), kind)()
    if name in ALL_AT_ONCE and (many := log_chance(spec) + log(spec.size)) > log(MOST_BY_CHANCE):
        return f"finds all items at once, and about 10^{many / log(10):.0f} of them make the draws by chance"
    return method.offer(spec)


def _said(answer: Offer | str, items: int) -> float | str:
    return answer if isinstance(answer, str) else answer.cpu_s(items)
