"""Job groups: jobs that were submitted together and are waited for, cancelled, listed and depended on as one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from hostler.model.record import record
from hostler.model.work import NAME_MAX, FailureClass, JobSpec, JobState

GROUP_ID = re.compile(r"g[0-9]+")
JOBS_MAX = 10_000
"""Jobs of one group."""


@record
class GroupSpec:
    """A group as its owner asks for it, without its jobs."""

    name: Annotated[str, Field(min_length=1, max_length=NAME_MAX)]
    max_running: Annotated[int, Field(ge=1, le=JOBS_MAX)] | None = None
    """Jobs of the group that hold devices at the same time, at most, over all nodes."""
    max_failures: Annotated[int, Field(ge=0, le=JOBS_MAX)] | None = None
    """Jobs of the group that may fail; when one more has failed, the rest of the group is cancelled."""


@record
class SubmitGroup:
    """Submit these jobs as a group: all of them or, if one cannot be, none.

    The answer is the id of the group, the ids of the jobs, and the ids of those jobs that were known.
    Jobs that are known by their keys stay in the groups they are in. Where all are known, no group is made, and the
    answer is the newest group that one of them is in.
    """

    spec: GroupSpec
    jobs: tuple[JobSpec, ...]
    strict: bool = False
    """Whether it is refused where no device can take one of them as the fleet is now."""


@record
class CancelGroup:
    """Cancel all jobs of a group that have not ended."""

    group: str
    reason: str = "cancelled by its owner"


@record
class RetryGroup:
    """Try the failed jobs of a group again, and its cancelled jobs, too, unless `only_failed`."""

    group: str
    only_failed: bool = False


@record
class GroupSubmitted:
    """A group was submitted. Its jobs have consecutive numbers, and their submissions follow in the same step."""

    kind: Literal["group.submitted"] = "group.submitted"
    group: str
    spec: GroupSpec
    first: int
    """The lowest number of its jobs."""
    size: int
    """How many jobs it has."""
    owner: str | None = None
    """The person it belongs to; `None`: an earlier version wrote this."""


@record
class GroupView:
    """A group in numbers."""

    id: str
    name: str
    submitted_at: float
    first: str
    """The id of its first job; its jobs have consecutive numbers."""
    last: str
    size: int
    max_running: int | None
    max_failures: int | None
    jobs: Mapping[str, int]
    """How many of its jobs are `pending`, `running` (hold a device), `done`, `failed`, `cancelled`."""
    ended_at: float | None
    """When its last job ended; `None` while a job of it has not ended."""
    owner: str | None = None
    """The person it belongs to; `None`: it was submitted to an earlier version."""


@record
class GroupResult:
    """A job of a group: its parameters and what came of it."""

    job: str
    name: str
    state: JobState
    parameters: Mapping[str, str]
    attempts: int
    device: str | None
    """Where it runs, or ran last."""
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    duration_s: float | None
    """How long its last attempt ran, by the clock of its node where that reported it; `None`: it has not ended."""
    why: str | None
    failure: FailureClass | None
    result: Any
