"""Facts that happened. They are journalled; folding them, in order, gives the state back.

A decision is a fact too: it carries its reasons and the values it was based on, and is never taken again.
The time of an event and its place in the order are kept beside it, in the journal (`Entry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from hostler.model.access_events import (
    RequestAccepted as RequestAccepted,
    TokenCreated as TokenCreated,
    TokenRevoked as TokenRevoked,
)
from hostler.model.alert_events import (
    AlertAcknowledged as AlertAcknowledged,
    AlertEnded as AlertEnded,
    AlertFired as AlertFired,
    AlertsSilenced as AlertsSilenced,
    AlertsUnsilenced as AlertsUnsilenced,
)
from hostler.model.artifact_events import (
    CopiesDamaged as CopiesDamaged,
    CopiesGone as CopiesGone,
    CopiesVerified as CopiesVerified,
    PlaceGone as PlaceGone,
)
from hostler.model.backup_events import JournalRestored as JournalRestored
from hostler.model.disk_events import (
    FilesDeleted as FilesDeleted,
    FilesDropped as FilesDropped,
    FilesDropping as FilesDropping,
    FilesRestored as FilesRestored,
    FilesRetired as FilesRetired,
)
from hostler.model.files import Fetch, FileRef
from hostler.model.fleet_events import (
    DeviceCordoned as DeviceCordoned,
    DeviceDrained as DeviceDrained,
    DeviceFreed as DeviceFreed,
    DeviceInUse as DeviceInUse,
    DeviceProved as DeviceProved,
    DeviceQuarantined as DeviceQuarantined,
    DeviceResumed as DeviceResumed,
    DeviceTrusted as DeviceTrusted,
    EnvironmentHeld as EnvironmentHeld,
    NodeCordoned as NodeCordoned,
    NodeDrained as NodeDrained,
    NodeJoined as NodeJoined,
    NodeLinked as NodeLinked,
    NodeResumed as NodeResumed,
    NodeUnreachable as NodeUnreachable,
)
from hostler.model.groups import GroupSubmitted as GroupSubmitted
from hostler.model.loop_events import (
    ConfigDeclared as ConfigDeclared,
    ConfigPaused as ConfigPaused,
    ConfigRated as ConfigRated,
    ConfigResumed as ConfigResumed,
    ConfigRetired as ConfigRetired,
    DatasetMade as DatasetMade,
    MatchesPlayed as MatchesPlayed,
    ModelMade as ModelMade,
    ModelPromoted as ModelPromoted,
    ModelRejected as ModelRejected,
    ModelRolledBack as ModelRolledBack,
    RatingFailed as RatingFailed,
    SegmentsClosed as SegmentsClosed,
    SegmentsJudged as SegmentsJudged,
    SegmentsLost as SegmentsLost,
    SegmentsMade as SegmentsMade,
    StageResting as StageResting,
    StageSpawned as StageSpawned,
)
from hostler.model.past_events import JobCameBack as JobCameBack, JobsLeft as JobsLeft, PastEvent as PastEvent
from hostler.model.pool_events import (
    BatchClosed as BatchClosed,
    BatchRequested as BatchRequested,
    BatchSubmitted as BatchSubmitted,
)
from hostler.model.record import record
from hostler.model.rules import Rules
from hostler.model.telemetry import Level, Signal
from hostler.model.usage_events import HourEnded as HourEnded, UsageEvent as UsageEvent
from hostler.model.work import FailureClass, JobSpec, Priority


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
    group: str | None = None
    """The job group it was submitted in."""
    owner: str | None = None
    """The person it belongs to; `None`: the controller ordered it, or an earlier version wrote this."""


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
    against: tuple[str, ...] = ()
    """Devices that the failure speaks against."""
    avoid: str | None = None
    """Device or node that it keeps away from until `avoid_until`."""
    avoid_until: float = 0.0
    vram_above: float | None = None
    """GB of VRAM that were too few; until `avoid_until` it waits for a device that has more."""
    batch_scale: float = 1.0
    """Share of its usual batch that it is to use from now on, where a device has no more VRAM than that."""
    progress: float | None = None
    """Share of the job that is done and saved now, as far as its estimate tells; `None`: as before."""


@record
class JobFailed:
    """The job is given up."""

    kind: Literal["job.failed"] = "job.failed"
    job: str
    failure: FailureClass
    why: str
    against: tuple[str, ...] = ()
    """Devices that the failure of its last attempt speaks against."""


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
    others: tuple[str, ...] = ()
    """Further devices of the same node that it holds."""
    lane: int = 0
    """Which of the jobs that share the device at the same time it is; they are queues of their own on the node."""


@record
class PreemptRequested:
    """Decision: the attempt gives its devices up, gently; its job goes back to its place in the queue."""

    kind: Literal["attempt.preempt_requested"] = "attempt.preempt_requested"
    attempt: str
    by: str | None
    """The job that the devices are for; `None` where it is to run elsewhere itself."""
    why: str


@record
class RulesSet:
    """The fleet's owner decided how devices are to be given away."""

    kind: Literal["rules.set"] = "rules.set"
    rules: Rules


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
    evidence: str | None = None
    """The end of what it wrote to its standard error, where it failed."""
    fetch: Fetch | None = None
    """What has to come from its node before it is judged."""


@record
class FilesFetched:
    """What the attempt left has come from its node, hashes checked; or `error` says why it never will."""

    kind: Literal["files.fetched"] = "files.fetched"
    attempt: str
    files: tuple[FileRef, ...] = ()
    error: str | None = None
    unfetched: str | None = None
    """Why new and changed files stay on the node, though the attempt counts; `None`: none do."""


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
    overhead_s: float | None = None
    """How much of it was spent before the searching began; `None`: too short to tell."""


@record
class ChunkShortened:
    """Decision: the chunk ends at `stop`; what lies behind is pending again."""

    kind: Literal["chunk.shortened"] = "chunk.shortened"
    chunk: str
    device: str
    stop: int
    why: str


@record
class ChunkTaken:
    """Decision: the device is to search no more of the chunk.

    `[start, position)` is searched and accepted, as far as the device has told of it; the rest is pending again.
    """

    kind: Literal["chunk.taken"] = "chunk.taken"
    chunk: str
    device: str
    position: int
    hits: tuple[dict[str, Any], ...]
    why: str
    silent: bool
    """Whether that was because the device told nothing of it any more."""


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
    """A report must not count: late, doubled, of other parameters, of an interval already done, or of another node's
    work."""

    kind: Literal["result.refused"] = "result.refused"
    of: str
    why: str
    node: str | None = None
    """The node that reported it; `None` in entries of before 0.2."""


@record
class TroubleRecorded:
    """Something of the controller's own failed and was not swallowed: a loop, a request, a request's answer."""

    kind: Literal["trouble.recorded"] = "trouble.recorded"
    where: str
    what: str


@record
class ConcurrencySet:
    """Decision: so many self-play jobs may share the device from now on."""

    kind: Literal["device.concurrency_set"] = "device.concurrency_set"
    device: str
    lanes: int
    was: int
    utilization: float | None
    """What it was based on, 0..1; `None`: that has been unknown for too long."""
    why: str


@record
class IdleResourceDetected:
    """A device did next to nothing, though it had self-play to do or there was work for it."""

    kind: Literal["resource.idle_detected"] = "resource.idle_detected"
    node: str
    device: str
    utilization: float
    idle_s: float
    attempts: tuple[str, ...]
    """What it had been given."""
    gate: str | None
    """What kept the waiting work off a device that had nothing; `None`: nothing is known to have."""
    why: str


@record
class ResourceConstraint:
    """A node's memory has reached a limit. What is held back for it is told by `BackpressureActivated`."""

    kind: Literal["resource.constraint"] = "resource.constraint"
    node: str
    signal: Signal


@record
class NodeOverloaded:
    """More processes of a node want a core than it has."""

    kind: Literal["node.overloaded"] = "node.overloaded"
    node: str
    signal: Signal


@record
class DiskSpaceLow:
    """A node's disk has reached a limit: of used share, of free space, or of the time until it is full."""

    kind: Literal["disk.space_low"] = "disk.space_low"
    node: str
    signal: Signal


@record
class BackpressureActivated:
    """Decision: from now on these signals press on a node, and no others, the worst first."""

    kind: Literal["backpressure.activated"] = "backpressure.activated"
    node: str | None
    """`None`: on the queue."""
    level: Level
    """That of the worst; at `critical` work is held back."""
    signals: tuple[Signal, ...]
    why: str


@record
class BackpressureReleased:
    """Decision: nothing presses on the node any more. `signals` are those that did, as they are now."""

    kind: Literal["backpressure.released"] = "backpressure.released"
    node: str | None
    """`None`: on the queue."""
    signals: tuple[Signal, ...]
    why: str


JobEvent = (
    JobSubmitted
    | GroupSubmitted
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
AttemptEvent = (
    AttemptLeased | PreemptRequested | AttemptLaunching | AttemptStarted | AttemptEnded | FilesFetched | AttemptLost
)
ChunkEvent = ChunkLeased | ChunkDone | ChunkShortened | ChunkTaken | ChunkReturned
FleetEvent = (
    ControllerStarted
    | JournalRestored
    | RulesSet
    | ResultRefused
    | NodeJoined
    | NodeLinked
    | NodeUnreachable
    | NodeCordoned
    | NodeDrained
    | NodeResumed
    | DeviceCordoned
    | DeviceFreed
    | DeviceInUse
    | DeviceDrained
    | DeviceResumed
    | DeviceQuarantined
    | DeviceTrusted
    | DeviceProved
    | EnvironmentHeld
    | TroubleRecorded
)
LoopEvent = (
    ConfigDeclared
    | ConfigRetired
    | SegmentsMade
    | SegmentsClosed
    | SegmentsLost
    | SegmentsJudged
    | DatasetMade
    | ModelMade
    | MatchesPlayed
    | ConfigRated
    | ModelPromoted
    | ModelRejected
    | ModelRolledBack
    | StageResting
    | ConfigPaused
    | ConfigResumed
    | StageSpawned
    | RatingFailed
)
PoolEvent = BatchRequested | BatchSubmitted | BatchClosed
AccessEvent = TokenCreated | TokenRevoked | RequestAccepted
CareEvent = (
    ConcurrencySet
    | IdleResourceDetected
    | ResourceConstraint
    | NodeOverloaded
    | DiskSpaceLow
    | BackpressureActivated
    | BackpressureReleased
)
ArtifactEvent = (
    CopiesVerified
    | CopiesDamaged
    | CopiesGone
    | PlaceGone
    | FilesRetired
    | FilesRestored
    | FilesDeleted
    | FilesDropping
    | FilesDropped
)
AlertEvent = AlertFired | AlertEnded | AlertsSilenced | AlertsUnsilenced | AlertAcknowledged
Event = Annotated[
    JobEvent
    | AttemptEvent
    | ChunkEvent
    | FleetEvent
    | LoopEvent
    | CareEvent
    | PoolEvent
    | AlertEvent
    | AccessEvent
    | ArtifactEvent
    | PastEvent
    | UsageEvent,
    Field(discriminator="kind"),
]

EXTERNAL_NAMES: Mapping[type, str] = {
    IdleResourceDetected: "IDLE_RESOURCE_DETECTED",
    ResourceConstraint: "RESOURCE_CONSTRAINT",
    NodeOverloaded: "NODE_OVERLOADED",
    DiskSpaceLow: "DISK_SPACE_LOW",
    BackpressureActivated: "BACKPRESSURE_ACTIVATED",
    BackpressureReleased: "BACKPRESSURE_RELEASED",
}
"""The names that operators know events by."""


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
