"""What a way to search is: it says whether it applies, what it costs, and finds candidates.

A candidate is an item that the judge (:mod:`hostler.workloads.sieve.judge`) still has to confirm: a method may find too
many, never too few, except as :class:`Offer` says. Nothing here imports numpy or numba.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

from hostler.workloads.sieve.spec import Spec


class Finder(Protocol):
    """A search that is set up: made once for a question, asked for many intervals, by one thread."""

    def find(self, start: int, stop: int) -> list[int]:
        """The candidates among the items ``[start, stop)``, ascending, each once; raises :class:`TooManyHits`."""
        ...


@dataclass(frozen=True, slots=True)
class Offer:
    """What a method offers for a question.

    ``why`` says in one sentence, for people, what makes it apply and what it does. An interval costs ``fixed_s``
    CPU-seconds once, and its items over ``items_per_s``; ``math.inf`` where items cost nothing. ``missed`` is the
    probability that the true item is not found: more than 0 only where the question allows it (its ``miss``).
    """

    why: str
    fixed_s: float
    items_per_s: float
    make: Callable[[], Finder]
    missed: float = 0.0

    def cpu_s(self, items: int) -> float:
        """CPU-seconds for so many items."""
        return self.fixed_s + items / self.items_per_s


class Method(Protocol):
    """One way to search."""

    name: ClassVar[str]

    def offer(self, spec: Spec) -> Offer | str:
        """What it offers for ``spec``; a text says, for people, why it does not apply."""
        ...
