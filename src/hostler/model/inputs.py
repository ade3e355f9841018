"""What the world tells the core. An input is no fact of the journal yet: the core may refuse it or know it already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any

from pydantic import Field

from hostler.model.access import Digest, Owner, Scope, TokenName
from hostler.model.artifact_inputs import (
    CleanDisk as CleanDisk,
    CopiesTold as CopiesTold,
    DropTold as DropTold,
    FilesTold as FilesTold,
    GivePlaceUp as GivePlaceUp,
    ReadCopies as ReadCopies,
    Secured as Secured,
    SoFar as SoFar,
    UndoDisk as UndoDisk,
)
from hostler.model.files import FileRef
from hostler.model.fleet import MemoryLimits, NodeSpec
from hostler.model.groups import CancelGroup as CancelGroup, RetryGroup as RetryGroup, SubmitGroup as SubmitGroup
from hostler.model.learning import ConfigSpec, Rating
from hostler.model.numbers import Count, Some
from hostler.model.past import Looked
from hostler.model.planning import Plan
from hostler.model.pools import BatchTask, Mode, Seen, Span
from hostler.model.record import record
from hostler.model.reported import HELD_MOST, Moment, Number, PartName, Status, Word, Words, WorkerName
from hostler.model.rl_telemetry import AdviceTold
from hostler.model.rules import Rules
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.work import NAME_MAX, JobSpec, Priority, Seconds, WorkKind


@record
class Begin:
    """A controller takes up the state."""

    version: str
    epoch: int
    nodes: tuple[str, ...] | None = None
    """Those that it has to do with; others are no part of its fleet. Volatile. `None`: all it knows."""
    user: str | None = None
    """The operating-system user that the controller runs as. Volatile."""
    shared_jobs: bool | None = None
    """Whether each operator may change the jobs of others; `None`: as long as all tokens have one owner. Volatile."""


@record
class Restored:
    """The journal is what a backup had, or what its database has not lost: nodes may know of what was done since."""

    made_at: float
    """When the backup was made; or when the last entry was written that was kept."""
    jobs: int
    """Numbers of jobs that may have been given since, at most."""
    parts: int
    """The same of the attempts of any job, and of the chunks of any sweep."""


@record
class Submit:
    """Do these jobs; all of them or, if one cannot be, none."""

    specs: tuple[JobSpec, ...]
    strict: bool = False
    """Whether it is refused where no device can take one of them as the fleet is now."""


@record
class Cancel:
    """Do not do this job any more."""

    job: str
    reason: str = "cancelled by its owner"


@record
class Retry:
    """Try a failed or cancelled job again; a sweep that goes on gets the devices back that were barred."""

    job: str


@record
class SetPriority:
    """Rank a job anew."""

    job: str
    priority: Priority


@record
class NodeFound:
    """Settings or a probe describe a node."""

    node: NodeSpec


@record
class LinkUp:
    """A node's agent answered and told what it holds."""

    node: str
    agent: Word
    incarnation: Number
    boot: Word | None
    attempts: Annotated[tuple[PartName, ...], Field(max_length=HELD_MOST)]
    chunks: Annotated[tuple[PartName, ...], Field(max_length=HELD_MOST)]
    reads_devices: bool = False
    """Whether the agent reads the use of its devices when it is asked (`ReadDevices`)."""
    memory_limits: MemoryLimits | None = None
    """What holds attempts to their memory limits there; `None`: an agent that does not report it."""


@record
class WorkListed:
    """A linked node's agent was asked what it holds (`ListWork`), and this is all."""

    node: str
    attempts: Annotated[tuple[PartName, ...], Field(max_length=HELD_MOST)]
    chunks: Annotated[tuple[PartName, ...], Field(max_length=HELD_MOST)]


@record
class LinkDown:
    """A node's agent cannot be reached."""

    node: str
    why: str


@record
class Launched:
    """A backend took these orders."""

    attempts: tuple[str, ...]


@record
class Started:
    """A node saw the attempt's process begin."""

    attempt: PartName
    pid: Number
    pid_start: Number


@record
class Ended:
    """A node saw the attempt's process end; the fields are those of `AttemptEnded`."""

    attempt: PartName
    started_at: Moment | None = None
    ended_at: Moment
    exit_code: Status | None = None
    signal: Status | None = None
    reason: Word | None = None
    error: Words | None = None
    cpu_s: Moment | None = None
    max_rss_bytes: Number | None = None
    result: Any = None
    result_error: Words | None = None
    left: bool | None = None
    evidence: Words | None = None


@record
class Fetched:
    """What an attempt left has come, hashes checked; or `error` says why it never will."""

    attempt: str
    files: tuple[FileRef, ...] = ()
    error: str | None = None
    unfetched: str | None = None
    """Why new and changed files stay on the node, though the attempt counts; `None`: none do."""


@record
class Searched:
    """A worker searched the whole interval `[start, stop)`."""

    chunk: PartName
    digest: Word
    start: int
    stop: int
    hits: tuple[dict[str, Any], ...]
    elapsed_s: Moment
    overhead_s: Moment | None = None
    """How much of it was spent before the searching began; `None`: too short to tell."""


@record
class Returned:
    """A chunk comes back unfinished; `position` is its last checkpoint, `None` where there was none."""

    chunk: PartName
    position: int | None = None
    digest: Word | None = None
    hits: tuple[dict[str, Any], ...] = ()
    reason: Word
    error: Words | None = None


@record
class WorkerRefused:
    """A worker refused its parameters, or could not be started at all."""

    worker: WorkerName
    error: Words


@record
class DeviceProved:
    """The canary of a device has ended: with the right answer, or why not. `seconds` is `None` where it never ran."""

    device: str
    ok: bool
    why: str | None = None
    seconds: float | None = None


@record
class Found:
    """All hits of a chunk up to its position, and the digest of the parameters they were found with."""

    digest: Word
    hits: tuple[dict[str, Any], ...]


@record
class Progress:
    """How far chunks are: position and number of hits by chunk. Volatile: never journalled."""

    chunks: Mapping[str, tuple[int, int]]
    found: Mapping[str, Found] = field(default_factory=dict)
    """The hits themselves, of chunks that have few."""


@record
class Telemetry:
    """How a node is. Volatile: what is decided on it is journalled with the values used. What is unknown is `None`."""

    node: str
    at: float
    """When it was measured, by any clock: a second one of the same time is a repetition and tells nothing."""
    load: float | None = None
    """Processes that run or want to, per core: the load average of one minute / cores."""
    memory_total_gb: float | None = None
    memory_free_gb: float | None = None
    """What processes could still take, caches that would be dropped for them included."""
    disk_total_gb: float | None = None
    """Of the file system that attempts write to."""
    disk_free_gb: float | None = None
    """What may still be written there without privileges."""
    backlog_s: float | None = None
    """Age of the oldest result that is not yet where it should be; 0 where none waits."""
    devices: Mapping[str, DeviceTelemetry] = field(default_factory=dict)
    """By id of the device (`<node>/cuda0`)."""


@record
class RlTelemetry:
    """How a training is. Volatile: what is decided on it is journalled with the values used."""

    job: str
    attempt: str
    steps: Count
    seconds: float
    """That it has learnt and waited for: a second one of the same attempt, steps and seconds is a repetition."""
    episodes: Count | None = None
    envs: Count | None = None
    per_s: float | None = None
    """Steps, of late."""
    reward: float | None = None
    largest_share: float | None = None
    """Of a component, in all that the reward has paid and taken; `None`: nothing was paid yet."""
    over_share: tuple[str, ...] = ()
    """Components that make up more than their game allows."""
    advice_share: float | None = None
    """Of advice, in all that was paid and taken; `None`: nothing was, or it is paid nothing."""
    advice: AdviceTold | None = None
    """`None`: it has none."""


@record
class Trouble:
    """Something of the controller's own failed."""

    where: str
    what: str


@record
class Requested:
    """A backend is going to submit a batch job under this token, once that is durable."""

    node: str
    token: str
    mode: Mode
    tasks: tuple[BatchTask, ...]
    wants: str
    time: Span


@record
class Submitted:
    """A cluster has taken the batch job."""

    node: str
    token: str
    job: str


@record
class Closed:
    """A batch is over, and everything it had to tell was told."""

    node: str
    token: str
    why: str


@record
class PoolSeen:
    """How a pool is. Volatile, like telemetry."""

    node: str
    seen: Seen


@record
class Declare:
    """These are the training configs that the settings describe, all of them."""

    configs: tuple[ConfigSpec, ...]


@record
class Fitted:
    """Ratings fitted to the first `matches` matches of a config, or what kept them from being fitted."""

    config: str
    matches: int
    ratings: Mapping[str, Rating | None] = field(default_factory=dict)
    error: str | None = None


@record
class RollBack:
    """Make an earlier model current again: that one or, without a name, the one before."""

    config: str
    model: str | None = None
    """Its SHA-256, or the beginning of it."""
    why: str = "asked for"


@record
class PauseConfig:
    """Order nothing new for a training config for a while; what runs runs on."""

    config: str
    why: str
    who: str | None = None
    for_s: Seconds | None = None
    """`None`: a day."""


@record
class ResumeConfig:
    """Order for a training config again."""

    config: str
    who: str | None = None


@record
class Spawn:
    """Order one more job of a stage now, beyond what the loop orders by itself."""

    config: str
    stage: WorkKind = WorkKind.SELFPLAY
    games: Some | None = None
    """Of self-play; `None`: as many as the settings say."""
    nodes: tuple[str, ...] = ()
    """Nodes that the job may run on; none named: those that its stage may."""
    why: str | None = None
    who: str | None = None
    key: Annotated[str, Field(min_length=1, max_length=NAME_MAX)] | None = None
    """Idempotency key of the job: asked for once more under it, it is the first one again."""


@record
class Configure:
    """The rules of scheduling that the settings give."""

    rules: Rules


@record
class Planned:
    """The slow loop's answer. Volatile: prices steer, and decisions tell them; the plan itself is no fact."""

    plan: Plan


@record
class Drain:
    """The controller is about to leave: put nothing new on any device."""


@record
class CordonNode:
    """Put nothing new on a node."""

    node: str
    why: str | None = None
    who: str | None = None
    drain: bool = False
    """Tell when nothing is left on it."""
    now: bool = False
    """Ask what runs there to go."""


@record
class NodeGoes:
    """A node says that its machine is about to go."""

    node: str
    why: str


@record
class ResumeNode:
    """Put work on a node again."""

    node: str
    who: str | None = None


@record
class CordonDevice:
    """Put nothing new on a device."""

    device: str
    why: str | None = None
    who: str | None = None
    drain: bool = False
    """Record when nothing is left on it."""
    for_s: float | None = None
    """After so many seconds it is given work again; `None`: as it is, which is for ever where it is not cordoned."""


@record
class ResumeDevice:
    """Put work on a device again."""

    device: str
    who: str | None = None


@record
class SilenceAlerts:
    """Do not tell of some alerts for a while."""

    rule: str
    """`*`: all rules."""
    subject: str | None = None
    """A subject or a pattern; `None`: all."""
    for_s: float
    why: str
    who: str


@record
class UnsilenceAlerts:
    """End a silence before its time."""

    silence: str
    who: str


@record
class AcknowledgeAlert:
    """Somebody looks after an alert."""

    alert: str
    who: str
    note: str | None = None


@record
class ProbeAlert:
    """Let a rule measure something that crosses its threshold, marked as a test, to see whether it is told."""

    rule: str
    lasts_s: float = 60.0
    """For so long; then it measures something with which the alert is over."""


@record
class CreateToken:
    """Let in whoever has the token with this hash."""

    name: TokenName
    sha256: Digest
    scope: Scope
    lifetime_s: Seconds | None = None
    """How long it is good for; `None`: until it is revoked."""
    owner: Owner | None = None
    """`None`: the user that the controller runs as."""


@record
class RevokeToken:
    """Let nobody in any more by the token of this name."""

    name: str


@record
class NoteSecret:
    """Put on record that a secret was set or removed. The core has no secrets: neither value nor name is state."""

    name: str


Wish = (
    Submit
    | SubmitGroup
    | Cancel
    | CancelGroup
    | Retry
    | RetryGroup
    | SetPriority
    | RollBack
    | Drain
    | CordonNode
    | ResumeNode
    | CordonDevice
    | ResumeDevice
    | CreateToken
    | RevokeToken
    | NoteSecret
    | SilenceAlerts
    | UnsilenceAlerts
    | AcknowledgeAlert
    | ProbeAlert
    | PauseConfig
    | ResumeConfig
    | Spawn
    | ReadCopies
    | CleanDisk
    | UndoDisk
)
"""What a person or a program may ask for."""


@record
class Asked:
    """Somebody asks for something. Done once for each key; an answer that is known is given again."""

    who: str
    what: str
    """In words, for whoever wants to know later."""
    key: str | None = None
    fingerprint: str | None = None
    """Of everything that was asked for: under one key it must be the same each time."""
    owner: str | None = None
    """The person that the request is of; jobs that it submits belong to them. `None`: the controller's own user."""
    scope: Scope = Scope.OPERATE
    """`admin` may change the jobs of everyone."""
    given: Wish


@record
class Knowing:
    """What somebody asks for, with what the store knows of the jobs it names that have left the state."""

    given: Asked | Wish
    looked: Looked


@record
class Reported:
    """An input that a node reports. Of work that the node does not have it is refused."""

    node: str
    given: Input


@record
class EndHour:
    """An hour is over, and the controller lives: what devices had in it is to be written, if it was not yet."""


@record
class Tick:
    """Nothing but time has passed."""


Input = (
    Begin
    | Restored
    | Submit
    | SubmitGroup
    | Cancel
    | CancelGroup
    | Retry
    | RetryGroup
    | SetPriority
    | NodeFound
    | LinkUp
    | LinkDown
    | WorkListed
    | Launched
    | Started
    | Ended
    | Fetched
    | SoFar
    | Secured
    | Searched
    | Returned
    | WorkerRefused
    | DeviceProved
    | Progress
    | Telemetry
    | RlTelemetry
    | Trouble
    | Requested
    | Submitted
    | Closed
    | PoolSeen
    | Declare
    | Fitted
    | RollBack
    | PauseConfig
    | ResumeConfig
    | Spawn
    | Configure
    | Planned
    | Drain
    | CordonNode
    | ResumeNode
    | CordonDevice
    | ResumeDevice
    | NodeGoes
    | SilenceAlerts
    | UnsilenceAlerts
    | AcknowledgeAlert
    | ProbeAlert
    | CreateToken
    | RevokeToken
    | NoteSecret
    | Asked
    | Knowing
    | Reported
    | CopiesTold
    | GivePlaceUp
    | ReadCopies
    | FilesTold
    | DropTold
    | CleanDisk
    | UndoDisk
    | EndHour
    | Tick
)
"""Everything `core.handle` understands."""
