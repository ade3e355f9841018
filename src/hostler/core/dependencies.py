"""Dependencies of jobs: the jobs and the job groups that must be done before a job starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hostler.core.state import Job, State
from hostler.model.work import JobState


def is_done(state: State, name: str) -> bool:
    """Whether a job is done, or all jobs of a group are."""
    group = state.groups.get(name)
    return state.jobs[name].state is JobState.DONE if group is None else group.done == group.size


def never_done(state: State, job: Job) -> list[str]:
    """Dependencies of a job that have failed or were cancelled, so that the job cannot start."""
    return failed_of(state, job.after)


def failed_of(state: State, after: Iterable[str]) -> list[str]:
    """Those of these jobs and groups that have failed or were cancelled; jobs that are yet to be submitted have not."""
    return [name for name in after if (name in state.groups or name in state.jobs) and _has_failed(state, name)]


def unfinished(state: State, job: Job) -> set[str]:
    """Dependencies of a job that are not done."""
    return {name for name in job.after if not is_done(state, name)}


def names_of(job: Job) -> tuple[str, ...]:
    """The names under which other jobs depend on a job: its id and its group."""
    return (job.id,) if job.group is None else (job.id, job.group)


def jobs_of(state: State, name: str) -> Iterator[Job]:
    """The job of an id, or the jobs of a group, as far as they are in the state."""
    group = state.groups.get(name)
    ids = (name,) if group is None else group.jobs
    return (state.jobs[each] for each in ids if each in state.jobs)


def _has_failed(state: State, name: str) -> bool:
    group = state.groups.get(name)
    if group is not None:
        return bool(group.failed or group.cancelled)
    return state.jobs[name].state in (JobState.FAILED, JobState.CANCELLED)
