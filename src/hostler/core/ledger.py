"""The proof of which intervals of a sweep are done, exactly once.

At every moment `done`, the leased intervals and `free` are disjoint and together are what was asked for. Intervals are
half-open pairs of Python ints, so ranges beyond 64 bits need nothing special.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import field

from hostler.model.errors import BrokenInvariant, IllegalTransition
from hostler.model.record import entity

Interval = tuple[int, int]


@entity
class Ledger:
    """Coverage of `[start, stop)`. `done` and `free` are sorted and merged; `leased` maps a chunk to its interval."""

    start: int
    stop: int
    free: list[Interval]
    free_items: int
    done: list[Interval] = field(default_factory=list)
    leased: dict[str, Interval] = field(default_factory=dict)
    done_items: int = 0

    @property
    def total(self) -> int:
        """Items asked for."""
        return self.stop - self.start

    @property
    def complete(self) -> bool:
        """Whether every item is done."""
        return self.done_items == self.total

    def next_free(self, length: int) -> Interval:
        """The lowest interval nobody has, `length` items long at most. There must be one."""
        start, stop = self.free[0]
        return start, min(stop, start + length)

    def lease(self, chunk: str, start: int, stop: int) -> None:
        """Give `[start, stop)`, all of it free, to `chunk`."""
        at = bisect_left(self.free, (start + 1,)) - 1
        if chunk in self.leased or start >= stop or at < 0 or not _inside((start, stop), self.free[at]):
            raise IllegalTransition(f"chunk {chunk}: [{start}, {stop}) is not free to lease")
        self.free[at : at + 1] = _without(self.free[at], (start, stop))
        self.free_items -= stop - start
        self.leased[chunk] = (start, stop)

    def shorten(self, chunk: str, stop: int) -> None:
        """Let a lease end at `stop`, which lies in it; what lies behind is free again."""
        if chunk not in self.leased:
            raise IllegalTransition(f"chunk {chunk} holds no lease")
        start, end = self.leased[chunk]
        if not start < stop < end:
            raise IllegalTransition(f"chunk {chunk}: [{start}, {end}) cannot be made to end at {stop}")
        self.leased[chunk] = (start, stop)
        _merge(self.free, (stop, end))
        self.free_items += end - stop

    def settle(self, chunk: str, position: int) -> None:
        """End a lease: `[start, position)` of it is done, the rest is free again."""
        if chunk not in self.leased:
            raise IllegalTransition(f"chunk {chunk} holds no lease")
        start, stop = self.leased[chunk]
        if not start <= position <= stop:
            raise IllegalTransition(f"chunk {chunk}: position {position} lies outside [{start}, {stop})")
        del self.leased[chunk]
        _merge(self.done, (start, position))
        _merge(self.free, (position, stop))
        self.done_items += position - start
        self.free_items += stop - position

    def validate(self) -> None:
        """Raise `BrokenInvariant` unless done, leased and free are disjoint and together are the whole."""
        problem = coverage_fault((self.start, self.stop), [*self.done, *self.free, *self.leased.values()])
        if problem is not None:
            raise BrokenInvariant(f"ledger of [{self.start}, {self.stop}): {problem}")
        if self.done_items != _size(self.done) or self.free_items != _size(self.free):
            raise BrokenInvariant(f"ledger of [{self.start}, {self.stop}): its sums do not match its intervals")


def new_ledger(start: int, stop: int) -> Ledger:
    """A ledger of which nothing is done yet."""
    free = [(start, stop)] if start < stop else []
    return Ledger(start=start, stop=stop, free=free, free_items=stop - start)


def coverage_fault(whole: Interval, parts: Iterable[Interval]) -> str | None:
    """Where `parts` overlap, leave a hole in `whole` or reach beyond it; `None` if they are exactly the whole."""
    reached = whole[0]
    for start, stop in sorted(parts):
        if start != reached:
            return f"[{reached}, {start}) is missing" if start > reached else f"[{start}, {reached}) is there twice"
        reached = stop
    return None if reached == whole[1] else f"it ends at {reached}, not at {whole[1]}"


def _inside(inner: Interval, outer: Interval) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def _without(outer: Interval, inner: Interval) -> list[Interval]:
    rest = ((outer[0], inner[0]), (inner[1], outer[1]))
    return [part for part in rest if part[0] < part[1]]


def _merge(intervals: list[Interval], new: Interval) -> None:
    """Insert an interval that overlaps none of the others, joining it with its neighbours."""
    start, stop = new
    if start == stop:
        return
    at = bisect_left(intervals, (start, stop))
    if at < len(intervals) and intervals[at][0] == stop:
        stop = intervals.pop(at)[1]
    if at > 0 and intervals[at - 1][1] == start:
        start = intervals.pop(at - 1)[0]
    insort(intervals, (start, stop))


def _size(intervals: Iterable[Interval]) -> int:
    return sum(stop - start for start, stop in intervals)
