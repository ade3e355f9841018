"""The jobs of the state in order: by number, for lists; those that are over, the one that ended first in front."""

from __future__ import annotations

import heapq
from bisect import bisect_right, insort
from collections.abc import Collection, Iterator
from dataclasses import field
from typing import TypeVar

from hostler.core.uses import Ranked
from hostler.model.record import entity

EntryT = TypeVar("EntryT", Ranked, tuple[float, str])


@entity
class Roll:
    """A part of the index: it could be computed from the state at any time."""

    numbers: list[int] = field(default_factory=list)
    over: dict[int, float] = field(default_factory=dict)
    """By number: when a job ended, or when it was last seen that it cannot leave yet. It may have been tried again."""
    order: list[tuple[float, int]] = field(default_factory=list)
    """A heap of the same. Entries go stale."""
    look_at: float = 0.0
    """When jobs may leave again."""

    def add(self, number: int) -> None:
        """A job is in the state."""
        insort(self.numbers, number)

    def drop(self, gone: Collection[int]) -> None:
        """Jobs are in the state no more."""
        self.numbers = [number for number in self.numbers if number not in gone]
        for number in gone:
            self.over.pop(number, None)

    def ended(self, number: int, at: float) -> None:
        """A job is over, or is to be looked at as if it had ended then."""
        self.over[number] = at
        heapq.heappush(self.order, (at, number))

    def first(self) -> tuple[float, int] | None:
        """The first of those, by time; `None`: nothing is over."""
        while self.order and self.over.get(self.order[0][1]) != self.order[0][0]:
            heapq.heappop(self.order)
        return self.order[0] if self.order else None

    def take(self) -> None:
        """Take the first out: it leaves, or is put back as `ended`."""
        del self.over[heapq.heappop(self.order)[1]]

    def beyond(self, number: int) -> Iterator[int]:
        """Numbers in order, after that one."""
        for place in range(bisect_right(self.numbers, number), len(self.numbers)):
            yield self.numbers[place]


def without(heap: list[EntryT], names: Collection[str]) -> bool:
    """Take the entries out of a heap, in place, whose last part is one of these names; whether there were any."""
    kept = [entry for entry in heap if entry[-1] not in names]
    if len(kept) == len(heap):
        return False
    heap[:] = kept
    heapq.heapify(heap)
    return True


def ascending(heap: list[EntryT]) -> Iterator[EntryT]:
    """The entries of a heap in order: each child is looked at only after its parent."""
    front = [(heap[0], 0)] if heap else []
    while front:
        entry, at = heapq.heappop(front)
        yield entry
        for child in (2 * at + 1, 2 * at + 2):
            if child < len(heap):
                heapq.heappush(front, (heap[child], child))
