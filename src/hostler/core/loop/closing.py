"""Segments that are closed while their self-play goes on: they are fetched, and count, before its node may be gone.

A node tells of each. One whose files are this machine's has them here already; from any other they are fetched. Until
then their games are at risk, and what never comes is told of by name. Segments that do not say which games they hold
wait for the end: the next attempt would play their games again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, TypeAlias

from hostler.core.index import Index
from hostler.core.loop import results
from hostler.core.loop.state import Closing, Config, Segment
from hostler.core.state import Job, State, stage_of
from hostler.model import events, inputs
from hostler.model.events import Event, job_of
from hostler.model.learning import SegmentRef, SelfplayResult
from hostler.model.work import StagePayload, WorkKind

Emit: TypeAlias = Callable[[Event], None]


def so_far(state: State, index: Index, given: inputs.SoFar, emit: Emit) -> None:
    """An attempt that runs tells what it has closed; of what cannot be believed its end will say why."""
    job = _running(state, given.attempt)
    if job is None or job.spec.work is not WorkKind.SELFPLAY:
        return
    payload = stage_of(job)
    config, read = state.configs[payload.config], results.read(payload.kind, given.result)
    if not isinstance(read, SelfplayResult) or _fault(config, job, read) is not None:
        return
    told = config.closing.get(given.attempt)
    known = config.segments.keys() | (() if told is None else told.segments.keys())
    fresh = tuple(each for each in read.segments if each.sha256 not in known and each.numbers is not None)
    if not fresh:
        return
    cpu_s = _share(read.cpu_s, fresh, read.segments)
    node = state.nodes[_node(state, job)].spec
    if node.apart:
        emit(
            events.SegmentsClosed(
                config=payload.config,
                job=job.id,
                attempt=given.attempt,
                node=node.name,
                segments=fresh,
                cpu_s=cpu_s,
            )
        )
    else:
        emit(_made(job, fresh, cpu_s))


def secured(state: State, index: Index, given: inputs.Secured, emit: Emit) -> None:
    """What was closed is here."""
    job = _running(state, given.attempt)
    if job is None or not isinstance(job.spec.payload, StagePayload):
        return
    told = state.configs[job.spec.payload.config].closing.get(given.attempt)
    here = () if told is None else tuple(told.segments[name] for name in given.artifacts if name in told.segments)
    if here:
        assert told is not None
        emit(_made(job, here, _share(told.cpu_s, here, tuple(told.segments.values()))))


def write_off(state: State, attempt: str, why: str, emit: Emit) -> None:
    """An attempt is over: what it had closed and was not fetched is lost, and its games are played again."""
    payload = state.jobs[job_of(attempt)].spec.payload
    if not isinstance(payload, StagePayload):
        return
    told = state.configs[payload.config].closing.get(attempt)
    if told is not None:
        lost = tuple(told.segments.values())
        emit(events.SegmentsLost(config=payload.config, job=job_of(attempt), attempt=attempt, segments=lost, why=why))


def awaited(state: State, node: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Attempts of a node, and the segments that they have closed and that are not here yet."""
    for config in state.configs.values():
        for attempt, told in config.closing.items():
            if told.node == node and _running(state, attempt) is not None:
                yield attempt, tuple(told.segments)


def at_risk(state: State) -> Mapping[str, int]:
    """Games that only the node has on which they were played, by node; nodes without any are left out."""
    found: dict[str, int] = {}
    for config in state.configs.values():
        for told in config.closing.values():
            found[told.node] = found.get(told.node, 0) + sum(each.games for each in told.segments.values())
    return found


def resumed(state: State, job: Job) -> Mapping[str, Any]:
    """What an order says besides, so that its next attempt plays no game again that is here."""
    payload = stage_of(job)
    if job.spec.work is not WorkKind.SELFPLAY or job.attempts <= 1:
        return {}
    ours = [each for each in _newer(state.configs[payload.config], job.submitted_at) if each.job == job.id]
    kept = [each for each in reversed(ours) if each.numbers is not None]
    if not kept:
        return {}
    segments = [
        {
            "sha256": each.sha256,
            "bytes": each.bytes,
            "games": each.games,
            "positions": each.positions,
            "numbers": each.numbers,
        }
        for each in kept
    ]
    return {"closed": {"segments": segments, "cpu_s": sum(each.cpu_s or 0.0 for each in kept)}}


def played_again(config: Config, job: Job, result: object) -> str | None:
    """Why games of a result were counted before: each of its order is in one segment, also of those closed earlier."""
    if not isinstance(result, SelfplayResult):
        return None
    told = {segment.sha256 for segment in result.segments}
    for segment in _newer(config, job.submitted_at):
        if segment.job == job.id and segment.numbers is not None and segment.sha256 not in told:
            return f"it leaves out segment {segment.sha256}, which was closed for it: its games would count twice"
    return None


def _fault(config: Config, job: Job, read: SelfplayResult) -> str | None:
    """Why what an attempt tells so far cannot be believed."""
    return results.partial_fault(config, job.id, stage_of(job).order, read) or played_again(config, job, read)


def _running(state: State, attempt: str) -> Job | None:
    """The job of an attempt that has not ended, and is not to."""
    job = state.jobs.get(job_of(attempt))
    if job is None or job.attempt is None or job.attempt.id != attempt or job.cancelling is not None:
        return None
    return job if job.attempt.ended is None else None


def _node(state: State, job: Job) -> str:
    assert job.attempt is not None
    return state.devices[job.attempt.device].spec.node


def _made(job: Job, segments: tuple[SegmentRef, ...], cpu_s: float | None) -> events.SegmentsMade:
    payload = stage_of(job)
    player = str(payload.order["player"])
    return events.SegmentsMade(
        config=payload.config, job=job.id, player=player, segments=segments, cpu_s=cpu_s, unread=True
    )


def _share(cpu_s: float | None, some: Sequence[SegmentRef], of: Sequence[SegmentRef]) -> float | None:
    """Of processor time that was spent on segments what some of them took."""
    return None if cpu_s is None else cpu_s * sum(each.games for each in some) / sum(each.games for each in of)


def _newer(config: Config, since: float) -> Iterator[Segment]:
    """Segments that came after that, the newest first."""
    return takewhile(lambda each: each.at >= since, reversed(config.segments.values()))


def _closed(state: State, index: Index, event: events.SegmentsClosed) -> None:
    """A node has closed segments which are not here yet."""
    config = state.configs[event.config]
    told = config.closing.setdefault(event.attempt, Closing(node=event.node))
    told.segments.update({each.sha256: each for each in event.segments})
    if event.cpu_s is not None:
        told.cpu_s = (told.cpu_s or 0.0) + event.cpu_s


def _lost(state: State, index: Index, event: events.SegmentsLost) -> None:
    """They will never come."""
    del state.configs[event.config].closing[event.attempt]


FOLDS: dict[type, Callable[[State, Index, Any], None]] = {
    events.SegmentsClosed: _closed,
    events.SegmentsLost: _lost,
}
