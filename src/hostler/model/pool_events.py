"""Facts about what was asked of clusters. Each is in the journal before anything is done about it."""

from __future__ import annotations

from typing import Literal

from hostler.model.pools import BatchTask, Mode, Span
from hostler.model.record import record


@record
class BatchRequested:
    """A batch job is going to be submitted under this token, and may have been since."""

    kind: Literal["batch.requested"] = "batch.requested"
    node: str
    token: str
    mode: Mode
    tasks: tuple[BatchTask, ...]
    wants: str
    time: Span


@record
class BatchSubmitted:
    """The cluster has the batch job, and calls it so."""

    kind: Literal["batch.submitted"] = "batch.submitted"
    node: str
    token: str
    as_job: str


@record
class BatchClosed:
    """Nothing of the batch runs or waits any more, and all it had to tell is known; or it never came to be."""

    kind: Literal["batch.closed"] = "batch.closed"
    node: str
    token: str
    why: str
