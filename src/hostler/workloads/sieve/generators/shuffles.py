"""Shuffles: permutations of ``0..n-1`` by Fisher and Yates, with the runtime's own choice of an index.

A draw is the number of its permutation in lexicographic order; it is shown, and read, as the list that the runtime
makes of ``[0, 1, ..., n - 1]``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial
from typing import ClassVar

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators.base import Output, need
from hostler.workloads.sieve.generators.choosers import Chooser
from hostler.workloads.sieve.generators.rules import Rule, Want, Words

MOST = 128


@dataclass(frozen=True)
class Shuffle(Output):
    """Position ``i`` from ``n - 1`` down to 1 is swapped with one chosen from ``0..i``."""

    n: int

    kind: ClassVar[str] = "shuffle"
    chooser: ClassVar[Chooser]

    def __post_init__(self) -> None:
        need(1 < self.n <= MOST, f"{self.kind}: n {self.n} lies outside 2..{MOST}")

    @property
    def lowest(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return factorial(self.n)

    def take(self, words: Words) -> int:
        items = list(range(self.n))
        for i in range(self.n - 1, 0, -1):
            j = self.chooser.take(words, i + 1)
            items[i], items[j] = items[j], items[i]
        return rank(items)

    def rules(self) -> tuple[Rule, ...]:
        return tuple(self.chooser.rule(i + 1) for i in self._positions())

    def wants(self, draw: int) -> tuple[Want, ...]:
        chosen = self._chosen(unrank(draw, self.n))
        return tuple(self.chooser.want(i + 1, j) for i, j in zip(self._positions(), chosen, strict=True))

    def _positions(self) -> Sequence[int]:
        return range(self.n - 1, 0, -1)

    def _chosen(self, items: list[int]) -> list[int]:
        """The indices that made this permutation: the only ones, since each choice fixes one place for good."""
        before, chosen = list(range(self.n)), []
        for i in self._positions():
            j = before.index(items[i])
            before[i], before[j] = before[j], before[i]
            chosen.append(j)
        return chosen

    def read(self, draw: object) -> int:
        if not isinstance(draw, list):
            return Output.read(self, draw)
        if any(type(item) is not int for item in draw) or sorted(draw) != list(range(self.n)):
            raise SpecError(f"{draw!r} is no permutation of 0..{self.n - 1}")
        return rank(draw)

    def show(self, draw: int) -> object:
        return unrank(draw, self.n)


class InsideOut(Shuffle):
    """Position ``i`` from 0 up gets what stands at one chosen from ``0..i``, which becomes ``i``: Go's ``Perm``."""

    def take(self, words: Words) -> int:
        items: list[int] = []
        for i in range(self.n):
            j = self.chooser.take(words, i + 1)
            items.append(i)
            items[i], items[j] = items[j], i
        return rank(items)

    def _positions(self) -> Sequence[int]:
        return range(self.n)

    def _chosen(self, items: list[int]) -> list[int]:
        after, chosen = list(items), []
        for i in range(self.n - 1, -1, -1):
            j = after.index(i)
            after[j] = after[i]
            after.pop()
            chosen.append(j)
        return chosen[::-1]


def rank(items: Sequence[int]) -> int:
    """The place of a permutation of ``0..n-1`` in lexicographic order, from 0."""
    number, left = 0, sorted(items)
    for item in items:
        number = number * len(left) + left.index(item)
        left.remove(item)
    return number


def unrank(number: int, n: int) -> list[int]:
    """The permutation of ``0..n-1`` at this place."""
    digits = []
    for base in range(1, n + 1):
        number, digit = divmod(number, base)
        digits.append(digit)
    left = list(range(n))
    return [left.pop(digit) for digit in reversed(digits)]
