"""Job groups in the state: their submission, their counts, their limits, and what is shown of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

from hostler.core.index import Index
from hostler.core.state import Job, JobGroup, State, duration_of
from hostler.model.codec import record_fault
from hostler.model.errors import IllegalTransition, NotFound, SpecError
from hostler.model.events import Event, JobSubmitted
from hostler.model.groups import JOBS_MAX, GroupResult, GroupSubmitted, GroupView, SubmitGroup
from hostler.model.texts import NUL_RULE
from hostler.model.work import JobState

Emit: TypeAlias = Callable[[Event], None]

SHOWN = 100
"""Characters of a name that an error repeats."""


def find(state: State, name: str) -> JobGroup:
    """The group of this id. Raises `NotFound`."""
    group = state.groups.get(name)
    if group is None:
        raise NotFound(f"there is no job group {name[:SHOWN]!r}; `hostler results` lists them")
    return group


def expect_valid(given: SubmitGroup) -> None:
    """Raise `SpecError` unless a group may have so many jobs and can be read back from the journal."""
    fault = record_fault(given.spec)
    if fault is not None and fault.endswith(NUL_RULE):
        raise SpecError(f"group {given.spec.name!a}: {fault}")
    if fault is not None:
        raise SpecError(f"group {given.spec.name!a} could not be read back from the journal: {fault}")
    if not given.jobs:
        raise SpecError(f"group {given.spec.name!r} has no jobs; submit at least one")
    if len(given.jobs) > JOBS_MAX:
        raise SpecError(f"group {given.spec.name!r} has {len(given.jobs)} jobs, at most {JOBS_MAX} may be in one group")


def newest_of(state: State, ids: Sequence[str]) -> str | None:
    """The newest group that one of these jobs is in; `None` where they are in no group, or have left the state."""
    found = {name for each in ids if each in state.jobs and (name := state.jobs[each].group) is not None}
    return max(found, key=lambda name: state.groups[name].number, default=None)


def submitted(state: State, given: SubmitGroup, fresh: Sequence[JobSubmitted]) -> GroupSubmitted:
    """The event of a group that is made of new jobs."""
    numbers = [int(event.job[1:]) for event in fresh]
    return GroupSubmitted(group=f"g{state.next_group}", spec=given.spec, first=min(numbers), size=len(numbers))


def count(state: State, index: Index, job: Job, end: JobState, sign: int) -> None:
    """Count a job of a group that has ended so (`sign` 1), or that is tried again after such an end (-1)."""
    if job.group is None:
        return
    group = state.groups[job.group]
    if end is JobState.DONE:
        group.done += sign
    elif end is JobState.FAILED:
        group.failed += sign
    else:
        group.cancelled += sign
    if sign < 0:
        return
    group.ended_at = state.at
    most = group.spec.max_failures
    # A failure stops the group, and not the count of earlier ones: a job of a stopped group may be tried again.
    if end is JobState.FAILED and most is not None and group.failed > most:
        index.failing_groups[group.id] = None


def why_stopped(group: JobGroup) -> str:
    """The reason for which the rest of a group is cancelled when too many of its jobs have failed."""
    failed = "1 job of it has" if group.failed == 1 else f"{group.failed} jobs of it have"
    return f"{group.id} was stopped: {failed} failed, max_failures is {group.spec.max_failures}"


def open_jobs(state: State, group: JobGroup) -> list[Job]:
    """The jobs of a group that have not ended and are not being cancelled, in order."""
    jobs = (state.jobs[name] for name in group.jobs if name in state.jobs)
    return [job for job in jobs if not job.state.final and job.cancelling is None]


def view(index: Index, group: JobGroup) -> GroupView:
    """A group in numbers."""
    running = index.group_running[group.id]
    return GroupView(
        id=group.id,
        name=group.spec.name,
        submitted_at=group.submitted_at,
        first=f"j{group.first}",
        last=f"j{group.first + group.size - 1}",
        size=group.size,
        max_running=group.spec.max_running,
        max_failures=group.spec.max_failures,
        jobs={
            "pending": group.open - running,
            "running": running,
            "done": group.done,
            "failed": group.failed,
            "cancelled": group.cancelled,
        },
        ended_at=None if group.open else group.ended_at,
        owner=group.owner,
    )


def views(state: State, index: Index, after: int, limit: int) -> Sequence[GroupView]:
    """Groups in order of submission beyond number `after`."""
    beyond = (group for group in state.groups.values() if group.number > after)
    return [view(index, group) for group in islice(beyond, limit)]


def newest(state: State, index: Index, before: int | None, limit: int, owner: str | None = None) -> Sequence[GroupView]:
    """The newest groups with a number below `before`, the newest first; of one owner where that is given."""
    found = (group for group in reversed(state.groups.values()) if before is None or group.number < before)
    wanted = (group for group in found if owner in (None, group.owner))
    return [view(index, group) for group in islice(wanted, limit)]


def result(job: Job) -> GroupResult:
    """A job of a group with what came of it."""
    return GroupResult(
        job=job.id,
        name=job.spec.name,
        state=job.state,
        parameters=job.spec.parameters,
        attempts=job.attempts,
        device=job.attempt.device if job.attempt else job.last_device,
        submitted_at=job.submitted_at,
        started_at=job.started_at,
        ended_at=job.ended_at,
        duration_s=duration_of(job),
        why=job.why,
        failure=job.failure,
        result=job.result,
    )


def _submitted(state: State, index: Index, event: GroupSubmitted) -> None:
    if event.group in state.groups:
        raise IllegalTransition(f"{event} does not fit: the id is taken")
    number = int(event.group[1:])
    state.groups[event.group] = JobGroup(
        id=event.group,
        number=number,
        spec=event.spec,
        first=event.first,
        size=event.size,
        submitted_at=state.at,
        owner=event.owner,
    )
    state.next_group = max(state.next_group, number + 1)


FOLDS: Mapping[type, Callable[[State, Index, Any], None]] = {GroupSubmitted: _submitted}
