"""Counting: what an event changes about who has which device is preceded by what was had up to then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from hostler.core.metering.rows import MOST_HOURS, count, rows
from hostler.core.metering.state import Meter, Sum
from hostler.model import events
from hostler.model.events import Event, job_of
from hostler.model.usage import HOUR_S, hour_of
from hostler.model.work import WorkKind

if TYPE_CHECKING:
    from hostler.core.index import Index
    from hostler.core.state import Job, State

    Touched: TypeAlias = Callable[[State, Index, Any], Iterable[str]]
    Tell: TypeAlias = Callable[[State, Any], None]

DARK = (events.ControllerStarted, events.JournalRestored)
"""Nobody has looked at the fleet between the event before one of these and itself."""


def note(state: State, index: Index, event: Event) -> None:
    """Count up to now what an event is about to change.

    Rows of hours that are over by then are added to `index.metered.rows`, for whoever writes them beside the event.
    """
    if state.metering.hour is None:
        state.metering.hour, state.metering.begun_at = hour_of(state.at), state.at
    dark = isinstance(event, DARK)
    if dark:
        _settle(state, index, state.devices, max(index.before, state.metering.begun_at))
    _end_hours(state, index, dark=dark)
    if dark:
        _settle(state, index, state.devices, state.at, dark=True)
    touched = TOUCHED.get(type(event))
    if touched is not None:
        _settle(state, index, touched(state, index, event), state.at)
    told = TOLD.get(type(event))
    if told is not None:
        told(state, event)


def _end_hours(state: State, index: Index, *, dark: bool) -> None:
    metering, now = state.metering, hour_of(state.at)
    assert metering.hour is not None
    for hour in range(metering.hour, min(now, metering.hour + MOST_HOURS)):
        ends_at = float((hour + 1) * HOUR_S)
        index.metered.rows += rows(state, index, hour, metering.meters, ends_at, dark=dark)
        index.metered.told.clear()
        metering.hour, metering.begun_at, metering.meters, metering.seq = hour + 1, ends_at, {}, state.seq
    if metering.hour < now:
        metering.hour, metering.begun_at = now, float(now * HOUR_S)


def _settle(state: State, index: Index, names: Iterable[str], to: float, *, dark: bool = False) -> None:
    meters = state.metering.meters
    for name in names:
        meter = meters.setdefault(name, Meter(at=state.metering.begun_at))
        device = state.devices.get(name)
        if device is not None:
            count(state, index, device, meter.sums, to - meter.at, dark=dark)
        meter.at = max(meter.at, to)


def _of_attempt(state: State, index: Index, event: Any) -> Iterable[str]:
    return _devices_of(state, job_of(event.attempt))


def _of_job(state: State, index: Index, event: Any) -> Iterable[str]:
    return _devices_of(state, event.job)


def _devices_of(state: State, name: str) -> Iterable[str]:
    job = state.jobs.get(name)
    return () if job is None or job.attempt is None else job.attempt.devices


def _of_lease(state: State, index: Index, event: events.AttemptLeased) -> Iterable[str]:
    return (event.device, *event.others)


def _of_chunk(state: State, index: Index, event: Any) -> Iterable[str]:
    return _device_of(state, event.chunk)


def _device_of(state: State, chunk: str) -> Iterable[str]:
    lease = state.sweeps[job_of(chunk)].leases.get(chunk)
    return () if lease is None else (lease.device,)


def _of_chunk_lease(state: State, index: Index, event: events.ChunkLeased) -> Iterable[str]:
    return (event.device,)


def _of_node(state: State, index: Index, event: Any) -> Iterable[str]:
    return index.devices_at.get(event.node, ())


def _of_spec(state: State, index: Index, event: events.NodeJoined) -> Iterable[str]:
    """A device that is new begins now."""
    return {**index.devices_at.get(event.node.name, {}), **dict.fromkeys(each.id for each in event.node.devices)}


TOUCHED: Mapping[type, Touched] = {
    events.AttemptLeased: _of_lease,
    events.AttemptStarted: _of_attempt,
    events.AttemptEnded: _of_attempt,
    events.JobDone: _of_job,
    events.JobFailed: _of_job,
    events.JobRequeued: _of_job,
    events.JobCancelled: _of_job,
    events.ChunkLeased: _of_chunk_lease,
    events.ChunkDone: _of_chunk,
    events.ChunkTaken: _of_chunk,
    events.ChunkReturned: _of_chunk,
    events.NodeJoined: _of_spec,
    events.NodeLinked: _of_node,
    events.NodeUnreachable: _of_node,
}


def _job_done(state: State, event: events.JobDone) -> None:
    _add(state, state.jobs[event.job], done=1)


def _job_failed(state: State, event: events.JobFailed) -> None:
    _add(state, state.jobs[event.job], failed=1)


def _job_requeued(state: State, event: events.JobRequeued) -> None:
    _add(state, state.jobs[event.job], failed=int(event.failure is not None))


def _add(state: State, job: Job, done: int = 0, failed: int = 0) -> None:
    """Of several devices the first one has it."""
    if job.attempt is not None:
        each = _sum(state, job.attempt.device, job.spec.work)
        each.done, each.failed = each.done + done, each.failed + failed


def _chunk_done(state: State, event: events.ChunkDone) -> None:
    for name in _device_of(state, event.chunk):
        _sum(state, name, WorkKind.SWEEP).done += 1


def _chunk_returned(state: State, event: events.ChunkReturned) -> None:
    for name in _device_of(state, event.chunk):
        _sum(state, name, WorkKind.SWEEP).failed += event.blame


def _attempt_ended(state: State, event: events.AttemptEnded) -> None:
    """On a part of a cluster it may have begun and ended between two looks: it had its slots then."""
    job = state.jobs[job_of(event.attempt)]
    attempt = job.attempt
    if attempt is None or attempt.started_at is not None or event.started_at is None:
        return
    if state.nodes[state.devices[attempt.device].spec.node].spec.pool is None:
        return
    for name in attempt.devices:
        each, had_s = _sum(state, name, job.spec.work), max(event.ended_at - event.started_at, 0.0)
        each.device_s, each.up_s = each.device_s + had_s, each.up_s + had_s


def _sum(state: State, device: str, work: WorkKind) -> Sum:
    return state.metering.meters[device].sums.setdefault(work.value, Sum())


TOLD: Mapping[type, Tell] = {
    events.JobDone: _job_done,
    events.JobFailed: _job_failed,
    events.JobRequeued: _job_requeued,
    events.ChunkDone: _chunk_done,
    events.ChunkReturned: _chunk_returned,
    events.AttemptEnded: _attempt_ended,
}
