"""A search for a seed as its page shows it: values only, made by whoever asked the controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Survivor(NamedTuple):
    """An item that makes the draws: its E-value, how many of the known draws fit, where it begins, what comes next."""

    item: int
    e_value: float
    fitting: int
    place: str
    """Skip, gap and missing outputs, where they were searched for."""
    following: str


class Sample(NamedTuple):
    """With so many known draws, so many wrong items are expected to survive; a logarithm to base 10."""

    draws: int
    log10_expected: float


@dataclass(frozen=True, slots=True)
class SearchTold:
    """What was asked (`title`, `question`: names and values), and what came of it.

    `draws` are numbers in their order, `None` unknown; empty where they are no plain numbers. `lowest` and `values` say
    which numbers they could be. `done` are the intervals of `[start, stop)` that are searched. `expected` wrong items
    survive by chance of all; `control` is what the same draws in another order gave: how many of which share of the
    range, `None` without one. `curve` is how chance shrinks with more draws, empty where that is not worked out.
    """

    job: str
    title: str
    question: Sequence[tuple[str, str]]
    draws: Sequence[int | None]
    lowest: int
    values: int
    start: int
    stop: int
    done: Sequence[tuple[int, int]]
    expected: float
    survivors: Sequence[Survivor]
    control: tuple[int, float] | None
    curve: Sequence[Sample]
    known: int

    @property
    def done_share(self) -> float:
        """The part of the range that is searched."""
        return sum(stop - start for start, stop in self.done) / (self.stop - self.start)

    @property
    def expected_so_far(self) -> float:
        """How many wrong items were expected to survive in what is searched."""
        return self.expected * self.done_share
