"""Folding what happens into what is known of devices and jobs: who failed where, who succeeded since.

`note` is called before an event's own fold, while the attempt still has its devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from hostler.core.index import Index, group_of
from hostler.core.state import Job, State
from hostler.core.trust import canary
from hostler.core.trust.state import Doubt, Record, Trust
from hostler.model import events
from hostler.model.events import Event, job_of
from hostler.policy import retry
from hostler.policy.quarantine import Strike

Fold: TypeAlias = Callable[[State, Index, Any], None]

FAMILIES_MOST = 1000
"""Families of jobs that are remembered; of more, those not heard of for longest are forgotten."""
NEWEST = 2
"""Places kept of each family, for successes and for failures: the newest elsewhere is among them, wherever one is."""
STRIKES_MOST = 16


def note(state: State, index: Index, event: Event) -> None:
    """Learn from an event that is about to be folded."""
    learn = NOTES.get(type(event))
    if learn is not None:
        learn(state, index, event)


def family(job: Job) -> str:
    """The group of jobs that behave alike which the job is of: kind of work × config, or × family of scripts."""
    group = group_of(job)
    return f"{group.work} {group.label}"


def _attempt_ended(state: State, index: Index, event: events.AttemptEnded) -> None:
    job = state.jobs[job_of(event.attempt)]
    if event.exit_code != 0 or event.reason is not None or job.attempt is None:
        return
    record = _record(state.trust, family(job))
    record.succeeded = _newest(record.succeeded, job.attempt.devices, state.at)
    for device in job.attempt.devices:
        _cleared(state.trust, index, device, event.attempt, job.attempt.leased_at)


def _leased(state: State, index: Index, event: events.AttemptLeased | events.ChunkLeased) -> None:
    others = event.others if isinstance(event, events.AttemptLeased) else ()
    for device in (event.device, *others):
        canary.expect_proved(state, device)
        if not state.trust.takes(device, state.at, busy=True):
            index.closed(device)


def _chunk_done(state: State, index: Index, event: events.ChunkDone) -> None:
    if not state.trust.doubts:
        return
    lease = state.sweeps[job_of(event.chunk)].leases.get(event.chunk)
    if lease is not None:
        _cleared(state.trust, index, lease.device, event.chunk, lease.leased_at)


def _job_requeued(state: State, index: Index, event: events.JobRequeued) -> None:
    _job_failed(state, index, event)
    job = state.jobs[event.job]
    if event.avoid is not None:
        job.avoid = retry.remembered(job.avoid, event.avoid, event.avoid_until, state.at)
    if event.vram_above is not None:
        job.vram_above = max(event.vram_above, job.vram_above or 0.0)
        job.vram_until = event.avoid_until
    job.batch_scale = min(event.batch_scale, job.batch_scale)
    if event.avoid is not None or event.vram_above is not None:
        index.reconsider(job.id, event.avoid_until)


def _job_failed(state: State, index: Index, event: events.JobRequeued | events.JobFailed) -> None:
    job = state.jobs[event.job]
    if not event.against or event.failure is None or job.attempt is None:
        return
    record = _record(state.trust, family(job))
    nodes = (state.devices[device].spec.node for device in event.against)
    record.failed = _newest(record.failed, nodes, state.at)
    strike = Strike(at=state.at, job=job.id, family=family(job), failure=event.failure)
    for device in event.against:
        doubt = state.trust.doubts.setdefault(device, Doubt())
        # What was begun before its quarantine is over is no probe of it.
        if doubt.until is None or job.attempt.leased_at >= doubt.until:
            doubt.strikes = [*doubt.strikes, strike][-STRIKES_MOST:]
            index.doubted.add(device)


def _job_retried(state: State, index: Index, event: events.JobRetried) -> None:
    job = state.jobs[event.job]
    job.avoid, job.vram_above, job.vram_until, job.batch_scale = {}, None, 0.0, 1.0


def _node_joined(state: State, index: Index, event: events.NodeJoined) -> None:
    canary.joined(state, index, event.node)


def _node_linked(state: State, index: Index, event: events.NodeLinked) -> None:
    """A machine that was started again is tried again at once: that may have been what its devices needed."""
    canary.linked(state, index, event)
    node = state.nodes[event.node]
    if node.boot is None or event.boot is None or event.boot == node.boot:
        return
    for spec in node.spec.devices:
        doubt = state.trust.doubts.get(spec.id)
        if doubt is not None and doubt.until is not None:
            doubt.until = min(doubt.until, state.at)


def _device_quarantined(state: State, index: Index, event: events.DeviceQuarantined) -> None:
    state.trust.doubts[event.device] = Doubt(bans=event.strikes, since=state.at, until=event.until, why=event.why)
    index.closed(event.device)
    index.look_again(event.device, event.until)
    if event.device in state.trust.proofs:
        canary.require(state, index, event.device)


def _device_trusted(state: State, index: Index, event: events.DeviceTrusted) -> None:
    state.trust.doubts.pop(event.device, None)
    if event.bans:
        state.trust.doubts[event.device] = Doubt(bans=event.bans)
    index.opened(state, event.device)


NOTES: dict[type, Fold] = {
    events.AttemptLeased: _leased,
    events.ChunkLeased: _leased,
    events.AttemptEnded: _attempt_ended,
    events.ChunkDone: _chunk_done,
    events.JobRequeued: _job_requeued,
    events.JobFailed: _job_failed,
    events.JobRetried: _job_retried,
    events.NodeJoined: _node_joined,
    events.NodeLinked: _node_linked,
}

FOLDS: dict[type, Fold] = {
    events.DeviceQuarantined: _device_quarantined,
    events.DeviceTrusted: _device_trusted,
    events.DeviceProved: canary.device_proved,
}


def _record(trust: Trust, name: str) -> Record:
    known = trust.records.pop(name, None)
    record = trust.records[name] = Record() if known is None else known
    if len(trust.records) > FAMILIES_MOST:
        del trust.records[next(iter(trust.records))]
    return record


def _newest(places: dict[str, float], more: Iterable[str], at: float) -> dict[str, float]:
    """The places, some more among them, of which something was heard last."""
    fresh = dict.fromkeys(more, at)
    older = [(name, then) for name, then in places.items() if name not in fresh]
    return dict([*older, *fresh.items()][-NEWEST:])


def _cleared(trust: Trust, index: Index, device: str, by: str, leased_at: float) -> None:
    """Something succeeded on a device: nothing speaks against it any more, or its probe has come off."""
    doubt = trust.doubts.get(device)
    if doubt is None:
        return
    if doubt.until is None:
        del trust.doubts[device]
    elif leased_at >= doubt.until:
        doubt.proved = by
        index.doubted.add(device)
