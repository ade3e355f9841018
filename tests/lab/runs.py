"""What a journal tells of a sweep that is over: how long it took, beside what the measured speeds would allow."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hostler.model.events import ChunkDone, ChunkLeased, ChunkReturned, ChunkShortened, ChunkTaken, Entry
from hostler.runtime.proof import proof_of
from hostler.store import open_journal


@dataclass
class Run:
    """What the journal tells of a sweep: times in Unix seconds, items and seconds of searching by device."""

    up_at: float
    began_at: float
    ended_at: float
    items: dict[str, int]
    searching_s: dict[str, float]

    @property
    def bound_s(self) -> float:
        """How long it would take if every device searched all the time, each at the speed that was measured of it."""
        per_s = sum(self.items[device] / self.searching_s[device] for device in self.items)
        return sum(self.items.values()) / per_s

    def ratio(self, since: float) -> float:
        """How long it took, in bounds."""
        return (self.ended_at - since) / self.bound_s


def read(state: Path, job: str, stop: int, planted: Sequence[int]) -> Run:
    """A run over `[0, stop)` that is over: each item accepted once, found what was planted and nothing else."""
    journal = open_journal(state)
    try:
        entries, story = list(journal.read()), list(journal.story(job))
        hits = sorted(hit.at for hit in journal.hits(job, 0, 1000))
    finally:
        journal.close()
    proof = proof_of(job, (0, stop), story)
    assert (proof.fault, proof.done, proof.complete) == (None, stop, True)
    assert hits == list(planted)
    run = measured(entries)
    assert sum(run.items.values()) == stop, "the ledger and the chunks tell of another number of items"
    return run


def measured(entries: Sequence[Entry]) -> Run:
    """Items and speeds of the devices, by what was accepted of each; speeds by chunks that were finished."""
    leases: dict[str, ChunkLeased] = {}
    items: dict[str, int] = defaultdict(int)
    timed: dict[str, int] = defaultdict(int)
    searching_s: dict[str, float] = defaultdict(float)
    began_at, ended_at = math.inf, 0.0
    ends: dict[str, int] = {}
    for entry in entries:
        event = entry.event
        if isinstance(event, ChunkLeased):
            leases[event.chunk], ends[event.chunk] = event, event.stop
            began_at = min(began_at, entry.at)
        elif isinstance(event, ChunkShortened):
            ends[event.chunk] = event.stop
        elif isinstance(event, ChunkReturned | ChunkTaken):
            items[leases[event.chunk].device] += event.position - leases[event.chunk].start
            ended_at = max(ended_at, entry.at)
        elif isinstance(event, ChunkDone):
            lease, count = leases[event.chunk], ends[event.chunk] - leases[event.chunk].start
            items[lease.device] += count
            timed[lease.device] += count
            searching_s[lease.device] += event.elapsed_s - (event.overhead_s or 0.0)
            ended_at = max(ended_at, entry.at)
    scaled = {device: searching_s[device] * items[device] / timed[device] for device in timed}
    return Run(entries[0].at, began_at, ended_at, dict(items), scaled)
