"""How likely a wrong item makes the draws: which values come more often than others, and which items draw alike.

Two things part real generators from one that gives each value equally often. ``rand() % 20000`` of 32,768 numbers
gives the lower values twice as often. And in a linear congruential generator modulo 2^k upper bits never reach lower
ones: where two states agree in the lowest 3 bits all later ones do, so that draws of ``x % 1000`` which agree once
modulo 8 always do. Nothing here imports numpy.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from hostler.workloads.sieve import statistics
from hostler.workloads.sieve.generators import Generator, Output, Structure
from hostler.workloads.sieve.generators.base import Picked
from hostler.workloads.sieve.generators.rules import Residue, Rule, Want

if TYPE_CHECKING:
    from hostler.workloads.sieve.spec import Spec

EVEN = 1 << 20
"""Where so many numbers come to each value, all values are taken as equally likely."""
LOOKED_AT = 2_000
"""Draws of a call whose own chance is counted: with more of them none is left to speak of."""
MOST = 10_000
"""More draws than that are not asked for."""

Bits: TypeAlias = tuple[int, int]
"""The lowest bit of a state that draws tell exactly, and how many bits from there on they do."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Of all wrong items that are a ``share``; each draw of theirs fits ``2^bits`` times as often, by call."""

    share: float
    bits: tuple[int, ...]


def log_chance(search: Spec, fitting: int | None = None) -> float:
    """The natural logarithm of the probability that a wrong item passes; of fitting so many draws if ``fitting``."""
    fits = _fits(search)
    if search.need < search.known or fitting is not None:
        least = search.need if fitting is None else max(fitting, 1)
        return statistics.log_chance(_question(search, fits, search.known, least))
    once = _log_sum(math.log(kind.share) + _all_fit(kind, fits) for kind in alike(search.generator, search.calls))
    # The expected number of ways to fit bounds the probability that there is one.
    ways = math.log(search.alignments_count) + len(search.draws) * math.log(search.missing + 1)
    return min(0.0, once + ways)


def draws_needed(search: Spec, items: int, below: float) -> int | None:
    """The least number of known draws, of the kind of those there are, with fewer than ``below`` wrong items.

    ``None``: no number of them is enough, or none up to :data:`MOST`.
    """
    fits = _fits(search)
    if search.share < 1.0:
        of = _question(search, fits, search.known, search.need)
        return statistics.draws_needed(
            of.size, items, share=search.share, alignments=of.alignments, below=below, most=MOST, alike=of.alike
        )
    typical = [_typical(each, call) for each, call in zip(fits, search.calls, strict=True)]
    kinds = alike(search.generator, search.calls)
    left = math.log(below) - math.log(items * search.alignments_count)
    made = [math.log(kind.share) for kind in kinds]
    for draws in range(MOST):
        turn = draws % len(typical)
        made = [
            log + min(0.0, typical[turn] + kind.bits[turn] * math.log(2)) for log, kind in zip(made, kinds, strict=True)
        ]
        if _log_sum(made) < left:
            return draws + 1
    return None


def alike(made_by: Generator, calls: Sequence[Output]) -> tuple[Alike, ...]:
    """The kinds of wrong items there are, by how much of each draw they have in common with the true one: first all.

    Items that make the same draws for ever are no wrong ones: see :func:`same_for_ever`.
    """
    part = (kind for kind in _kinds(made_by, calls) if not _same(kind, calls))
    return (Alike(1.0, (0,) * len(calls)), *part)


def same_for_ever(made_by: Generator, calls: Sequence[Output]) -> float:
    """Which share of all items makes the same draws as one of them for ever, since no call looks at their upper bits.

    Not counted are those that no call of the generator tells apart.
    """
    return math.fsum(kind.share for kind in _kinds(made_by, calls) if _same(kind, calls))


def likelihood(made_by: Generator, call: Output) -> Callable[[int], float]:
    """The natural logarithm of the probability that a call gives this draw."""
    rules = call.rules() if isinstance(call, Picked) else ()
    if len(rules) != 1 or rules[0].again is not None or len(rules[0].parts) != 1:
        return lambda draw: -math.log(call.odds)
    (part,), states = rules[0].parts, made_by.parameters.get("modulus", 1 << rules[0].width)
    low = part.shift + (_shift(made_by) if "modulus" in made_by.parameters else 0)
    if min(states >> low, 1 << part.bits) >= call.size * EVEN:
        return lambda draw: -math.log(call.odds)

    @lru_cache(1 << 16)
    def counted(draw: int) -> float:
        found = _states_with(call.wants(draw)[0], low, part.bits, states)
        return math.log(found) - math.log(states) if found else -math.inf

    return counted


# ---- of the draws ---------------------------------------------------------------------------------------------------


def _fits(search: Spec) -> list[list[float]]:
    """How likely each known draw is, by call; of very many, those after the first count as all values do."""
    likely = [likelihood(search.generator, call) for call in search.calls]
    fits: list[list[float]] = [[] for _ in likely]
    for place, draw in enumerate(search.draws):
        if draw is not None:
            call = place % len(likely)
            exact = len(fits[call]) < LOOKED_AT
            fits[call].append(likely[call](draw) if exact else -math.log(search.calls[call].odds))
    return fits


def _all_fit(kind: Alike, fits: Sequence[Sequence[float]]) -> float:
    pairs = zip(kind.bits, fits, strict=True)
    return sum(min(0.0, math.fsum(each) + len(each) * bits * math.log(2)) for bits, each in pairs)


def _question(search: Spec, fits: Sequence[Sequence[float]], draws: int, need: int) -> statistics.Question:
    """Draws of one call, as likely as they are on average: no others with that average fit as many more easily."""
    average = max(math.fsum(map(math.exp, fits[0])) / len(fits[0]), sys.float_info.min)
    kinds = tuple((kind.share, kind.bits[0]) for kind in alike(search.generator, search.calls))
    return statistics.Question(1 / average, draws, need, search.alignments_count, kinds)


def _typical(fits: Sequence[float], call: Output) -> float:
    """What a draw more is likely to be; those that never come tell nothing of it."""
    finite = [fit for fit in fits if fit > -math.inf]
    return math.fsum(finite) / len(finite) if finite else -math.log(call.odds)


# ---- of states ------------------------------------------------------------------------------------------------------


def _kinds(made_by: Generator, calls: Sequence[Output]) -> Iterator[Alike]:
    """Items that have some bits of the draws in common with another one, by how many."""
    engine, told = made_by.engine, [_told(made_by, call) for call in calls]
    if engine.structure is not Structure.POWER_OF_TWO_LCG or engine.back is None:
        return
    shares: dict[tuple[int, ...], float] = {}
    for lowest in range(_shift(made_by) + engine.width):  # the lowest bit in which their states differ
        common = [_in_common(each, lowest) for each in told]
        bits = tuple(each for each in common if each is not None)
        if any(bits) and len(bits) == len(common):
            shares[bits] = shares.get(bits, 0.0) + 0.5 ** (lowest + 1)
    yield from (Alike(share, bits) for bits, share in shares.items())


def _same(kind: Alike, calls: Sequence[Output]) -> bool:
    return all(1 << bits == call.size for bits, call in zip(kind.bits, calls, strict=True))


def _shift(made_by: Generator) -> int:
    return made_by.parameters.get("shift", 0)


def _told(made_by: Generator, call: Output) -> list[Bits]:
    """The bits of states that a draw of this call tells exactly."""
    pairs = zip(call.rules(), call.wants(call.lowest), strict=True)
    return [(_shift(made_by) + low, bits) for rule, want in pairs for low, bits in _exactly(rule, want)]


def _exactly(rule: Rule, want: Want) -> Iterator[Bits]:
    if isinstance(want, Residue):
        yield rule.parts[-1].shift, min(rule.bits, (want.modulus & -want.modulus).bit_length() - 1)
    elif want.low == want.high:
        yield from ((part.shift, part.bits) for part in rule.parts)


def _in_common(told: Sequence[Bits], lowest: int) -> int | None:
    """How many bits of a draw agree of states that differ in bit ``lowest`` and none below; ``None``: it cannot fit."""
    if any(low <= lowest < low + bits for low, bits in told):
        return None
    return sum(bits for low, bits in told if low + bits <= lowest)


def _states_with(want: Want, low: int, bits: int, states: int) -> int:
    """How many of the states ``0..states-1`` have what is wanted in so many bits from bit ``low`` on."""
    whole, rest = divmod(states, 1 << low + bits)
    last, part = divmod(rest, 1 << low)
    found = (whole * _values(want, 1 << bits) + _values(want, last)) << low
    return found + part * want.holds(last)


def _values(want: Want, below: int) -> int:
    """How many of ``0..below-1`` are wanted."""
    if isinstance(want, Residue):
        return max(0, -((want.target - below) // want.modulus))
    return max(0, min(want.high + 1, below) - want.low)


def _log_sum(terms: Iterable[float]) -> float:
    return statistics.log_sum(iter(sorted(terms, reverse=True)))
