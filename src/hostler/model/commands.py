"""What the controller wants done in the world. Commands follow from events, and are executed once these are durable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler.model.learning import Match
from hostler.model.planning import Instance
from hostler.model.record import record


@record
class AttemptOrder:
    """One execution of a job, complete: the backend needs to know nothing else. Carried out once per `id`."""

    id: str
    queue: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    walltime_s: float | None
    memory_bytes: int | None
    grace_s: float
    inputs: Mapping[str, Any] | None
    """Results of the jobs this one comes after, by name and by id; the process finds them in `$HOSTLER_INPUTS`."""
    lease_s: float | None = None
    """The node ends it when it has heard nothing from a controller for so long; `None`: never."""


@record
class WorkerOrder:
    """A warm worker for one sweep on one device."""

    id: str
    queue: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    digest: str
    params: Mapping[str, Any]
    silence_s: float
    start_s: float
    lease_s: float | None = None
    """The same as for attempts."""


@record
class ChunkOrder:
    """One chunk for a worker. Carried out once per `id`."""

    id: str
    start: int
    stop: int


@record
class Launch:
    """Start an attempt."""

    node: str
    order: AttemptOrder


@record
class Stop:
    """End an attempt, gently first."""

    node: str
    attempt: str
    reason: str


@record
class Lend:
    """Give a chunk to a worker; the worker is declared with it."""

    node: str
    worker: WorkerOrder
    chunk: ChunkOrder


@record
class Recall:
    """Ask for a chunk back."""

    node: str
    chunk: str
    reason: str


@record
class Trim:
    """Let a chunk end earlier: what lies from `stop` on is another's."""

    node: str
    chunk: str
    stop: int


@record
class CloseWorker:
    """End a worker that has no more to do."""

    node: str
    worker: str


@record
class Discard:
    """Forget an attempt's directory on its node."""

    node: str
    attempt: str


NodeCommand = Launch | Stop | Lend | Recall | Trim | CloseWorker | Discard
"""What a backend does on a node."""


@record
class Fit:
    """Fit the ratings of a config to these of its first `through` matches; the answer is `Fitted`.

    `frozen` has players who take part no more, at the rating they had: opponents, but not rated again.
    """

    config: str
    anchors: Mapping[str, float]
    frozen: Mapping[str, float]
    matches: tuple[Match, ...]
    through: int


@record
class Solve:
    """Find the best plan for the whole fleet; the answer is `Planned`. Asked for anew where none comes."""

    instance: Instance


Command = NodeCommand | Fit | Solve
