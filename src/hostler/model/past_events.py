"""Facts of jobs that are long over; they are journalled with all others (`events.py`)."""

from __future__ import annotations

from typing import Literal, TypeAlias

from hostler.model.record import record


@record
class JobsLeft:
    """Jobs that are over have left the controller's state: from now on the store answers for them.

    What they were is written beside this, in the same transaction (`store.past`).
    """

    kind: Literal["jobs.left"] = "jobs.left"
    jobs: tuple[str, ...]


@record
class JobCameBack:
    """Somebody asked for something that needs a job which had left: it is in the state again, as it was."""

    kind: Literal["job.came_back"] = "job.came_back"
    job: str
    record: str
    """What it was, as JSON (`core.past`)."""


PastEvent: TypeAlias = JobsLeft | JobCameBack
