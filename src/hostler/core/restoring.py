"""The journal goes on from a backup, or its database has lost what it had confirmed.

Nodes may know of what was done since, under ids that are in no journal any more.

No id is given twice: jobs, attempts and chunks count on from numbers that nobody can have come to. So whatever a node
tells of what was done since is told of something unknown, and is put down as everything that is unknown. What was on
its way to a node then, and is not there, may have run there and be forgotten: it is not sent once
more, but begun anew, under another id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeAlias

from hostler.core import judging
from hostler.core.index import Index
from hostler.core.state import Device, Job, State
from hostler.model import events, inputs
from hostler.model.errors import UsageError
from hostler.model.events import Event, job_of
from hostler.model.work import JobState

Emit: TypeAlias = Callable[[Event], None]

UNSURE = "the journal was restored, or has lost entries, and its node does not have it: it may have run since, or never"


def _restored(state: State, index: Index, given: inputs.Restored, emit: Emit) -> None:
    """Skip what may be taken."""
    if given.jobs < 1 or given.parts < 1:
        raise UsageError(f"numbers have to be left out: {given.jobs} of jobs, {given.parts} of attempts are none")
    emit(
        events.JournalRestored(
            made_at=given.made_at, next_job=state.next_job + given.jobs, skipped=state.skipped + given.parts
        )
    )


def take_back(state: State, index: Index, device: Device, there: Collection[str], emit: Emit) -> None:
    """A node has been reached, and has these: what else was on its way to it before the restore is begun anew."""
    if state.restored_at is None:
        return
    for name in [each for each in device.attempts if each not in there]:
        job = state.jobs[job_of(name)]
        if _was_on_its_way(state, job):
            _begin_anew(state, index, job, emit)


def _was_on_its_way(state: State, job: Job) -> bool:
    if job.attempt is None or job.state not in (JobState.LEASED, JobState.LAUNCHING):
        return False
    return state.restored_at is not None and job.attempt.leased_at <= state.restored_at


def _begin_anew(state: State, index: Index, job: Job, emit: Emit) -> None:
    assert job.attempt is not None
    if job.cancelling is not None:
        judging.lose(state, index, job.attempt.id, UNSURE, emit)
        return
    emit(events.AttemptLost(attempt=job.attempt.id, evidence=UNSURE))
    emit(events.JobRequeued(job=job.id, failure=None, not_before=state.at, why=UNSURE))


TAKES: dict[type, Callable[[State, Index, Any, Emit], Any]] = {inputs.Restored: _restored}
