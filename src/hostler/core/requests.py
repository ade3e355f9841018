"""Requests of owners about jobs and job groups: submissions, cancellations, retries and priorities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from hostler.core import dependencies, groups, judging, notes
from hostler.core.index import Index
from hostler.core.loop import closing, intake as loop, spawning
from hostler.core.naming import find_job
from hostler.core.slices import SLICE, Slices
from hostler.core.state import Job, JobGroup, State, Sweep
from hostler.core.submission import admit
from hostler.model import events, inputs
from hostler.model.codec import record_fault
from hostler.model.errors import Conflict, SpecError
from hostler.model.events import Event
from hostler.model.work import FailureClass, JobState, StagePayload

Emit: TypeAlias = Callable[[Event], None]
GroupAnswer: TypeAlias = tuple[str | None, Sequence[str], Sequence[str]]
"""The id of a group (`None`: all jobs were known, and are in no group), the ids of its jobs, and of those known."""
Take: TypeAlias = Callable[[State, Index, Any, Emit], Any]


def _submit(state: State, index: Index, given: inputs.Submit, emit: Emit) -> Slices[tuple[str, ...]]:
    ids, fresh = yield from admit(state, given.specs)
    if given.strict:
        yield from notes.expect_none(state, index, fresh)
    yield from _queue(state, fresh, emit)
    return ids


def _submit_group(state: State, index: Index, given: inputs.SubmitGroup, emit: Emit) -> Slices[GroupAnswer]:
    groups.expect_valid(given)
    ids, fresh = yield from admit(state, given.jobs)
    if not fresh:
        return groups.newest_of(state, ids), ids, ids
    if given.strict:
        yield from notes.expect_none(state, index, fresh)
    made = groups.submitted(state, given, fresh)
    emit(made)
    yield from _queue(state, [replace(event, group=made.group) for event in fresh], emit)
    new = {event.job for event in fresh}
    return made.group, ids, tuple(name for name in ids if name not in new)


def _queue(state: State, fresh: Sequence[events.JobSubmitted], emit: Emit) -> Slices[None]:
    """Queue jobs. Nothing else is decided or taken between its pauses."""
    for at, event in enumerate(fresh, 1):
        emit(event)
        if at % SLICE == 0:
            yield
    for at, event in enumerate(fresh, 1):
        if at % SLICE == 0:
            yield
        judging.fail_if_orphaned(state, state.jobs[event.job], emit)


def _cancel(state: State, index: Index, given: inputs.Cancel, emit: Emit) -> None:
    job = find_job(state, given.job)
    if job.state.final:
        raise Conflict(f"{job.id} is {job.state} already; there is nothing to cancel")
    if job.cancelling is None:
        _cancel_job(state, index, job, given.reason, emit)


def _cancel_group(state: State, index: Index, given: inputs.CancelGroup, emit: Emit) -> None:
    group = groups.find(state, given.group)
    if not group.open:
        raise Conflict(f"{group.id} has no job that has not ended; there is nothing to cancel")
    _cancel_all(state, index, group, given.reason, emit)


def stop_failing_groups(state: State, index: Index, emit: Emit) -> None:
    """Cancel the rest of each group of which more jobs have failed than may."""
    while index.failing_groups:
        group = state.groups[next(iter(index.failing_groups))]
        _cancel_all(state, index, group, groups.why_stopped(group), emit)
        index.failing_groups.pop(group.id, None)


def _cancel_all(state: State, index: Index, group: JobGroup, reason: str, emit: Emit) -> None:
    for job in groups.open_jobs(state, group):
        if not job.state.final:  # it may have failed meanwhile, because it comes after another one of them
            _cancel_job(state, index, job, reason, emit)


def _cancel_job(state: State, index: Index, job: Job, reason: str, emit: Emit) -> None:
    asked_for = spawning.asked_for(state, job) is not None
    emit(events.CancelRequested(job=job.id, reason=reason))
    if job.attempt is not None and job.attempt.ended is not None:  # nothing runs any more; its files are not awaited
        closing.write_off(state, job.attempt.id, f"{job.id} was cancelled", emit)
        emit(events.JobCancelled(job=job.id))
        judging.fail_dependents(state, index, job.id, emit)
    else:
        close_if_idle(state, index, job, emit)
    if isinstance(job.spec.payload, StagePayload) and not asked_for:
        loop.after_cancelled(state, index, job, emit)


def _retry(state: State, index: Index, given: inputs.Retry, emit: Emit) -> None:
    job = find_job(state, given.job)
    if isinstance(job.spec.payload, StagePayload):
        config = job.spec.payload.config
        raise Conflict(f"{job.id} belongs to the loop of {config}, which orders what it needs anew by itself")
    if _is_barred_somewhere(state, job):
        emit(events.JobRetried(job=job.id))
        return
    if job.state not in (JobState.FAILED, JobState.CANCELLED):
        raise Conflict(f"{job.id} is {job.state}; only a failed or a cancelled job can be tried again")
    gone = dependencies.never_done(state, job)
    if gone:
        raise Conflict(
            f"{job.id} comes after {', '.join(gone)}, which will not be done; retry {gone[0]}, it revives both"
        )
    if job.id in state.sweeps and state.sweeps[job.id].ledger.complete:
        raise Conflict(f"{job.id} has searched everything and found more than max_hits; submit a stricter search")
    emit(events.JobRetried(job=job.id))
    _revive_dependents(state, index, job, emit)


def _retry_group(state: State, index: Index, given: inputs.RetryGroup, emit: Emit) -> None:
    group = groups.find(state, given.group)
    wanted = {JobState.FAILED} if given.only_failed else {JobState.FAILED, JobState.CANCELLED}
    jobs = [job for job in dependencies.jobs_of(state, group.id) if job.state in wanted]
    if not jobs:
        which = "failed" if given.only_failed else "failed or cancelled"
        raise Conflict(f"{group.id} has no {which} jobs; there is nothing to try again")
    retried = [job for job in jobs if _retry_in_group(state, index, job, emit)]
    if not retried:
        gone = dependencies.never_done(state, jobs[0])
        before = gone[0] if gone else jobs[0].id
        raise Conflict(f"no job of {group.id} can be tried again: they come after {before}; retry {before} first")


def _retry_in_group(state: State, index: Index, job: Job, emit: Emit) -> bool:
    """Try a job of a group again, unless it was revived already or cannot be; whether it is tried again."""
    if not job.state.final:
        return True
    finished = job.id in state.sweeps and state.sweeps[job.id].ledger.complete
    if finished or dependencies.never_done(state, job):
        return False
    emit(events.JobRetried(job=job.id))
    _revive_dependents(state, index, job, emit)
    return True


def _set_priority(state: State, index: Index, given: inputs.SetPriority, emit: Emit) -> None:
    fault = record_fault(given)
    if fault is not None:
        raise SpecError(f"{given.job!a} cannot be ranked so: {fault}")
    job = find_job(state, given.job)
    if job.state.final:
        raise Conflict(f"{job.id} is {job.state} already; its priority means nothing any more")
    if job.priority != given.priority:
        emit(events.PriorityChanged(job=job.id, priority=given.priority))


def is_ending(state: State, sweep: Sweep) -> bool:
    """Whether a sweep is being cancelled or has been given up."""
    return sweep.given_up is not None or state.jobs[sweep.job].cancelling is not None


def close_if_idle(state: State, index: Index, job: Job, emit: Emit) -> None:
    """End a job that is being ended as soon as no device holds any of it."""
    sweep = state.sweeps.get(job.id)
    if job.attempt is not None or (sweep is not None and sweep.leases):
        return
    if job.cancelling is not None:
        emit(events.JobCancelled(job=job.id))
    elif sweep is not None and sweep.given_up is not None:
        emit(events.JobFailed(job=job.id, failure=sweep.given_up[0], why=sweep.given_up[1]))
    else:
        return
    judging.fail_dependents(state, index, job.id, emit)


def _is_barred_somewhere(state: State, job: Job) -> bool:
    """Whether the job is a sweep that goes on, and there are devices that it may not use any more."""
    sweep = state.sweeps.get(job.id)
    return sweep is not None and bool(sweep.barred) and not job.state.final and not is_ending(state, sweep)


def _revive_dependents(state: State, index: Index, job: Job, emit: Emit) -> None:
    revived = list(dependencies.names_of(job))
    while revived:
        for name in list(index.dependents.get(revived.pop(), ())):
            other = state.jobs[name]
            if other.failure is FailureClass.DEPENDENCY and not dependencies.never_done(state, other):
                emit(events.JobRetried(job=name))
                revived.extend(dependencies.names_of(other))


TAKES: Mapping[type, Take] = {
    inputs.Submit: _submit,
    inputs.SubmitGroup: _submit_group,
    inputs.Cancel: _cancel,
    inputs.CancelGroup: _cancel_group,
    inputs.Retry: _retry,
    inputs.RetryGroup: _retry_group,
    inputs.SetPriority: _set_priority,
}
