"""Jobs by kind of work: how many are in which state, and which of those that wait was submitted first."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from dataclasses import field

from hostler.model.record import entity
from hostler.model.work import JobState, WorkKind


@entity
class Kinds:
    """A part of the index: it could be computed from the state at any time."""

    counts: Counter[tuple[WorkKind, JobState]] = field(default_factory=Counter)
    waiting: dict[WorkKind, set[int]] = field(default_factory=lambda: defaultdict(set))
    """The numbers of jobs that wait."""
    order: dict[WorkKind, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Heaps of them. Entries go stale, but never the first."""

    def move(self, work: WorkKind, number: int, old: JobState | None, new: JobState) -> None:
        """A job went from one state to another."""
        if old is not None:
            self.counts[work, old] -= 1
        self.counts[work, new] += 1
        if new is JobState.PENDING:
            self.waiting[work].add(number)
            heapq.heappush(self.order[work], number)
        elif old is JobState.PENDING:
            self._left(self.waiting[work], self.order[work], number)

    def oldest(self, work: WorkKind) -> int | None:
        """The number of the job that was submitted first of those that wait."""
        order = self.order.get(work)
        return order[0] if order else None

    def _left(self, waiting: set[int], order: list[int], number: int) -> None:
        waiting.discard(number)
        while order and order[0] not in waiting:
            heapq.heappop(order)
