"""Jobs that have left the controller's state, as the store keeps them."""

from __future__ import annotations

from hostler.model.record import record
from hostler.model.work import JobState, WorkKind


@record
class PastJob:
    """What is asked for of such a job, and all of it as JSON (`data`), which only the core understands."""

    id: str
    number: int
    key: str | None
    work: WorkKind
    state: JobState
    data: str


@record
class Looked:
    """What was found in the store, and what it was up to date with: the entry by which jobs left last."""

    at: int
    jobs: tuple[PastJob, ...] = ()
