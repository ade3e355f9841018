"""What is shown to people and programs. Made from the state the scheduler uses, never read back into it.

Every view is a plain value with a JSON form; times are Unix seconds, unknown is `null`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, TypeAlias

from hostler.model.files import FileRef
from hostler.model.fleet import Link, MemoryLimits, Process
from hostler.model.learning import CurvePoint, Goal, Losses, ModelStatus, Rating
from hostler.model.pools import Batch, Pool, Seen
from hostler.model.record import record
from hostler.model.work import FailureClass, JobSpec, JobState, WorkKind


@record
class JobView:
    """One line of `hostler jobs`."""

    id: str
    name: str
    key: str | None
    work: WorkKind
    state: JobState
    priority: int
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    duration_s: float | None
    """How long its last attempt ran, by the clock of its node where that reported it; `None`: it has not ended."""
    attempts: int
    attempt: str | None
    device: str | None
    """Where it runs, or ran last."""
    why: str | None
    failure: FailureClass | None
    cancelling: bool
    done_share: float | None
    """Of a sweep: items done / items asked for."""
    group: str | None = None
    """The id of the group it was submitted in."""
    owner: str | None = None
    """The person it belongs to; `None`: the controller ordered it, or it was submitted to an earlier version."""
    calls: bool = False
    """Whether it is a batch of function calls, as `hostler.Executor` sends them."""
    unfetched: str | None = None
    """Why new and changed files that it left were not fetched; `None`: all were."""


@record
class AttemptView:
    """The attempt that holds a device now. What its process does and whether its node answers are separate facts."""

    id: str
    device: str
    process: Process
    link: Link
    leased_at: float
    started_at: float | None
    pid: int | None


@record
class SweepView:
    """A sweep's coverage. `per_s` is the speed of the devices at work on it, `left_s` what remains at that speed."""

    job: str
    name: str
    state: JobState
    start: int
    stop: int
    total: int
    done: int
    leased: int
    free: int
    chunks_done: int
    chunks_out: int
    hits: int
    expected_by_chance: float | None
    """Hits that chance alone would give over all items."""
    per_s: float | None
    left_s: float | None
    device_s: float
    digest: str
    day: int = 0
    """Items accepted in the last 24 hours, and in what is begun of an hour before."""
    calls: bool = False
    """Whether it is a batch of function calls, as `hostler.Executor` sends them."""


@record
class ChunkView:
    """A chunk on a device."""

    chunk: str
    device: str
    start: int
    stop: int
    leased_at: float
    expected_s: float | None
    position: int | None
    """Last reported progress; what is before it is searched but not accepted yet."""


@record
class LedgerView:
    """The ledger of a sweep, interval by interval."""

    sweep: SweepView
    done: tuple[tuple[int, int], ...]
    free: tuple[tuple[int, int], ...]
    leased: tuple[ChunkView, ...]


@record
class LedgerProof:
    """The ledger folded again from the journal alone: `fault` is `None` if it is disjoint and within its range."""

    job: str
    total: int
    done: int
    intervals: int
    hits: int
    complete: bool
    fault: str | None


@record
class HitView:
    """One accepted hit of a sweep; `data` is what the worker said, `data["at"]` the item."""

    job: str
    at: int
    data: Mapping[str, Any]


@record
class JobDetail:
    """Everything about one job but its story."""

    job: JobView
    spec: JobSpec
    after: tuple[str, ...]
    failures: Mapping[FailureClass, int]
    attempt: AttemptView | None
    sweep: SweepView | None
    result: Any
    files: tuple[FileRef, ...] = ()
    """What it left, as it is kept in `results/` of the state directory."""
    unfetched: str | None = None
    """Why new and changed files that it left were not fetched; `None`: all were."""


@record
class SubmitNote:
    """Submitted jobs that no device can take as the fleet is now, and why."""

    job: str
    """The first of them."""
    count: int
    """How many there are."""
    fits: bool
    """Whether they fit on a device, which is held or out of reach; else they fit on none."""
    why: str


@record
class PressureView:
    """A signal that presses on a node or on the queue, and what is held back for it."""

    signal: str
    event: str
    """The name that operators know it by, `DISK_SPACE_LOW` say."""
    level: str
    """`warning`, `clean` or `critical`."""
    value: float | None
    """As it was when this was decided."""
    limit: float
    unit: str
    since: float
    """When it got to this level."""
    expires_at: float | None
    """When it holds no more if nothing is heard of it; `None`: it is looked at all the time."""
    holds_back: tuple[WorkKind, ...]
    """Work that is not started there."""


BanKind: TypeAlias = Literal[
    "cordon",
    "foreign use",
    "pause",
    "quarantine",
    "canary",
    "avoidance",
    "environment",
    "barred",
    "rest",
    "pressure",
    "reservation",
    "boost",
    "silence",
]


@record
class BanView:
    """Something that is held back or put first for a while, so that nobody has to wonder."""

    kind: BanKind
    what: str
    """A device or a node, the stage that rests, or the config that goes first."""
    of: str | None
    """For whom: a job, a training config or kinds of work; `None`: for everything."""
    owner: str
    """The part of Hostler that decided it, or who asked for it."""
    why: str
    since: float | None
    until: float | None
    """`None`: until what `why` says is over, or its sweep is tried again."""


AWAY_MOST = 5
DRAINING_MOST = 10
FOREIGN_MOST = 5
"""Devices in use by others whose users a status names."""


@record
class ForeignUseView:
    """Who uses a device beside the work that is placed there."""

    kind: Literal["others", "leftover"]
    """`leftover`: processes of an attempt that has ended."""
    since: float
    who: str
    """The processes and their owners, as they were read last."""
    vram_gb: float | None
    """The memory they take; `None`: unknown."""


@record
class HoldView:
    """What a device holds, in a few words; `HeldView` says more."""

    id: str
    """Of the attempt or the chunk."""
    job: str
    name: str
    work: WorkKind
    config: str | None
    """The training config it works for."""
    since: float
    why: str
    calls: bool = False
    """Whether it is of a batch of function calls, as `hostler.Executor` sends them."""


@record
class HeldView:
    """What a device holds, and why."""

    id: str
    """Of the attempt or the chunk."""
    job: str
    name: str
    work: WorkKind
    why: str
    since: float
    ends_at: float | None
    """When it is expected to end; `None`: nobody can say."""


@record
class CordonView:
    """A node or a device that is given nothing new, because a person wants that."""

    state: Literal["cordoned", "draining", "drained"]
    """`draining` until nothing is left on it."""
    since: float
    who: str | None
    why: str | None
    now: bool
    """Whether what ran there was asked to go."""
    until: float | None = None
    """When it expires; `None`: not before it is ended."""


@record
class DeviceView:
    """One device and what is on it."""

    id: str
    kind: str
    model: str | None
    vram_gb: float | None
    attempts: tuple[str, ...]
    chunks: tuple[str, ...]
    lanes: int = 1
    """Self-play jobs that may share it."""
    utilization: float | None = None
    """As its driver told last, 0..1; `None` where that is too long ago."""
    told_at: float | None = None
    """When its node last told of it."""
    vram_used_gb: float | None = None
    temperature_c: float | None = None
    reserved_for: str | None = None
    """The job that it is kept for."""
    quarantine: BanView | None = None
    canary: BanView | None = None
    """What keeps it out until its canary has given the right answer; `None` where it has, or has none."""
    cordon: CordonView | None = None
    """That a person wants nothing new put on this very device."""
    foreign_use: ForeignUseView | None = None
    """Who else uses it; `None`: no use by others is known."""
    held: tuple[HoldView, ...] = ()
    """What it has, in the order in which that is done."""


@record
class NodeView:
    """One node; `since` tells how long the link has been as it is."""

    name: str
    backend: str
    link: Link
    since: float
    trouble: str | None
    agent: str | None
    devices: tuple[DeviceView, ...]
    pressures: tuple[PressureView, ...] = ()
    """What presses on it, the worst first."""
    gates: Mapping[str, int] = field(default_factory=dict)
    """How often each gate has refused work there since the controller began, the busiest first."""
    given_up_at: float | None = None
    """Of a node out of reach: when what it has is given to others; `None`: it has nothing, or keeps it for ever."""
    cordon: CordonView | None = None
    pool: Pool | None = None
    """Of a part of a cluster; its devices are slots then."""
    seen: Seen | None = None
    """What was last seen of the pool; `None`: nothing yet."""
    batches: tuple[Batch, ...] = ()
    """What the cluster was asked for and is not over."""
    provider: str | None = None
    """Who rents it out; `None`: nobody, or nobody said."""
    ephemeral: bool = False
    """Whether it may vanish without notice."""
    price_per_h: float | None = None
    """What the whole node costs per hour; `None`: unknown."""
    tier: int | None = None
    """1, 2 or 3 by its VRAM; `None`: it has no GPU that is known."""
    python: str | None = None
    """The interpreter that `python` means there, by its settings; `None`: nobody said."""
    memory_limits: MemoryLimits | None = None
    """What holds attempts to their memory limits there; `None`: not known since the controller began."""


@record
class QueueRow:
    """One place in the queue. `waits_for` says why a job that is not first in line cannot go yet, if it cannot."""

    place: int
    job: str
    name: str
    work: WorkKind
    priority: int
    waited_s: float
    waits_for: str | None
    calls: bool = False
    """Whether it is a batch of function calls, as `hostler.Executor` sends them."""


@record
class DeviceGroup:
    """Devices of one class that say the same to a job."""

    cls: str
    gate: str | None
    """What keeps the job off them; `None`: nothing does, or it runs there."""
    count: int
    says: str
    """What the first of them says."""
    devices: tuple[str, ...]


@record
class Change:
    """What would change something, and when it happens by itself; `None`: it does not, or nobody knows."""

    what: str
    at: float | None = None


@record
class StartView:
    """When a waiting job is expected to get a device, by what is known of all that comes before it."""

    at: float | None
    """As likely sooner as later; `None`: nobody can say."""
    late_at: float | None
    """Hardly later."""
    ahead: int
    """Jobs that go before it to devices that it fits on."""
    why: str
    """What this rests on, or why nobody can say."""


@record
class Explanation:
    """Why a job waits, or why it runs where it runs. `devices` maps each device to what it says to the job."""

    job: str
    state: JobState
    summary: str
    reasons: tuple[str, ...]
    devices: Mapping[str, str]
    groups: tuple[DeviceGroup, ...] = ()
    """The same, devices alike taken together: most first."""
    gates: Mapping[str, int] = field(default_factory=dict)
    """Devices that each gate keeps the job off."""
    changes: tuple[Change, ...] = ()
    """What would change its lot."""
    start: StartView | None = None
    """`None` where it does not wait."""


@record
class DeviceExplanation:
    """Why a device does what it does, or nothing."""

    device: DeviceView
    node: str
    cls: str | None
    """Its device class; `None`: it is in the fleet no more."""
    tier: int | None
    link: Link
    summary: str
    reasons: tuple[str, ...]
    held: tuple[HeldView, ...]
    waiting: Mapping[str, int]
    """Waiting jobs that each gate keeps off it now."""
    pressures: tuple[PressureView, ...]
    """What presses on its node."""


@record
class Status:
    """The fleet in numbers; costs the same for ten jobs and for a hundred thousand."""

    version: str
    fleet: str
    at: float
    seq: int
    epoch: int
    jobs: Mapping[JobState, int]
    nodes_up: int
    nodes: int
    devices: int
    devices_busy: int
    refused: int
    """Results that were refused: late, doubled, or of other parameters."""
    troubles: int
    sweeps: tuple[SweepView, ...]
    """Those that are not over."""
    pressures: tuple[PressureView, ...] = ()
    """What presses on the queue."""
    nodes_pressed: int = 0
    """Nodes on which something presses."""
    devices_cordoned: int = 0
    """Devices that a person keeps from work, those of cordoned nodes aside."""
    devices_used: int = 0
    """Devices that others use."""
    foreign_use: Mapping[str, ForeignUseView] = field(default_factory=dict)
    """Who uses them, of at most `FOREIGN_MOST`, by id of the device."""
    alerts: int = 0
    """Alerts that fire and are not silenced."""
    leader: str | None = None
    """Who leads, where this controller only stands by; `None`: this one leads."""
    nodes_away: Mapping[str, str] = field(default_factory=dict)
    """Why nodes are out of reach, of at most `AWAY_MOST`, by name."""
    unwritten: str | None = None
    """Why the journal lacks what came after entry `seq`; all of this is as of that entry. `None`: it lacks nothing."""
    draining: tuple[str, ...] | None = None
    """Of a controller that drains: jobs that still run, at most `DRAINING_MOST`; `None`: it starts jobs."""


@record
class TrialView:
    """A candidate's sequential test against the current model: it is decided where `llr` leaves `(lower, upper)`."""

    candidate: str
    against: str
    groups: int
    score: float | None
    """Mean score of the candidate, 0..1; 0.5 is even."""
    llr: float | None
    lower: float
    upper: float


@record
class VelocityView:
    """Slope of the current model's rating in Elo per day, with its 95 % interval. May be negative."""

    per_day: float
    low: float
    high: float


@record
class RestView:
    """A stage that failed and rests until then."""

    stage: WorkKind
    failures: int
    until: float
    why: str


@record
class PauseView:
    """Nothing new is ordered for a config until then, because somebody said so."""

    since: float
    until: float
    who: str
    why: str


@record
class ConfigView:
    """A training config in numbers. Shares and rates are of the time window or data named; `None` is not known yet."""

    name: str
    game: Mapping[str, Any]
    players: int
    weight: float
    retired: bool
    state: str
    """`open`, `reached` (its goal), `missed` (its goal cannot be reached any more) or `retired`."""
    next: str
    """What comes next and why, or what it waits for."""
    current: str | None
    """SHA-256 of the current model."""
    generation: int | None
    """Number of the current model: 0 is the untrained one."""
    since: float | None
    player: str | None
    rating: Rating | None
    velocity: VelocityView | None
    trial: TrialView | None
    games: int
    games_per_h: float | None
    """Over the last hour, or since the first game if that is less long ago."""
    fresh_games: int
    """Games since the last export."""
    data_age_s: float | None
    """Since the newest dataset was made."""
    accepted_share: float | None
    """Of the games offered to the last export."""
    duplicate_share: float | None
    """Of the games of the last export."""
    datasets: int
    models: int
    promotions: int
    rejections: int
    stages: Mapping[WorkKind, int]
    """Jobs waiting or running."""
    resting: tuple[RestView, ...]
    goal: Goal | None
    paused: PauseView | None = None
    spawned: int = 0
    """Of `stages`, those that somebody asked for beyond what the loop orders."""


@record
class ModelView:
    """One model of a config and what became of it. `number` counts from 0, the untrained one."""

    config: str
    number: int
    sha256: str
    bytes: int
    made_at: float
    base: str | None
    dataset: str | None
    steps: int
    status: ModelStatus
    current: bool
    decided_at: float | None
    why: str | None
    rating: Rating | None
    before: Losses | None
    after: Losses | None
    curve: tuple[CurvePoint, ...]


@record
class DatasetView:
    """One dataset of a config, and what the quality gate said of its window."""

    config: str
    sha256: str
    made_at: float
    games: int
    positions: int
    segments: int
    offered: int
    """Games of its window."""
    rejected: Mapping[str, int]
    quality: Mapping[str, float | None]
    bootstrap: bool


@record
class RatingPoint:
    """The current model's rating as it was fitted then."""

    at: float
    player: str
    rating: Rating


@record
class HourView:
    """Games of one hour, those that evaluations recorded too; `at` is its beginning."""

    at: float
    games: int
    positions: int
    cpu_s: float | None


@record
class ConfigHistory:
    """How a config came to where it is: everything oldest first."""

    config: ConfigView
    models: tuple[ModelView, ...]
    datasets: tuple[DatasetView, ...]
    ratings: tuple[RatingPoint, ...]
    players: Mapping[str, Rating | None]
    """Everybody's rating as fitted last, anchors too."""
    hours: tuple[HourView, ...]


@record
class OutputPiece:
    """Bytes that an attempt has written to one of its streams, one after the other: `data` in base64."""

    stream: Literal["out", "err"]
    data: str


@record
class Output:
    """A piece of both streams of an attempt, in the order in which they were written.

    `out` and `err` are where it begins in each, as bytes ever written; `out_size` and `err_size` how many there are.
    """

    attempt: str
    out: int
    err: int
    pieces: tuple[OutputPiece, ...]
    out_size: int
    err_size: int
    ended: bool
    """Whether nothing more will be written."""
    seen_at: float | None = None
    """When the node was read last, where it cannot be reached now: there may be more."""

    @property
    def ends(self) -> tuple[int, int]:
        """How far each stream is told."""
        sizes = {"out": self.out, "err": self.err}
        for piece in self.pieces:
            sizes[piece.stream] += 3 * len(piece.data) // 4 - piece.data[-2:].count("=")
        return sizes["out"], sizes["err"]

    @property
    def is_whole(self) -> bool:
        """Whether all that was written up to now is told."""
        return self.ends == (self.out_size, self.err_size)


@record
class LogChunk:
    """A piece of an attempt's output. `offset` and `size` count bytes ever written."""

    attempt: str
    stream: str
    offset: int
    data: bytes
    size: int
    ended: bool
