"""Folding facts into the state: one small function for each event. Replay is this and nothing else.

Nothing here decides, reads a clock or asks a policy anything but how to learn from a measurement. An event that does
not fit the state raises `IllegalTransition`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from hostler.core import (
    accounts,
    artifacts,
    cordons,
    dependencies,
    environments,
    forecast,
    foreign_use,
    groups,
    leases,
    nearness,
    past,
    planning,
    pools,
    tally,
    yielding,
)
from hostler.core.access import folds as access
from hostler.core.alerting import folds as alerting
from hostler.core.care import folds as care
from hostler.core.index import Index
from hostler.core.ledger import new_ledger
from hostler.core.loop import folds as loop
from hostler.core.metering import folds as metering
from hostler.core.state import (
    RESTARTED,
    Attempt,
    ChunkLease,
    Device,
    Job,
    Node,
    State,
    Sweep,
    learn_speed,
    speed_of,
)
from hostler.core.trust import folds as trust
from hostler.model import events
from hostler.model.errors import IllegalTransition
from hostler.model.events import Entry, job_of
from hostler.model.fleet import Link, Process
from hostler.model.work import FailureClass, JobState, StagePayload, SweepPayload
from hostler.policy import chunking, retry

Fold: TypeAlias = Callable[[State, Index, Any], None]

HOUR_S, HOURS_KEPT = 3600, 25
ARRIVED_S = 60.0
"""What was sent so long before a link broke has arrived: a dead link is noticed sooner."""


def apply(state: State, index: Index, entry: Entry) -> None:
    """Fold one journal entry into the state. Entries come in order, none left out."""
    if entry.seq != state.seq + 1:
        raise IllegalTransition(f"entry {entry.seq} does not follow entry {state.seq}")
    state.seq = entry.seq
    index.before = state.at
    state.at = max(state.at, entry.at)
    index.now = max(index.now, state.at)
    trust.note(state, index, entry.event)
    tally.note(state, entry.event)
    metering.note(state, index, entry.event)
    environments.note(state, index, entry.event)
    FOLDS[type(entry.event)](state, index, entry.event)


def _controller_started(state: State, index: Index, event: events.ControllerStarted) -> None:
    state.epoch, state.begun_at = event.epoch, state.at
    _unlink_all(state, index)


def _journal_restored(state: State, index: Index, event: events.JournalRestored) -> None:
    state.unused[state.next_job] = event.next_job
    state.next_job, state.skipped, state.restored_at = event.next_job, event.skipped, state.at
    state.next_group += event.skipped
    _unlink_all(state, index)


def _unlink_all(state: State, index: Index) -> None:
    for node in state.nodes.values():
        _unlink(state, index, node, RESTARTED, alive_at=index.before)


def _job_submitted(state: State, index: Index, event: events.JobSubmitted) -> None:
    _expect(event.job not in state.jobs, event, "the id is taken")
    job = Job(
        id=event.job,
        number=int(event.job[1:]),
        spec=event.spec,
        priority=event.spec.priority,
        submitted_at=state.at,
        after=event.after,
        wanted=event.why,
        group=event.group,
        owner=event.owner,
        max_running=None if event.group is None else state.groups[event.group].spec.max_running,
    )
    state.next_job = max(state.next_job, job.number + 1)
    state.jobs[job.id] = job
    index.roll.add(job.number)
    if event.spec.key is not None:
        state.keys[event.spec.key] = job.id
    payload = event.spec.payload
    if isinstance(payload, SweepPayload):
        state.sweeps[job.id] = Sweep(job=job.id, ledger=new_ledger(payload.start, payload.stop))
    if isinstance(payload, StagePayload):
        loop.job_queued(state, index, job)
    index.count(job, None, JobState.PENDING)
    index.expect(job, 1)
    index.await_dependencies(state, job)
    index.enqueue(state, job)


def _priority_changed(state: State, index: Index, event: events.PriorityChanged) -> None:
    job = state.jobs[event.job]
    job.priority = event.priority
    if job.state is JobState.PENDING:
        index.enqueue(state, job)


def _cancel_requested(state: State, index: Index, event: events.CancelRequested) -> None:
    job = state.jobs[event.job]
    _expect(not job.state.final, event, f"the job is {job.state}")
    job.cancelling = event.reason
    index.active.discard(job.id)


def _sweep_barred(state: State, index: Index, event: events.SweepBarred) -> None:
    state.sweeps[event.job].barred[event.device] = event.why


def _sweep_given_up(state: State, index: Index, event: events.SweepGivenUp) -> None:
    state.sweeps[event.job].given_up = (event.failure, event.why)
    index.active.discard(event.job)


def _job_cancelled(state: State, index: Index, event: events.JobCancelled) -> None:
    job = state.jobs[event.job]
    job.why = job.cancelling
    _finish(state, index, job, JobState.CANCELLED, event)


def _job_retried(state: State, index: Index, event: events.JobRetried) -> None:
    job = state.jobs[event.job]
    sweep = state.sweeps.get(job.id)
    if sweep is not None:
        _forgive(sweep)
    if sweep is not None and job.state in (JobState.PENDING, JobState.RUNNING):
        index.new_work = True
        return
    _expect(job.state in (JobState.FAILED, JobState.CANCELLED), event, f"the job is {job.state}")
    job.failures, job.failure, job.why, job.cancelling, job.ended_at = {}, None, None, None, None
    groups.count(state, index, job, job.state, -1)
    job.not_before = state.at
    index.expect(job, 1)
    _move(index, job, JobState.PENDING)
    index.blocked.pop(job.id, None)
    missing = dependencies.unfinished(state, job)
    if missing:
        index.blocked[job.id] = missing
    index.enqueue(state, job)


def _job_requeued(state: State, index: Index, event: events.JobRequeued) -> None:
    job = state.jobs[event.job]
    _expect(job.state.held, event, f"the job is {job.state}")
    if event.failure is not None:
        job.failures[event.failure] = job.failures.get(event.failure, 0) + 1
    job.preempted += job.attempt is not None and job.attempt.yielding is not None
    _release_device(state, index, job)
    job.not_before = event.not_before
    job.why = event.why
    if event.progress is not None:
        index.expect(job, -1)
        job.progress = event.progress
        index.expect(job, 1)
    _move(index, job, JobState.PENDING)
    index.enqueue(state, job)


def _job_failed(state: State, index: Index, event: events.JobFailed) -> None:
    job = state.jobs[event.job]
    job.failure, job.why = event.failure, event.why
    if event.failure is not FailureClass.DEPENDENCY:
        job.failures[event.failure] = job.failures.get(event.failure, 0) + 1
    _finish(state, index, job, JobState.FAILED, event)


def _job_done(state: State, index: Index, event: events.JobDone) -> None:
    job = state.jobs[event.job]
    held = job.attempt.id if job.attempt else None
    _expect(held == event.attempt, event, f"the result is of {event.attempt}, the device is held by {held}")
    if job.attempt is not None and job.attempt.elapsed_s is not None and _ran_at_one_go(job):
        forecast.judge(state, job, job.attempt.expected_s, job.attempt.elapsed_s)
        forecast.learn(state, job, state.devices[job.attempt.device].spec, job.attempt.elapsed_s)
        if job.spec.serves is not None:
            index.lessons[forecast.family_of(job)] += 1
    job.result = event.result
    _finish(state, index, job, JobState.DONE, event)
    index.forget_dependent(job)
    for name in dependencies.names_of(job):
        if dependencies.is_done(state, name):
            index.release_dependents(state, name)


def _ran_at_one_go(job: Job) -> bool:
    """Whether the last attempt did the whole job, not what earlier ones had left of it."""
    return job.progress == 0 and (job.attempts == 1 or not job.spec.checkpoints)


def _attempt_leased(state: State, index: Index, event: events.AttemptLeased) -> None:
    job, device = state.jobs[event.job], state.devices[event.device]
    _expect(job.state is JobState.PENDING, event, f"the job is {job.state}")
    job.attempt = Attempt(
        id=event.attempt,
        device=event.device,
        others=event.others,
        lane=event.lane,
        why=event.why,
        leased_at=state.at,
        booked_at=state.at,
        predicted_s=forecast.at_most_s(state, job, device.spec),
        expected_s=forecast.median_s(state, index, job, device),
    )
    job.attempts += 1
    job.last_device, job.took_s = event.device, None
    for name in job.attempt.devices:
        state.devices[name].attempts.append(event.attempt)
    index.attempt_put(state, job, job.attempt)
    accounts.taken(state, index, job, job.attempt)
    _note_devices(state, index, job.attempt)
    _move(index, job, JobState.LEASED)
    if isinstance(job.spec.payload, StagePayload):
        loop.job_leased(state, index, job)


def _preempt_requested(state: State, index: Index, event: events.PreemptRequested) -> None:
    _, attempt = _held(state, event.attempt, event)
    attempt.yielding = event.why
    _note_devices(state, index, attempt)


def _attempt_launching(state: State, index: Index, event: events.AttemptLaunching) -> None:
    job, attempt = _held(state, event.attempt, event)
    attempt.process = Process.QUEUED
    nearness.brought(state, event.attempt)
    _move(index, job, JobState.LAUNCHING)


def _attempt_started(state: State, index: Index, event: events.AttemptStarted) -> None:
    job, attempt = _held(state, event.attempt, event)
    attempt.process = Process.ALIVE
    attempt.pid, attempt.pid_start, attempt.started_at = event.pid, event.pid_start, state.at
    job.started_at = state.at
    accounts.begun(state, index, job, attempt, state.at)
    _move(index, job, JobState.RUNNING)
    pools.look_again(state, index, state.nodes[state.devices[attempt.device].spec.node].spec)


def _attempt_ended(state: State, index: Index, event: events.AttemptEnded) -> None:
    job, attempt = _held(state, event.attempt, event)
    attempt.process = Process.ENDED
    if event.started_at is not None:
        was_begun = attempt.started_at is not None
        attempt.started_at, attempt.elapsed_s = event.started_at, max(event.ended_at - event.started_at, 0.0)
        # The clock of a node may be wrong, and may be set while an attempt runs.
        job.started_at = min(max(event.started_at, attempt.leased_at), state.at)
        job.took_s = min(attempt.elapsed_s, state.at - attempt.leased_at)
        if not was_begun:
            accounts.begun(state, index, job, attempt, state.at - attempt.elapsed_s)
    job.cut_off += event.reason == retry.SHORT
    attempt.ended = None if event.fetch is None else event
    _move(index, job, JobState.COLLECTING)


def _files_fetched(state: State, index: Index, event: events.FilesFetched) -> None:
    job, attempt = _held(state, event.attempt, event)
    _expect(attempt.ended is not None, event, "nothing of it was to be fetched")
    attempt.ended = None
    job.files, job.unfetched = event.files, event.unfetched


def _attempt_lost(state: State, index: Index, event: events.AttemptLost) -> None:
    _, attempt = _held(state, event.attempt, event)
    attempt.process = Process.ENDED


def _chunk_leased(state: State, index: Index, event: events.ChunkLeased) -> None:
    job, sweep, device = state.jobs[event.job], state.sweeps[event.job], state.devices[event.device]
    sweep.ledger.lease(event.chunk, event.start, event.stop)
    lease = ChunkLease(device=event.device, leased_at=state.at, expected_s=event.expected_s)
    lease.began_at = None if device.chunks else state.at
    sweep.leases[event.chunk] = lease
    sweep.workers.add(event.device)
    sweep.chunks += 1
    device.chunks.append(event.chunk)
    index.chunk_put(sweep.job, event.device, event.expected_s)
    queued_s = index.loads[event.device].chunks
    if queued_s is not None and queued_s > chunking.AHEAD_S:
        index.look_again(event.device, state.at + queued_s - chunking.AHEAD_S)
    index.sweep_at = state.at
    _note_work(state, index, sweep, device)
    if job.state is JobState.PENDING:
        job.started_at = job.started_at or state.at
        _move(index, job, JobState.RUNNING)


def _chunk_done(state: State, index: Index, event: events.ChunkDone) -> None:
    sweep, lease = _leased(state, event.chunk, event)
    sweep.in_a_row.pop(lease.device, None)
    start, stop = sweep.ledger.leased[event.chunk]
    _settle_chunk(state, index, sweep, event.chunk, stop)
    sweep.chunks_done += 1
    sweep.hits += len(event.hits)
    sweep.served_s += event.elapsed_s
    index.attained_s[sweep.job] += event.elapsed_s
    accounts.serve(state, index, lease.device, state.jobs[sweep.job], event.elapsed_s)
    learn_speed(state, sweep, lease.device, stop - start, event)
    sweep.silent.pop(lease.device, None)
    device = state.devices[lease.device]
    for name in {job_of(chunk) for chunk in device.chunks}:
        # Sweeps of one kernel share what was learnt.
        _note_work(state, index, state.sweeps[name], device)


def _chunk_shortened(state: State, index: Index, event: events.ChunkShortened) -> None:
    sweep, lease = _leased(state, event.chunk, event)
    start, stop = sweep.ledger.leased[event.chunk]
    had_free = bool(sweep.ledger.free)
    sweep.ledger.shorten(event.chunk, event.stop)
    lease.lent_stop = lease.lent_stop or stop
    if lease.expected_s is not None:
        left_s = lease.expected_s * (event.stop - start) / (stop - start)
        index.chunk_shortened(sweep.job, lease.device, lease.expected_s - left_s)
        lease.expected_s = left_s
    if not had_free:
        index.new_work = True


def _chunk_taken(state: State, index: Index, event: events.ChunkTaken) -> None:
    sweep, _ = _leased(state, event.chunk, event)
    _settle_chunk(state, index, sweep, event.chunk, event.position)
    sweep.hits += len(event.hits)
    if event.silent:
        sweep.silent[event.device] = state.at


def _chunk_returned(state: State, index: Index, event: events.ChunkReturned) -> None:
    sweep, lease = _leased(state, event.chunk, event)
    start, _ = sweep.ledger.leased[event.chunk]
    _settle_chunk(state, index, sweep, event.chunk, event.position)
    sweep.hits += len(event.hits)
    if event.position > start:
        sweep.in_a_row.pop(lease.device, None)
    if event.blame:
        _strike(sweep, lease, event.position, forward=event.position > start, at=state.at)


def _result_refused(state: State, index: Index, event: events.ResultRefused) -> None:
    state.refused += 1


def _node_joined(state: State, index: Index, event: events.NodeJoined) -> None:
    known = state.nodes.get(event.node.name)
    node = known or Node(spec=event.node, since=state.at)
    state.nodes[event.node.name] = node
    if known is not None:
        index.part(known.spec)
    node.spec = event.node
    index.join(event.node)
    for spec in event.node.devices:
        device = state.devices.setdefault(spec.id, Device(spec=spec))
        device.spec = spec
        index.opened(state, spec.id)
        yielding.note(state, index, device)
    if known is not None:
        accounts.recount(state, index)
        leases.watch(state, index, node)
    planning.fleet_changed(index, len(event.node.devices))
    # What is fitting for a job may depend on which other nodes there are.
    index.new_work = True


def _node_linked(state: State, index: Index, event: events.NodeLinked) -> None:
    node = state.nodes[event.node]
    nearness.another_agent(state, event)
    node.link, node.since, node.trouble = Link.UP, state.at, None
    node.agent, node.incarnation, node.boot, node.linked_until = event.agent, event.incarnation, event.boot, None
    for device in node.spec.devices:
        index.opened(state, device.id)
    planning.fleet_changed(index, len(node.spec.devices))


def _node_unreachable(state: State, index: Index, event: events.NodeUnreachable) -> None:
    _unlink(state, index, state.nodes[event.node], event.why, alive_at=state.at)


def _rules_set(state: State, index: Index, event: events.RulesSet) -> None:
    state.rules = event.rules
    index.aims.clear()
    index.claims.clear()
    index.new_work = index.room_changed = True


def _hour_ended(state: State, index: Index, event: events.HourEnded) -> None:
    """That it happened has been counted (`core.metering`)."""


def _trouble_recorded(state: State, index: Index, event: events.TroubleRecorded) -> None:
    state.troubles += 1


FOLDS: dict[type, Fold] = {
    events.ControllerStarted: _controller_started,
    events.JournalRestored: _journal_restored,
    events.JobSubmitted: _job_submitted,
    events.PriorityChanged: _priority_changed,
    events.CancelRequested: _cancel_requested,
    events.SweepBarred: _sweep_barred,
    events.SweepGivenUp: _sweep_given_up,
    events.JobCancelled: _job_cancelled,
    events.JobRetried: _job_retried,
    events.JobRequeued: _job_requeued,
    events.JobFailed: _job_failed,
    events.JobDone: _job_done,
    events.AttemptLeased: _attempt_leased,
    events.PreemptRequested: _preempt_requested,
    events.RulesSet: _rules_set,
    events.AttemptLaunching: _attempt_launching,
    events.AttemptStarted: _attempt_started,
    events.AttemptEnded: _attempt_ended,
    events.AttemptLost: _attempt_lost,
    events.FilesFetched: _files_fetched,
    events.ChunkLeased: _chunk_leased,
    events.ChunkDone: _chunk_done,
    events.ChunkShortened: _chunk_shortened,
    events.ChunkTaken: _chunk_taken,
    events.ChunkReturned: _chunk_returned,
    events.ResultRefused: _result_refused,
    events.NodeJoined: _node_joined,
    events.NodeLinked: _node_linked,
    events.NodeUnreachable: _node_unreachable,
    events.HourEnded: _hour_ended,
    events.TroubleRecorded: _trouble_recorded,
    **loop.FOLDS,
    **trust.FOLDS,
    **care.FOLDS,
    **cordons.FOLDS,
    **foreign_use.FOLDS,
    **environments.FOLDS,
    **pools.FOLDS,
    **access.FOLDS,
    **alerting.FOLDS,
    **artifacts.FOLDS,
    **groups.FOLDS,
    **past.FOLDS,
}


def _expect(fits: bool, event: object, why: str) -> None:
    if not fits:
        raise IllegalTransition(f"{event} does not fit: {why}")


def _held(state: State, attempt: str, event: object) -> tuple[Job, Attempt]:
    job = state.jobs[job_of(attempt)]
    if job.attempt is None or job.attempt.id != attempt:
        raise IllegalTransition(f"{event} does not fit: {attempt} is not the attempt that {job.id} runs now")
    return job, job.attempt


def _leased(state: State, chunk: str, event: object) -> tuple[Sweep, ChunkLease]:
    sweep = state.sweeps[job_of(chunk)]
    if chunk not in sweep.leases:
        raise IllegalTransition(f"{event} does not fit: {chunk} is not leased")
    return sweep, sweep.leases[chunk]


def _strike(sweep: Sweep, lease: ChunkLease, position: int, forward: bool, at: float) -> None:
    sweep.strikes[position] = sweep.strikes.get(position, 0) + 1
    sweep.struck.setdefault(position, set()).add(lease.device)
    count, counted_at = sweep.in_a_row.get(lease.device, (0, lease.leased_at))
    # Chunks that were out together come back together: that is one failure.
    if not forward and lease.leased_at >= counted_at:
        sweep.in_a_row[lease.device] = (count + 1, at)


def _forgive(sweep: Sweep) -> None:
    sweep.given_up, sweep.strikes, sweep.struck, sweep.in_a_row, sweep.barred = None, {}, {}, {}, {}
    sweep.silent = {}


def _forget_workers(state: State, node: str, before: float) -> None:
    """Of sweeps that were over before then: their workers on the node have been told to end."""
    for sweep in state.sweeps.values():
        ended_at = state.jobs[sweep.job].ended_at
        if sweep.workers and ended_at is not None and ended_at <= before:
            sweep.workers -= {name for name in sweep.workers if state.devices[name].spec.node == node}


def _move(index: Index, job: Job, new: JobState) -> None:
    index.count(job, job.state, new)
    job.state = new


def _finish(state: State, index: Index, job: Job, new: JobState, event: object) -> None:
    _expect(not job.state.final, event, f"the job is {job.state}")
    _release_device(state, index, job)
    index.expect(job, -1)
    index.active.discard(job.id)
    index.blocked.pop(job.id, None)
    job.ended_at = state.at
    index.roll.ended(job.number, state.at)
    waited = job.state is JobState.PENDING
    _move(index, job, new)
    groups.count(state, index, job, new, 1)
    if waited:
        index.left(state, job)
    if isinstance(job.spec.payload, StagePayload):
        loop.job_over(state, index, job, done=new is JobState.DONE)
        job.spec = replace(job.spec, payload=_remembered(job.spec.payload))


def _remembered(payload: StagePayload) -> StagePayload:
    """An order without the long list of an export: it is in the journal, and nobody asks for it again."""
    return replace(payload, order={name: value for name, value in payload.order.items() if name != "segments"})


def _release_device(state: State, index: Index, job: Job) -> None:
    attempt = job.attempt
    if attempt is None:
        return
    for name in attempt.devices:
        state.devices[name].attempts.remove(attempt.id)
    index.attempt_taken(state, job, attempt)
    accounts.given_back(state, index, job, attempt)
    for name in attempt.devices:
        index.opened(state, name)
    node = state.nodes[state.devices[attempt.device].spec.node]
    index.made_way(state, job, node)
    pools.look_again(state, index, node.spec)
    held_s = state.at - attempt.leased_at
    job.attempt = None
    _note_devices(state, index, attempt)
    if isinstance(job.spec.payload, StagePayload):
        loop.job_released(state, index, job, held_s)


def _note_devices(state: State, index: Index, attempt: Attempt) -> None:
    for name in attempt.devices:
        yielding.note(state, index, state.devices[name])


def _settle_chunk(state: State, index: Index, sweep: Sweep, chunk: str, position: int) -> None:
    had_free = bool(sweep.ledger.free)
    if position > sweep.ledger.leased[chunk][0]:
        sweep.progressed_at = state.at
    _note_hour(sweep, position - sweep.ledger.leased[chunk][0], state.at)
    sweep.ledger.settle(chunk, position)
    lease = sweep.leases.pop(chunk)
    device = state.devices[lease.device]
    device.chunks.remove(chunk)
    _note_first(state, device)
    index.chunk_taken(sweep.job, device, lease.expected_s)
    index.opened(state, lease.device)
    _note_work(state, index, sweep, device)
    if sweep.ledger.free and not had_free:
        index.new_work = True


def _note_hour(sweep: Sweep, items: int, at: float) -> None:
    hour = int(at // HOUR_S)
    sweep.hours[hour] = sweep.hours.get(hour, 0) + items
    for old in [each for each in sweep.hours if each <= hour - HOURS_KEPT]:
        del sweep.hours[old]


def _note_first(state: State, device: Device) -> None:
    if device.chunks:
        lease = state.sweeps[job_of(device.chunks[0])].leases[device.chunks[0]]
        lease.began_at = lease.began_at or state.at


def _note_work(state: State, index: Index, sweep: Sweep, device: Device) -> None:
    name = device.spec.id
    if not any(job_of(chunk) == sweep.job for chunk in device.chunks):
        index.off_work(sweep.job, name)
        return
    speed = speed_of(state, sweep, name)
    index.at_work(sweep.job, name, 0.0 if speed is None else speed.per_s)


def _unlink(state: State, index: Index, node: Node, why: str, alive_at: float) -> None:
    if node.link is Link.UP and node.since <= alive_at - ARRIVED_S:
        _forget_workers(state, node.spec.name, alive_at - ARRIVED_S)
    was_linked = node.link is Link.UP
    node.link, node.since, node.trouble = Link.DOWN, state.at, why
    if was_linked:
        # Of a controller that ended nobody knows when: up to its successor's start the node may have heard from it.
        node.linked_until = state.at
        leases.watch(state, index, node)
    # What was not good enough beside this node may be now.
    index.new_work = True
    planning.fleet_changed(index, len(node.spec.devices))
    for device in node.spec.devices:
        index.closed(device.id)
