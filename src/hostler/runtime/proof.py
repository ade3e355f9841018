"""The proof of a sweep, from the journal alone: what was accepted is folded again, by nothing that decided anything."""

from __future__ import annotations

from collections.abc import Iterable

from hostler.core.ledger import Interval, coverage_fault
from hostler.model.events import ChunkDone, ChunkLeased, ChunkReturned, ChunkShortened, ChunkTaken, Entry
from hostler.model.views import LedgerProof


def proof_of(job: str, whole: Interval, story: Iterable[Entry]) -> LedgerProof:
    """Whether the accepted intervals of a sweep are disjoint and lie in the whole, and whether they are all of it.

    `story` are the sweep's entries. What is missing is no fault: the sweep is not complete.
    """
    leased: dict[str, Interval] = {}
    accepted: list[Interval] = []
    hits = 0
    for entry in story:
        event = entry.event
        if isinstance(event, ChunkLeased):
            leased[event.chunk] = (event.start, event.stop)
        elif isinstance(event, ChunkDone):
            accepted.append(leased.pop(event.chunk))
            hits += len(event.hits)
        elif isinstance(event, ChunkShortened):
            leased[event.chunk] = (leased[event.chunk][0], event.stop)
        elif isinstance(event, ChunkReturned | ChunkTaken):
            start, _ = leased.pop(event.chunk)
            accepted.append((start, event.position))
            hits += len(event.hits)
    accepted = [part for part in accepted if part[0] < part[1]]
    missing = _missing(whole, accepted)
    fault = coverage_fault(whole, [*accepted, *missing])
    return LedgerProof(
        job=job,
        total=whole[1] - whole[0],
        done=sum(stop - start for start, stop in accepted),
        intervals=len(accepted),
        hits=hits,
        complete=fault is None and not missing,
        fault=fault,
    )


def _missing(whole: Interval, accepted: Iterable[Interval]) -> list[Interval]:
    found, (reached, end) = [], whole
    for start, stop in sorted(accepted):
        if reached < start:
            found.append((reached, start))
        reached = max(reached, stop)
    return [*found, (reached, end)] if reached < end else found
