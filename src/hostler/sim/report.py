"""What came of a virtual run, folded from its journal alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from hostler.core.ledger import Interval, coverage_fault
from hostler.model.events import (
    ChunkDone,
    ChunkLeased,
    ChunkReturned,
    ChunkShortened,
    ChunkTaken,
    Event,
    JobDone,
    JobSubmitted,
    ResultRefused,
    job_of,
)
from hostler.model.record import entity, record
from hostler.model.work import JobState, SweepPayload


@record
class Report:
    """The outcome of `World.run`. Times are virtual seconds."""

    idle: bool
    """Whether everything was over before the time was."""
    makespan_s: float
    jobs: Mapping[JobState, int]
    accepted: Mapping[str, int]
    """Results accepted per job."""
    coverage: Mapping[str, str | None]
    """Of each sweep: what is wrong with the intervals accepted, `None` if they are exactly what was asked for."""
    hits: Mapping[str, tuple[int, ...]]
    """Accepted hits of each sweep, sorted."""
    busy: Mapping[str, float]
    """Share of the makespan that each device had a process at work."""
    refused: int
    events: Mapping[str, int]
    faults: Mapping[str, int]
    """Faults that happened, by kind."""


@entity
class Folded:
    """What a journal says was accepted."""

    accepted: Counter[str]
    wholes: dict[str, Interval]
    parts: dict[str, list[Interval]]
    hits: dict[str, list[int]]
    events: Counter[str]
    refused: int = 0

    def coverage(self) -> dict[str, str | None]:
        """Of each sweep: where its accepted intervals overlap, leave a hole or reach beyond it."""
        return {name: coverage_fault(whole, self.parts[name]) for name, whole in self.wholes.items()}


def fold(events: Iterable[Event]) -> Folded:
    """Count what was accepted, without the core's help."""
    folded = Folded(accepted=Counter(), wholes={}, parts={}, hits={}, events=Counter())
    leased: dict[str, Interval] = {}
    for event in events:
        folded.events[event.kind] += 1
        match event:
            case JobSubmitted(job=job, spec=spec) if isinstance(spec.payload, SweepPayload):
                folded.wholes[job] = spec.payload.start, spec.payload.stop
                folded.parts[job], folded.hits[job] = [], []
            case JobDone(job=job):
                folded.accepted[job] += 1
            case ResultRefused():
                folded.refused += 1
            case ChunkLeased(chunk=chunk, start=start, stop=stop):
                leased[chunk] = start, stop
            case ChunkDone(chunk=chunk, hits=hits):
                _accept(folded, chunk, leased.pop(chunk), hits)
            case ChunkShortened(chunk=chunk, stop=stop):
                leased[chunk] = leased[chunk][0], stop
            case (
                ChunkReturned(chunk=chunk, position=position, hits=hits)
                | ChunkTaken(chunk=chunk, position=position, hits=hits)
            ):
                _accept(folded, chunk, (leased.pop(chunk)[0], position), hits)
    return folded


def _accept(folded: Folded, chunk: str, part: Interval, hits: Iterable[Mapping[str, object]]) -> None:
    sweep = job_of(chunk)
    if part[0] < part[1]:
        folded.parts[sweep].append(part)
    folded.hits[sweep].extend(at for hit in hits if isinstance(at := hit["at"], int))
