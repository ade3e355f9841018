"""Facts that happened. They are journalled; folding them, in order, gives the state back.

A decision is a fact too: it carries its reasons and the values it was based on, and is never taken again.
The time of an event and its place in the order are kept beside it, in the journal (`Entry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from hostler.model.fleet import NodeSpec
from hostler.model.learning import (
    ConfigName,
    ConfigSpec,
    DatasetRef,
    Lengths,
    Match,
    Rating,
    SegmentRef,
    SegmentVerdict,
    Sha256,
    TrainingResult,
)
from hostler.model.record import record
from hostler.model.work import FailureClass, JobSpec, Priority, WorkKind


@record
class ControllerStarted:
    """A controller took up this journal."""

    kind: Literal["controller.started"] = "controller.started"
    version: str
    epoch: int


@record
class JobSubmitted:
    """Somebody wants this done. `after` names ids; `spec.after` is what was written."""

    kind: Literal["job.submitted"] = "job.submitted"
    job: str
    spec: JobSpec
    after: tuple[str, ...] = ()
    why: str | None = None
    """What made the controller want it; `None` where somebody asked."""


@record
class PriorityChanged:
    """The owner ranks a job anew."""

    kind: Literal["job.priority"] = "job.priority"
    job: str
    priority: Priority


@record
class CancelRequested:
    """The owner does not want the job any more; what runs of it is being ended."""

    kind: Literal["job.cancel_requested"] = "job.cancel_requested"
    job: str
    reason: str


@record
class SweepBarred:
    """Decision: the device is given nothing more of this sweep, which failed there, until the sweep is tried again."""

    kind: Literal["sweep.barred"] = "sweep.barred"
    job: str
    device: str
    why: str


@record
class SweepGivenUp:
    """Decision: the sweep cannot be finished; its chunks are called back, and then it fails."""

    kind: Literal["sweep.given_up"] = "sweep.given_up"
    job: str
    failure: FailureClass
    why: str


@record
class JobCancelled:
    """Nothing of the job runs any more, by its owner's wish."""

    kind: Literal["job.cancelled"] = "job.cancelled"
    job: str


@record
class JobRetried:
    """The owner wants a failed or cancelled job, or a sweep on barred devices, tried again with fresh budgets."""

    kind: Literal["job.retried"] = "job.retried"
    job: str


@record
class JobRequeued:
    """An attempt came to nothing and the job goes back to its old place in the queue, not before `not_before`."""

    kind: Literal["job.requeued"] = "job.requeued"
    job: str
    failure: FailureClass | None
    """`None` where nobody is to blame, as when a queued attempt was called back."""
    not_before: float
    why: str


@record
class JobFailed:
    """The job is given up."""

    kind: Literal["job.failed"] = "job.failed"
    job: str
    failure: FailureClass
    why: str


@record
class JobDone:
    """The one accepted result. For a script it is the attempt's; for a sweep, the summary of its ledger."""

    kind: Literal["job.done"] = "job.done"
    job: str
    attempt: str | None
    result: Any = None


@record
class AttemptLeased:
    """Decision: this job runs on this device now. `why` gives the values it was based on."""

    kind: Literal["attempt.leased"] = "attempt.leased"
    job: str
    attempt: str
    device: str
    why: str


@record
class AttemptLaunching:
    """The backend took the order; whether a process exists yet is unknown."""

    kind: Literal["attempt.launching"] = "attempt.launching"
    attempt: str


@record
class AttemptStarted:
    """A process of the attempt exists."""

    kind: Literal["attempt.started"] = "attempt.started"
    attempt: str
    pid: int
    pid_start: int


@record
class AttemptEnded:
    """The attempt's process has ended (or never began), as its node saw it."""

    kind: Literal["attempt.ended"] = "attempt.ended"
    attempt: str
    started_at: float | None
    ended_at: float
    exit_code: int | None
    signal: int | None
    reason: str | None
    error: str | None
    cpu_s: float | None
    max_rss_bytes: int | None
    result: Any = None
    result_error: str | None = None
    left: bool | None = None
    """Whether it left output or files on its node; if not, its folder there is given up at once."""


@record
class AttemptLost:
    """There is positive evidence that the attempt is dead and that nobody will report on it."""

    kind: Literal["attempt.lost"] = "attempt.lost"
    attempt: str
    evidence: str


@record
class ChunkLeased:
    """Decision: this device searches `[start, stop)` of the sweep. `expected_s` is `None` for a probe."""

    kind: Literal["chunk.leased"] = "chunk.leased"
    job: str
    chunk: str
    device: str
    start: int
    stop: int
    expected_s: float | None


@record
class ChunkDone:
    """The whole interval of the chunk is searched; its hits are accepted."""

    kind: Literal["chunk.done"] = "chunk.done"
    chunk: str
    hits: tuple[dict[str, Any], ...]
    elapsed_s: float


@record
class ChunkReturned:
    """The chunk was not finished: `[start, position)` is searched and accepted, the rest is pending again."""

    kind: Literal["chunk.returned"] = "chunk.returned"
    chunk: str
    position: int
    hits: tuple[dict[str, Any], ...]
    reason: str
    error: str | None
    blame: bool
    """Whether it counts against the sweep's budget of worker failures."""


@record
class ResultRefused:
    """A result came that must not count: late, doubled, of other parameters, or of an interval already done."""

    kind: Literal["result.refused"] = "result.refused"
    of: str
    why: str


@record
class NodeJoined:
    """A node is part of the fleet, with these devices; a later one of the same name replaces it."""

    kind: Literal["node.joined"] = "node.joined"
    node: NodeSpec


@record
class NodeLinked:
    """The controller reached the node's agent, which holds these attempts and chunks."""

    kind: Literal["node.linked"] = "node.linked"
    node: str
    agent: str
    incarnation: int
    boot: str | None
    attempts: tuple[str, ...]
    chunks: tuple[str, ...]


@record
class NodeUnreachable:
    """The link to the node broke. What runs there runs on, for all we know."""

    kind: Literal["node.unreachable"] = "node.unreachable"
    node: str
    why: str


@record
class TroubleRecorded:
    """Something of the controller's own failed and was not swallowed: a loop, a request, a request's answer."""

    kind: Literal["trouble.recorded"] = "trouble.recorded"
    where: str
    what: str


@record
class ConfigDeclared:
    """Settings describe a training config; a later one of the same name replaces it."""

    kind: Literal["config.declared"] = "config.declared"
    config: ConfigName
    spec: ConfigSpec


@record
class ConfigRetired:
    """The settings name the config no more: nothing new is queued for it, and all that is known of it stays."""

    kind: Literal["config.retired"] = "config.retired"
    config: ConfigName


@record
class SegmentsMade:
    """Self-play closed these segments; each is told once, whatever becomes of the job."""

    kind: Literal["config.segments"] = "config.segments"
    config: ConfigName
    job: str
    player: str
    segments: tuple[SegmentRef, ...]
    cpu_s: float | None


@record
class SegmentsJudged:
    """The quality gate measured these segments; what it refused is not offered to it again."""

    kind: Literal["config.judged"] = "config.judged"
    config: ConfigName
    job: str
    segments: tuple[SegmentVerdict, ...]
    quality: Mapping[str, float | None]
    lengths: Lengths | None
    bootstrap: bool


@record
class DatasetMade:
    """A dataset is published. `segments` is its window: what it was chosen from."""

    kind: Literal["config.dataset"] = "config.dataset"
    config: ConfigName
    job: str
    dataset: DatasetRef
    segments: tuple[Sha256, ...]


@record
class ModelMade:
    """Training published a model: the first of its config, or a candidate."""

    kind: Literal["config.model"] = "config.model"
    config: ConfigName
    job: str
    training: TrainingResult


@record
class MatchesPlayed:
    """An evaluation's games. They never enter training unless asked."""

    kind: Literal["config.played"] = "config.played"
    config: ConfigName
    job: str
    matches: tuple[Match, ...]


@record
class ConfigRated:
    """Ratings fitted to the first `matches` matches of the config; `None`: nothing connects the player to an anchor."""

    kind: Literal["config.rated"] = "config.rated"
    config: ConfigName
    matches: int
    ratings: Mapping[str, Rating | None]


@record
class ModelPromoted:
    """Decision: from now on the config's current model is this one."""

    kind: Literal["model.promoted"] = "model.promoted"
    config: ConfigName
    model: Sha256
    over: Sha256 | None
    groups: int
    llr: float | None
    why: str


@record
class ModelRejected:
    """Decision: the candidate was not shown to be better."""

    kind: Literal["model.rejected"] = "model.rejected"
    config: ConfigName
    model: Sha256
    over: Sha256
    groups: int
    llr: float | None
    why: str


@record
class ModelRolledBack:
    """Somebody made an earlier model the current one again."""

    kind: Literal["model.rolled_back"] = "model.rolled_back"
    config: ConfigName
    model: Sha256
    was: Sha256
    why: str


@record
class StageResting:
    """Decision: after `failures` failures in a row the stage rests until then."""

    kind: Literal["config.resting"] = "config.resting"
    config: ConfigName
    stage: WorkKind
    failures: int
    until: float
    why: str


@record
class RatingFailed:
    """Ratings could not be fitted to the first `matches` matches; they stay as they were until there are more."""

    kind: Literal["config.unrated"] = "config.unrated"
    config: ConfigName
    matches: int
    why: str


JobEvent = (
    JobSubmitted
    | PriorityChanged
    | CancelRequested
    | SweepBarred
    | SweepGivenUp
    | JobCancelled
    | JobRetried
    | JobRequeued
    | JobFailed
    | JobDone
)
AttemptEvent = AttemptLeased | AttemptLaunching | AttemptStarted | AttemptEnded | AttemptLost
ChunkEvent = ChunkLeased | ChunkDone | ChunkReturned
FleetEvent = ControllerStarted | ResultRefused | NodeJoined | NodeLinked | NodeUnreachable | TroubleRecorded
LoopEvent = (
    ConfigDeclared
    | ConfigRetired
    | SegmentsMade
    | SegmentsJudged
    | DatasetMade
    | ModelMade
    | MatchesPlayed
    | ConfigRated
    | ModelPromoted
    | ModelRejected
    | ModelRolledBack
    | StageResting
    | RatingFailed
)
Event = Annotated[JobEvent | AttemptEvent | ChunkEvent | FleetEvent | LoopEvent, Field(discriminator="kind")]


def subject(event: Event) -> str | None:
    """The job an event belongs to; `None` for events of the fleet."""
    if (job := getattr(event, "job", None)) is not None:
        return str(job)
    part = getattr(event, "attempt", None) or getattr(event, "chunk", None) or getattr(event, "of", None)
    return None if part is None else job_of(part)


def job_of(part: str) -> str:
    """The job of an attempt or a chunk: ids are `<job>.<number>`."""
    return part.rpartition(".")[0]


@record
class Entry:
    """An event in its place: `seq` counts from 1 without gaps, `at` (Unix seconds) never falls."""

    seq: int
    at: float
    event: Event
