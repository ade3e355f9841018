"""What the HTTP interface answers and takes, for type checkers; names of bodies end in `Input`.

Made by `scripts/make_reference.py` from docs/reference/openapi.json; do not edit.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

ArtifactKind: TypeAlias = Literal["games", "dataset", "model", "evaluation"]


FailureClass: TypeAlias = Literal[
    "exit",
    "signal",
    "timeout",
    "memory",
    "spawn",
    "result",
    "worker",
    "lost",
    "dependency",
    "import",
    "device",
    "protocol",
    "files",
]


FailureClassInput: TypeAlias = Literal[
    "exit",
    "signal",
    "timeout",
    "memory",
    "spawn",
    "result",
    "worker",
    "lost",
    "dependency",
    "import",
    "device",
    "protocol",
    "files",
]


JobState: TypeAlias = Literal["pending", "leased", "launching", "running", "collecting", "done", "failed", "cancelled"]


Level: TypeAlias = Literal[0, 1, 2, 3]


Link: TypeAlias = Literal["up", "down"]


Measure: TypeAlias = Literal[
    "node_utilization",
    "fleet_utilization",
    "selfplay_rate",
    "training_queue",
    "elo_velocity",
    "out_of_reach",
    "disk_full_in",
    "ledger_still",
    "distrust",
    "loop_still",
    "games_at_risk",
    "advice_success",
    "advice_resting",
    "advice_latency",
    "advice_share",
    "components_over",
]


MemoryLimits: TypeAlias = Literal["cgroup", "watched"]


ModelStatus: TypeAlias = Literal["candidate", "promoted", "rejected", "dropped", "rolled back"]


Period: TypeAlias = Literal["hour", "day", "week", "month"]


Process: TypeAlias = Literal["unknown", "queued", "alive", "ended"]


Scope: TypeAlias = Literal["read", "operate", "admin"]


ScopeInput: TypeAlias = Literal["read", "operate", "admin"]


Severity: TypeAlias = Literal["info", "warning", "critical"]


SlotPhase: TypeAlias = Literal["asked", "waiting", "up", "unknown"]


Standing: TypeAlias = Literal["games", "dataset", "model", "candidate", "former"]


WorkKind: TypeAlias = Literal["selfplay", "training", "evaluation", "export", "sweep", "script", "rl"]


WorkKindInput: TypeAlias = Literal["selfplay", "training", "evaluation", "export", "sweep", "script", "rl"]


class AccuracyView(TypedDict):
    """How good predictions of one kind of work were of late."""

    work: WorkKind
    factor: float
    within_2: float
    samples: int


class AcknowledgeBodyInput(TypedDict):
    """Who looks after an alert; without a name, whose token it is. The body may be left out."""

    who: NotRequired[str | None]
    note: NotRequired[str | None]


class AlertRule(TypedDict):
    """A threshold, how long it must be crossed, and a second threshold at which that is over."""

    name: str
    measures: Measure
    comparison: Literal["below", "above"]
    threshold: float
    over: float
    for_s: float
    window_s: float | None
    unknown_s: float | None
    severity: Severity
    target: float | None
    group: str
    enabled: bool


class AlertView(TypedDict):
    """An alert that fires, may come to fire, or is over."""

    id: str | None
    state: Literal["pending", "firing", "over"]
    rule: str
    subject: str
    severity: Severity
    group: str
    value: float | None
    low: float | None
    high: float | None
    value_now: float | None
    unit: str
    comparison: Literal["below", "above"]
    threshold: float
    since: float
    fired_at: float | None
    ended_at: float | None
    why: str
    ended_why: str | None
    test: bool
    silence: str | None
    acknowledged_by: str | None
    acknowledged_at: float | None
    note: str | None


class ArtifactDetail(TypedDict):
    """Everything about one artifact."""

    artifact: ArtifactView
    attempt: str | None
    exported: bool
    parents: list[str]
    children: list[str]
    parents_more: bool
    children_more: bool
    missing: int
    missing_domains: int


class ArtifactRead(TypedDict):
    """What was found as the copies of an artifact were read: each of them, or the one that was asked for."""

    artifact: ArtifactView
    copies: list[CopyRead]


class ArtifactView(TypedDict):
    """An artifact with its copies."""

    sha256: str
    kind: ArtifactKind
    standing: Standing
    bytes: int
    config: str | None
    job: str | None
    made_at: float
    games: int | None
    copies: list[CopyView]
    counted: int
    wanted: int
    wanted_domains: int
    why: str | None


class AttemptView(TypedDict):
    """The attempt that holds a device now. What its process does and whether its node answers are separate facts."""

    id: str
    device: str
    process: Process
    link: Link
    leased_at: float
    started_at: float | None
    pid: int | None


class AuditView(TypedDict):
    """Something that somebody asked for and that was done."""

    seq: int
    at: float
    who: str
    what: str
    entries: int
    key: str | None


class BacklogView(TypedDict):
    """What lacks copies that the places there are could hold."""

    at: float
    artifacts: int
    bytes: int
    at_risk: int
    oldest_due_at: float | None
    at_least: bool
    shortfalls: list[str]


class BanView(TypedDict):
    """Something that is held back or put first for a while, so that nobody has to wonder."""

    kind: Literal[
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
    what: str
    of: str | None
    owner: str
    why: str
    since: float | None
    until: float | None


class Batch(TypedDict):
    """One submission to a cluster: a batch job, or an array of them. `tasks` has what each is for."""

    token: str
    node: str
    mode: Literal["job", "array", "pilot"]
    tasks: list[BatchTask]
    wants: str
    time: Span
    requested_at: float
    job: str | None
    submitted_at: float | None


class BatchOptions(TypedDict):
    """What a job wants of a batch system such as Slurm, where one runs it. `None`: as the cluster's settings say."""

    account: str | None
    qos: str | None
    constraint: str | None
    reservation: str | None
    gpu_type: str | None
    cpus: int | None
    memory_gb: float | None
    time_s: float | None
    requeue: bool | None
    extra: list[str]


class BatchOptionsInput(TypedDict):
    """What a job wants of a batch system such as Slurm, where one runs it. `None`: as the cluster's settings say."""

    account: NotRequired[str | None]
    qos: NotRequired[str | None]
    constraint: NotRequired[str | None]
    reservation: NotRequired[str | None]
    gpu_type: NotRequired[str | None]
    cpus: NotRequired[int | None]
    memory_gb: NotRequired[float | None]
    time_s: NotRequired[float | None]
    requeue: NotRequired[bool | None]
    extra: NotRequired[list[str]]


class BatchTask(TypedDict):
    """One task of a batch: the slot it stands behind, and the attempts it was made for."""

    slot: str
    attempts: list[str]


class CancelBodyInput(TypedDict):
    """Why a job is cancelled; the body may be left out."""

    reason: NotRequired[str]


class CancelGroupBodyInput(TypedDict):
    """Why the jobs of a group are cancelled; the body may be left out."""

    reason: NotRequired[str]


class Change(TypedDict):
    """What would change something, and when it happens by itself; `None`: it does not, or nobody knows."""

    what: str
    at: float | None


class ChunkView(TypedDict):
    """A chunk on a device."""

    chunk: str
    device: str
    start: int
    stop: int
    leased_at: float
    expected_s: float | None
    position: int | None


class CleanBodyInput(TypedDict):
    """What is to be deleted."""

    files: NotRequired[list[str] | None]
    most: NotRequired[int]
    node: NotRequired[str | None]
    who: NotRequired[str | None]


class CleanView(TypedDict):
    """What a cleaning, or an undoing, has moved."""

    files: list[str]
    bytes: int
    left: list[LeftView]
    more: int
    until: float | None


class ConfigHistory(TypedDict):
    """How a config came to where it is: everything oldest first."""

    config: ConfigView
    models: list[ModelView]
    datasets: list[DatasetView]
    ratings: list[RatingPoint]
    players: dict[str, Rating | None]
    hours: list[HourView]


class ConfigPace(TypedDict):
    """How fast a training config is played."""

    config: str
    games_per_h: float | None
    day: int


class ConfigView(TypedDict):
    """A training config in numbers. Shares and rates are of the time window or data named; `None` is not known yet."""

    name: str
    game: dict[str, Any]
    players: int
    weight: float
    retired: bool
    state: str
    next: str
    current: str | None
    generation: int | None
    since: float | None
    player: str | None
    rating: Rating | None
    velocity: VelocityView | None
    trial: TrialView | None
    games: int
    games_per_h: float | None
    fresh_games: int
    data_age_s: float | None
    accepted_share: float | None
    duplicate_share: float | None
    datasets: int
    models: int
    promotions: int
    rejections: int
    stages: dict[str, int]
    resting: list[RestView]
    goal: Goal | None
    paused: PauseView | None
    spawned: int


class Copy(TypedDict):
    """A copy of an artifact in a place."""

    place: str
    verified_at: float | None
    damaged: bool


class CopyRead(TypedDict):
    """What was found where a copy should be."""

    place: str
    found: Literal["right", "damaged", "gone", "unread"]
    why: str | None
    at: float


class CopyView(TypedDict):
    """What is known of one copy."""

    place: str
    domain: str | None
    verified_at: float | None
    damaged: bool
    counts: bool


class CordonBodyInput(TypedDict):
    """Why a node is given nothing new, and who says so; the body may be left out."""

    why: NotRequired[str | None]
    who: NotRequired[str | None]


class CordonView(TypedDict):
    """A node or a device that is given nothing new, because a person wants that."""

    state: Literal["cordoned", "draining", "drained"]
    since: float
    who: str | None
    why: str | None
    now: bool
    until: float | None


class CostRow(TypedDict):
    """What work of one kind for somebody has used up so far; what runs now counts when it is over."""

    work: WorkKind
    of: str | None
    name: str | None
    device_s: float
    cost: float | None
    unpriced: float | None
    units: list[UnitCost]


class CostView(TypedDict):
    """What everything has cost so far."""

    device_s: float
    cost: float | None
    unpriced: float | None
    kinds: list[CostRow]
    rows: list[CostRow]


class CurvePoint(TypedDict):
    """Losses on the way; those of validation where it was made."""

    step: int
    policy: float
    value: float
    validation_policy: float | None
    validation_value: float | None


class DatasetView(TypedDict):
    """One dataset of a config, and what the quality gate said of its window."""

    config: str
    sha256: str
    made_at: float
    games: int
    positions: int
    segments: int
    offered: int
    rejected: dict[str, int]
    quality: dict[str, float | None]
    bootstrap: bool


class DeviceCordonBodyInput(TypedDict):
    """Why a device is given nothing new, who wants that, and for how many seconds; the body may be left out."""

    why: NotRequired[str | None]
    who: NotRequired[str | None]
    for_s: NotRequired[float | None]


class DeviceExplanation(TypedDict):
    """Why a device does what it does, or nothing."""

    device: DeviceView
    node: str
    cls: str | None
    tier: int | None
    link: Link
    summary: str
    reasons: list[str]
    held: list[HeldView]
    waiting: dict[str, int]
    pressures: list[PressureView]


class DeviceGroup(TypedDict):
    """Devices of one class that say the same to a job."""

    cls: str
    gate: str | None
    count: int
    says: str
    devices: list[str]


class DeviceView(TypedDict):
    """One device and what is on it."""

    id: str
    kind: str
    model: str | None
    vram_gb: float | None
    attempts: list[str]
    chunks: list[str]
    lanes: int
    utilization: float | None
    told_at: float | None
    vram_used_gb: float | None
    temperature_c: float | None
    reserved_for: str | None
    quarantine: BanView | None
    canary: BanView | None
    cordon: CordonView | None
    foreign_use: ForeignUseView | None
    held: list[HoldView]


class DoomedFile(TypedDict):
    """A file that may go, or went."""

    path: str
    bytes: int
    rule: str
    why: str
    used_at: float
    sha256: str | None
    proof: list[Copy]


class DrainBodyInput(TypedDict):
    """The same, and whether what runs there is asked to go."""

    why: NotRequired[str | None]
    who: NotRequired[str | None]
    now: NotRequired[bool]


class Draining(TypedDict):
    """The controller starts nothing more and will leave; what runs on nodes runs on."""

    draining: bool


class DurationView(TypedDict):
    """What was learnt of how long one family of jobs takes on one model of device."""

    work: WorkKind
    family: str
    model: str | None
    p50_s: float
    p90_s: float
    longest_s: float
    samples: int
    source: str


class Durations(TypedDict):
    """All learnt durations, and how good predictions by them were."""

    rows: list[DurationView]
    accuracy: list[AccuracyView]


class Entry(TypedDict):
    """An event in its place: `seq` counts from 1 without gaps, `at` (Unix seconds) never falls."""

    seq: int
    at: float
    event: Any


class EnvironmentFile(TypedDict):
    """A file of a snapshot that states the Python environment of its scripts."""

    file: str
    sha256: str


class EnvironmentFileInput(TypedDict):
    """A file of a snapshot that states the Python environment of its scripts."""

    file: str
    sha256: str


class Explanation(TypedDict):
    """Why a job waits, or why it runs where it runs. `devices` maps each device to what it says to the job."""

    job: str
    state: JobState
    summary: str
    reasons: list[str]
    devices: dict[str, str]
    groups: list[DeviceGroup]
    gates: dict[str, int]
    changes: list[Change]
    start: StartView | None


class Feasibility(TypedDict):
    """What the slow loop's newest plan says."""

    status: str
    conflicts: list[str]
    slack: dict[str, float]
    prices: dict[str, float]
    bound: float | None
    seconds: float | None


class FileRef(TypedDict):
    """A file that came, and whose content was checked."""

    path: str
    size: int
    sha256: str


class FleetGroup(TypedDict):
    """The nodes of one provider and tier."""

    provider: str | None
    tier: int | None
    totals: FleetTotals


class FleetTotals(TypedDict):
    """Some nodes and their devices in numbers."""

    nodes: int
    nodes_up: int
    devices: int
    devices_busy: int
    devices_barred: int
    utilization: float | None
    utilization_of: int
    price_per_h: float | None
    unpriced: int


class FleetView(TypedDict):
    """The fleet as a whole, by provider and tier, and what it achieves."""

    at: float
    totals: FleetTotals
    groups: list[FleetGroup]
    pace: Pace
    sweeps: list[SweepView]
    configs: list[ConfigPace]


class ForeignUseView(TypedDict):
    """Who uses a device beside the work that is placed there."""

    kind: Literal["others", "leftover"]
    since: float
    who: str
    vram_gb: float | None


class Goal(TypedDict):
    """When a loop that is to end has ended: well by promotions, badly by candidates or failures."""

    promotions: int
    candidates: int
    failures: int


class GoingView(TypedDict):
    """Files that may go by the same rule."""

    rule: str
    why: str
    files: int
    bytes: int


class GroupBodyInput(TypedDict):
    """A job group and its jobs."""

    group: GroupSpecInput
    jobs: list[JobSpecInput | ShortJobInput]


class GroupResult(TypedDict):
    """A job of a group: its parameters and what came of it."""

    job: str
    name: str
    state: JobState
    parameters: dict[str, str]
    attempts: int
    device: str | None
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    duration_s: float | None
    why: str | None
    failure: FailureClass | None
    result: Any


class GroupSpecInput(TypedDict):
    """A group as its owner asks for it, without its jobs."""

    name: str
    max_running: NotRequired[int | None]
    max_failures: NotRequired[int | None]


class GroupView(TypedDict):
    """A group in numbers."""

    id: str
    name: str
    submitted_at: float
    first: str
    last: str
    size: int
    max_running: int | None
    max_failures: int | None
    jobs: dict[str, int]
    ended_at: float | None
    owner: str | None


class Health(TypedDict):
    """Whether the controller gets on with its work."""

    at: float
    verdict: Literal["progressing", "beginning", "idle", "stalled"]
    why: str
    up_since: float
    epoch: int
    seq: int
    waiting: int
    held: int
    pace: Pace
    faults: int
    parts: list[PartHealth]


class HeldView(TypedDict):
    """What a device holds, and why."""

    id: str
    job: str
    name: str
    work: WorkKind
    why: str
    since: float
    ends_at: float | None


class HitView(TypedDict):
    """One accepted hit of a sweep; `data` is what the worker said, `data["at"]` the item."""

    job: str
    at: int
    data: dict[str, Any]


class HoldView(TypedDict):
    """What a device holds, in a few words; `HeldView` says more."""

    id: str
    job: str
    name: str
    work: WorkKind
    config: str | None
    since: float
    why: str
    calls: bool


class HourView(TypedDict):
    """Games of one hour, those that evaluations recorded too; `at` is its beginning."""

    at: float
    games: int
    positions: int
    cpu_s: float | None


class IntervalView(TypedDict):
    """A part of a sweep's range, `stop` not included. `free` ones between others are the holes."""

    start: int
    stop: int
    standing: Literal["done", "free", "leased"]
    chunk: str | None
    device: str | None


class JobDetail(TypedDict):
    """Everything about one job but its story."""

    job: JobView
    spec: JobSpec
    after: list[str]
    failures: dict[str, int]
    attempt: AttemptView | None
    sweep: SweepView | None
    result: Any
    files: list[FileRef]
    unfetched: str | None


class JobNeedsInput(TypedDict):
    """Needs of a job: devices, memory, constraints."""

    device: NotRequired[Literal["any", "cpu", "gpu"] | None]
    vram_gb: NotRequired[float]
    memory_gb: NotRequired[float | None]
    gpus: NotRequired[int]
    shards: NotRequired[bool]
    shared: NotRequired[bool]
    cpus: NotRequired[float]
    tiers: NotRequired[list[Literal[1, 2, 3]]]
    cpu_too: NotRequired[bool]
    disk_gb: NotRequired[float | None]
    nodes: NotRequired[list[str | float] | str | float]
    exclude_nodes: NotRequired[list[str | float] | str | float]
    gpu_models: NotRequired[list[str | float] | str | float]
    exclude_gpu_models: NotRequired[list[str | float] | str | float]
    providers: NotRequired[list[str | float] | str | float]
    labels: NotRequired[list[str] | str | dict[str, Any]]


class JobSpec(TypedDict):
    """One job as its owner asked for it. Immutable; `priority` alone can be changed later."""

    name: str
    payload: ScriptPayload | SweepPayload | StagePayload
    key: str | None
    resources: Resources
    priority: int
    after: list[str]
    retry: Retry
    walltime_s: float | None
    grace_s: float
    work_as: WorkKind | None
    config: str | None
    expected_s: dict[str, float]
    checkpoints: bool
    batch: BatchOptions | None
    parameters: dict[str, Any]


class JobSpecInput(TypedDict):
    """One job as its owner asked for it. Immutable; `priority` alone can be changed later."""

    name: str
    payload: ScriptPayloadInput | SweepPayloadInput | StagePayloadInput
    key: NotRequired[str | None]
    resources: NotRequired[ResourcesInput]
    priority: NotRequired[int]
    after: NotRequired[list[str]]
    retry: NotRequired[RetryInput]
    walltime_s: NotRequired[float | None]
    grace_s: NotRequired[float]
    work_as: NotRequired[WorkKindInput | None]
    config: NotRequired[str | None]
    expected_s: NotRequired[dict[str, float]]
    checkpoints: NotRequired[bool]
    batch: NotRequired[BatchOptionsInput | None]
    parameters: NotRequired[dict[str, Any]]


class JobView(TypedDict):
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
    attempts: int
    attempt: str | None
    device: str | None
    why: str | None
    failure: FailureClass | None
    cancelling: bool
    done_share: float | None
    group: str | None
    owner: str | None
    calls: bool
    unfetched: str | None


class KeepingView(TypedDict):
    """A place where artifacts lie, and how it is."""

    name: str
    domain: str
    keeps: bool
    reachable: bool
    full: bool
    trouble: str | None
    again_at: float | None
    free_bytes: int | None
    looked_at: float | None
    bytes_per_s: float | None
    moved_bytes: int
    copies: int | None
    damaged: int | None


class KeptView(TypedDict):
    """Files that stay for the same reason."""

    why: str
    files: int
    bytes: int


class Kin(TypedDict):
    """An artifact in the lineage of another. What only its children know of has no kind."""

    sha256: str
    depth: int
    via: str
    kind: ArtifactKind | None
    standing: Standing | None
    bytes: int | None
    config: str | None
    job: str | None
    made_at: float | None
    further: int


class KindShare(TypedDict):
    """What a kind of work had of the fleet's device time."""

    work: WorkKind
    target: float | None
    had: float | None
    device_s: float
    holds: float


class KindStatus(TypedDict):
    """Jobs of one kind of work."""

    work: WorkKind
    waiting: int
    oldest_wait_s: float | None
    held: int
    done: int
    failed: int
    cancelled: int


class LedgerProof(TypedDict):
    """The ledger folded again from the journal alone: `fault` is `None` if it is disjoint and within its range."""

    job: str
    total: int
    done: int
    intervals: int
    hits: int
    complete: bool
    fault: str | None


class LedgerView(TypedDict):
    """The ledger of a sweep, interval by interval."""

    sweep: SweepView
    done: list[list[int]]
    free: list[list[int]]
    leased: list[ChunkView]


class LeftView(TypedDict):
    """A file that stayed where it was, and why."""

    path: str
    why: str


class LineageView(TypedDict):
    """What an artifact was made from, and what was made from it; each once, what is nearest first."""

    artifact: ArtifactView
    parents: list[Kin]
    children: list[Kin]
    parents_further: int
    children_further: int


class Losses(TypedDict):
    """Cross-entropies in nats on the games held out."""

    policy: float
    value: float


class ModelView(TypedDict):
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
    curve: list[CurvePoint]


class NodeView(TypedDict):
    """One node; `since` tells how long the link has been as it is."""

    name: str
    backend: str
    link: Link
    since: float
    trouble: str | None
    agent: str | None
    devices: list[DeviceView]
    pressures: list[PressureView]
    gates: dict[str, int]
    given_up_at: float | None
    cordon: CordonView | None
    pool: Pool | None
    seen: Seen | None
    batches: list[Batch]
    provider: str | None
    ephemeral: bool
    price_per_h: float | None
    tier: int | None
    python: str | None
    memory_limits: MemoryLimits | None


class Output(TypedDict):
    """A piece of both streams of an attempt, in the order in which they were written."""

    attempt: str
    out: int
    err: int
    pieces: list[OutputPiece]
    out_size: int
    err_size: int
    ended: bool
    seen_at: float | None


class OutputFile(TypedDict):
    """A file that the accepted attempt of a job left, as the controller keeps it."""

    path: str
    size: int
    sha256: str


class OutputPiece(TypedDict):
    """Bytes that an attempt has written to one of its streams, one after the other: `data` in base64."""

    stream: Literal["out", "err"]
    data: str


class Pace(TypedDict):
    """What came to an end of late: within `window_s`, or since counting began. `None`: too short to tell."""

    window_s: float | None
    games_per_h: float | None
    chunks_per_h: float | None
    items_per_s: float | None
    attempts_per_h: float | None
    failed_per_h: float | None
    datasets: int
    models: int
    promotions: int


class PartHealth(TypedDict):
    """A part of the controller and its last activity."""

    name: str
    does: str
    last_at: float | None
    age_s: float | None
    times: int | None
    fault: str | None


class PauseBodyInput(TypedDict):
    """Why nothing new is ordered for a config, who says so, and for how long."""

    why: str
    who: NotRequired[str | None]
    for_s: NotRequired[float | None]


class PauseView(TypedDict):
    """Nothing new is ordered for a config until then, because somebody said so."""

    since: float
    until: float
    who: str
    why: str


class PlacedDevice(TypedDict):
    """One device, and what goes for it because of the node it is in."""

    node: str
    link: Link
    trouble: str | None
    cordon: CordonView | None
    provider: str | None
    ephemeral: bool
    tier: int | None
    price_per_h: float | None
    device: DeviceView


class Pool(TypedDict):
    """What is known of a pool. Its devices are slots: what a batch job there is given, a GPU say."""

    partition: str
    max_pending: int
    longest_s: float | None
    margin_s: float
    gpus_per_host: int | None
    gpus_by_model: dict[str, int]
    cpus_per_host: int | None
    memory_gb_per_host: float | None
    overhead_gb: float


class PressureView(TypedDict):
    """A signal that presses on a node or on the queue, and what is held back for it."""

    signal: str
    event: str
    level: str
    value: float | None
    limit: float
    unit: str
    since: float
    expires_at: float | None
    holds_back: list[WorkKind]


class PriorityBodyInput(TypedDict):
    """The new rank; higher goes first."""

    priority: int


class ProbeBodyInput(TypedDict):
    """For how long the made-up measurement lasts; the body may be left out."""

    lasts_s: NotRequired[float]


class ProbeView(TypedDict):
    """A test of a rule: the alert that it made, and what the rule measures of the real fleet."""

    alert: AlertView
    rule: RuleView
    told: list[str]


class Problem(TypedDict):
    """The body of every answer that is no success. `error` names a class of `hostler.model.errors` where one fits."""

    error: str
    message: str


class QueueRow(TypedDict):
    """One place in the queue. `waits_for` says why a job that is not first in line cannot go yet, if it cannot."""

    place: int
    job: str
    name: str
    work: WorkKind
    priority: int
    waited_s: float
    waits_for: str | None
    calls: bool


class QueueStatus(TypedDict):
    """What waits, what has devices, and how fast it goes; costs the same for ten jobs and for a hundred thousand."""

    at: float
    jobs: dict[str, int]
    blocked: int
    oldest_wait_s: float | None
    kinds: list[KindStatus]
    devices: int
    devices_busy: int
    nodes_up: int
    nodes: int
    pressures: list[PressureView]
    pace: Pace


class QuotaView(TypedDict):
    """Shares: target against achieved."""

    at: float
    tiers: list[TierShares]
    kinds: list[KindShare]
    contradictions: list[str]
    plan: Feasibility | None


class Rating(TypedDict):
    """Strength of a player within one config in Elo, with its 95 % interval, and the games it rests on."""

    elo: float
    low: float
    high: float
    games: int


class RatingPoint(TypedDict):
    """The current model's rating as it was fitted then."""

    at: float
    player: str
    rating: Rating


class Received(TypedDict):
    """How many pieces of contents were taken."""

    pieces: int


class ReplicationView(TypedDict):
    """How far replication has come."""

    at: float
    backlog: BacklogView | None
    stock: StockView | None
    places: list[KeepingView]


class Resources(TypedDict):
    """What one attempt needs of the device it is put on. Zero or `None` asks for nothing."""

    device: Literal["any", "cpu", "gpu"] | None
    vram_gb: float
    memory_gb: float | None
    gpus: int
    shards: bool
    shared: bool
    cpus: float
    tiers: list[Literal[1, 2, 3]]
    cpu_too: bool
    disk_gb: float | None
    nodes: list[str]
    exclude_nodes: list[str]
    gpu_models: list[str]
    exclude_gpu_models: list[str]
    providers: list[str]
    labels: list[str]


class ResourcesInput(TypedDict):
    """What one attempt needs of the device it is put on. Zero or `None` asks for nothing."""

    device: NotRequired[Literal["any", "cpu", "gpu"] | None]
    vram_gb: NotRequired[float]
    memory_gb: NotRequired[float | None]
    gpus: NotRequired[int]
    shards: NotRequired[bool]
    shared: NotRequired[bool]
    cpus: NotRequired[float]
    tiers: NotRequired[list[Literal[1, 2, 3]]]
    cpu_too: NotRequired[bool]
    disk_gb: NotRequired[float | None]
    nodes: NotRequired[list[str]]
    exclude_nodes: NotRequired[list[str]]
    gpu_models: NotRequired[list[str]]
    exclude_gpu_models: NotRequired[list[str]]
    providers: NotRequired[list[str]]
    labels: NotRequired[list[str]]


class RestView(TypedDict):
    """A stage that failed and rests until then."""

    stage: WorkKind
    failures: int
    until: float
    why: str


class ResumeBodyInput(TypedDict):
    """Who says that a node is given work again; the body may be left out."""

    who: NotRequired[str | None]


class ResumeConfigBodyInput(TypedDict):
    """Who says that a config orders again; the body may be left out."""

    who: NotRequired[str | None]


class RetentionView(TypedDict):
    """What may go from the controller's disk, what waits in tombstones, and what stays, by reason. Costs nothing."""

    mode: Literal["dry-run", "clean"]
    grace_s: float
    disk: StoreDisk
    looked_at: float | None
    may_go: list[GoingView]
    stays: list[KeptView]
    buried_files: int
    buried_bytes: int
    next_at: float | None
    trouble: str | None


class Retry(TypedDict):
    """How often a job may fail, by class, and how long it rests before it tries again."""

    max_attempts: dict[str, int]
    backoff_s: float
    backoff_max_s: float


class RetryInput(TypedDict):
    """How often a job may fail, by class, and how long it rests before it tries again."""

    max_attempts: NotRequired[dict[str, int]]
    backoff_s: NotRequired[float]
    backoff_max_s: NotRequired[float]


class RetryGroupBodyInput(TypedDict):
    """Which jobs of a group are tried again; the body may be left out."""

    only_failed: NotRequired[bool]


class RlAdviceView(TypedDict):
    """What became of advice."""

    success: float | None
    half_s: float | None
    most_s: float | None
    numbers: dict[str, float | None]
    calls: list[RlCallsView]
    trouble: str | None
    alarm: str | None


class RlAxisView(TypedDict):
    """A value that places are combinations of."""

    name: str
    width: int


class RlCallsView(TypedDict):
    """Calls to whoever advises that came to the same."""

    name: str
    calls: int
    mean_s: float | None
    longest_s: float | None


class RlDetail(TypedDict):
    """Everything that a training told; of its output only the end is read."""

    row: RlRow
    spent: list[RlSpentView]
    parts: list[RlPartView]
    map: list[RlAxisView]
    explored: list[RlPlaceView]
    places_explored: int
    pictures: list[RlPictureView]
    advice: RlAdviceView | None
    update: dict[str, float | None]
    troubles: list[RlTroubleView]
    troubles_told: int


class RlNumbers(TypedDict):
    """Its last line. All of it is `None` or empty where it has told nothing yet."""

    envs: int | None
    steps: int | None
    steps_asked: int | None
    updates: int | None
    episodes: int | None
    seconds: float | None
    per_s: float | None
    window_s: float | None
    per_s_mean: float | None
    per_cpu_s: float | None
    reward: float | None
    places: float | None
    alarms: list[str]
    done: bool | None


class RlPartView(TypedDict):
    """A component of the reward."""

    name: str
    paid: float | None
    share: float | None
    is_alarm: bool


class RlPictureView(TypedDict):
    """A picture of an environment, as the route of pictures has it."""

    env: int
    steps: int
    at: float | None
    width: int
    height: int
    mark: str


class RlPlaceView(TypedDict):
    """A place that was come to."""

    number: int
    episodes: int


class RlPointView(TypedDict):
    """What one line told; or, where there were too many, one of several."""

    steps: int
    seconds: float
    per_s: float | None
    reward: float | None
    places: float | None


class RlRow(TypedDict):
    """A job that learns by reinforcement, in a line."""

    job: JobView
    attempt: str | None
    told_at: float | None
    fault: str | None
    lines: int
    skipped: int
    numbers: RlNumbers


class RlSpentView(TypedDict):
    """What the processors' time went into."""

    name: str
    seconds: float
    share: float | None
    share_now: float | None


class RlTroubleView(TypedDict):
    """What a training says went wrong."""

    at: float | None
    says: str


class RollBackBodyInput(TypedDict):
    """Which model becomes current again, and why; the body may be left out."""

    model: NotRequired[str | None]
    why: NotRequired[str]


class RuleReading(TypedDict):
    """What a rule measured last of one subject."""

    subject: str
    value: float | None
    low: float | None
    high: float | None
    note: str


class RuleView(TypedDict):
    """A rule, where its numbers come from, and what it measures now."""

    rule: AlertRule
    unit: str
    meaning: str
    origins: dict[str, str]
    looked_at: float | None
    subjects: int
    unknown: int
    pending: int
    firing: int
    readings: list[RuleReading]


class ScriptPayload(TypedDict):
    """Any command. It has succeeded when it exits 0 and, if it left a `$HOSTLER_RESULT`, that is JSON."""

    kind: Literal["script"]
    schema: Literal[1]
    argv: list[str]
    env: dict[str, str]
    secrets: dict[str, Any]
    plain: bool
    submitter: SubmitterShell | None
    python_env: str | None
    environment: EnvironmentFile | None
    snapshot: str | None
    cwd: str | None
    in_place: bool
    files: list[str] | None
    outputs: list[str]
    require_result: bool


class ScriptPayloadInput(TypedDict):
    """Any command. It has succeeded when it exits 0 and, if it left a `$HOSTLER_RESULT`, that is JSON."""

    kind: NotRequired[Literal["script"]]
    schema: Literal[1]
    argv: list[str]
    env: NotRequired[dict[str, str]]
    secrets: NotRequired[dict[str, Any]]
    plain: NotRequired[bool]
    submitter: NotRequired[SubmitterShellInput | None]
    python_env: NotRequired[str | None]
    environment: NotRequired[EnvironmentFileInput | None]
    snapshot: NotRequired[str | None]
    cwd: NotRequired[str | None]
    in_place: NotRequired[bool]
    files: NotRequired[list[str] | None]
    outputs: NotRequired[list[str]]
    require_result: NotRequired[bool]


class SecretBodyInput(TypedDict):
    """A secret to be kept: text of at most 64 KiB in UTF-8, without NUL."""

    name: str
    value: str


class SecretValueInput(TypedDict):
    """A secret as the value of an environment variable."""

    secret: str


class SecretView(TypedDict):
    """A secret as it is shown: never its value."""

    name: str
    set_at: float
    kept_in: str


class Seen(TypedDict):
    """What was last seen of a pool."""

    at: float
    slots: dict[str, SlotSeen]
    supply: Supply | None
    closed: str | None
    trouble: str | None


class ShareRow(TypedDict):
    """What a training config, or the configs of a quota together, had of a tier against what they are meant to have."""

    name: str
    pattern: str | None
    configs: list[str]
    target: float
    had: float | None
    device_s: float
    holds: float
    wants: bool


class ShortJobInput(TypedDict):
    """A script job in short form. Exactly one of `argv`, `run` and `script` gives its command."""

    name: NotRequired[str | None]
    key: NotRequired[str | None]
    argv: NotRequired[list[str | float] | None]
    run: NotRequired[list[str | float] | None]
    script: NotRequired[str | None]
    args: NotRequired[list[str | float]]
    files: NotRequired[list[str | float] | str | float | None]
    outputs: NotRequired[list[str | float] | str | float]
    env: NotRequired[dict[str, Any]]
    plain: NotRequired[bool]
    python_env: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any]]
    after: NotRequired[list[str | float] | str | float]
    priority: NotRequired[int]
    walltime_s: NotRequired[float | None]
    grace_s: NotRequired[float]
    retry: NotRequired[RetryInput]
    require_result: NotRequired[bool]
    work: NotRequired[Literal["script", "selfplay", "training", "evaluation", "export", "rl"]]
    config: NotRequired[str | None]
    expected_s: NotRequired[float | dict[str, float] | None]
    checkpoints: NotRequired[bool]
    slurm: NotRequired[SlurmJobInput | None]
    job_id: NotRequired[str | None]
    timeout: NotRequired[float | None]
    type: NotRequired[Literal["script"] | None]
    analysis_type: NotRequired[Literal["script"] | None]
    device: NotRequired[Literal["any", "cpu", "gpu"] | None]
    vram_gb: NotRequired[float]
    memory_gb: NotRequired[float | None]
    gpus: NotRequired[int]
    shards: NotRequired[bool]
    shared: NotRequired[bool]
    cpus: NotRequired[float]
    tiers: NotRequired[list[Literal[1, 2, 3]]]
    cpu_too: NotRequired[bool]
    disk_gb: NotRequired[float | None]
    nodes: NotRequired[list[str | float] | str | float]
    exclude_nodes: NotRequired[list[str | float] | str | float]
    gpu_models: NotRequired[list[str | float] | str | float]
    exclude_gpu_models: NotRequired[list[str | float] | str | float]
    providers: NotRequired[list[str | float] | str | float]
    labels: NotRequired[list[str] | str | dict[str, Any]]
    resources: NotRequired[JobNeedsInput]
    cwd: NotRequired[str | None]
    in_place: NotRequired[bool]
    snapshot: NotRequired[str | None]


class SilenceBodyInput(TypedDict):
    """Which alerts are not told, for how long, by whose wish and why."""

    rule: str
    subject: NotRequired[str | None]
    for_s: float
    why: str
    who: NotRequired[str | None]


class SilenceView(TypedDict):
    """Alerts that are not told for a while: by whom, why, until when."""

    id: str
    rule: str
    subject: str | None
    who: str
    why: str
    since: float
    until: float
    alerts: list[str]


class SlotSeen(TypedDict):
    """The batch job behind a slot, as it was last seen. Times are the cluster's."""

    phase: SlotPhase
    job: str | None
    says: str
    stuck: bool
    stays: bool
    asked_at: float | None
    began_at: float | None
    ends_at: float | None


class SlurmJobInput(TypedDict):
    """What one job wants of a cluster, over what the settings of the cluster say."""

    account: NotRequired[str | None]
    qos: NotRequired[str | None]
    constraint: NotRequired[str | None]
    reservation: NotRequired[str | None]
    gpu_type: NotRequired[str | None]
    cpus: NotRequired[int | None]
    memory_gb: NotRequired[float | None]
    time_s: NotRequired[float | None]
    requeue: NotRequired[bool | None]
    extra: NotRequired[list[str]]


class SnapshotView(TypedDict):
    """A snapshot that a client has, and what is missing of it here."""

    digest: str
    missing: dict[str, int]


class Span(TypedDict):
    """For how long each allocation of a batch is asked for, and what is lost at the end of that."""

    seconds: float
    longest: bool
    saves: bool


class SpawnBodyInput(TypedDict):
    """Which job is ordered beyond what the loop orders by itself; the body may be left out."""

    stage: NotRequired[Literal["selfplay", "training", "evaluation", "export"]]
    games: NotRequired[int | None]
    nodes: NotRequired[list[str]]
    why: NotRequired[str | None]
    who: NotRequired[str | None]
    key: NotRequired[str | None]


class StagePayload(TypedDict):
    """One stage of a training config's loop. Its order and its result are laid down in docs/reference/learning.md."""

    kind: Literal["selfplay", "training", "evaluation", "export"]
    schema: Literal[1]
    config: str
    argv: list[str]
    env: dict[str, str]
    secrets: dict[str, Any]
    cwd: str | None
    order: dict[str, Any]


class StagePayloadInput(TypedDict):
    """One stage of a training config's loop. Its order and its result are laid down in docs/reference/learning.md."""

    kind: Literal["selfplay", "training", "evaluation", "export"]
    schema: Literal[1]
    config: str
    argv: list[str]
    env: NotRequired[dict[str, str]]
    secrets: NotRequired[dict[str, Any]]
    cwd: NotRequired[str | None]
    order: dict[str, Any]


class StartView(TypedDict):
    """When a waiting job is expected to get a device, by what is known of all that comes before it."""

    at: float | None
    late_at: float | None
    ahead: int
    why: str


class Status(TypedDict):
    """The fleet in numbers; costs the same for ten jobs and for a hundred thousand."""

    version: str
    fleet: str
    at: float
    seq: int
    epoch: int
    jobs: dict[str, int]
    nodes_up: int
    nodes: int
    devices: int
    devices_busy: int
    refused: int
    troubles: int
    sweeps: list[SweepView]
    pressures: list[PressureView]
    nodes_pressed: int
    devices_cordoned: int
    devices_used: int
    foreign_use: dict[str, ForeignUseView]
    alerts: int
    leader: str | None
    nodes_away: dict[str, str]
    unwritten: str | None
    draining: list[str] | None


class StockRow(TypedDict):
    """All artifacts of one kind and standing."""

    kind: ArtifactKind
    standing: Standing
    artifacts: int
    bytes: int
    copies: int
    wanted: int
    possible: int
    short: int
    at_risk: int


class StockView(TypedDict):
    """All artifacts, counted: now and then, for it takes a while where there are many."""

    at: float
    rows: list[StockRow]


class StoreDisk(TypedDict):
    """The disk that the state directory lies on. What cannot be measured is `null`."""

    total_bytes: int | None
    free_bytes: int | None
    used: float | None
    level: Level
    says: str


class SubmitNote(TypedDict):
    """Submitted jobs that no device can take as the fleet is now, and why."""

    job: str
    count: int
    fits: bool
    why: str


class Submitted(TypedDict):
    """Ids of submitted jobs, in the order of their specs."""

    ids: list[str]
    notes: list[SubmitNote]
    gpu_by_default: int
    with_earlier_files: list[str]


class SubmittedGroup(TypedDict):
    """A submitted group, and the ids of its jobs in the order of their specs."""

    group: GroupView | None
    ids: list[str]
    known: list[str]
    notes: list[SubmitNote]
    gpu_by_default: int
    with_earlier_files: list[str]


class SubmitterShell(TypedDict):
    """How the submitter's shell would run the command. It counts on nodes of the controller's own machine."""

    program: str | None
    env: dict[str, str]


class SubmitterShellInput(TypedDict):
    """How the submitter's shell would run the command. It counts on nodes of the controller's own machine."""

    program: NotRequired[str | None]
    env: NotRequired[dict[str, str]]


class Supply(TypedDict):
    """How busy the hosts of a pool are, whoever uses them; GPUs, or cores where it has none."""

    idle: int
    used: int
    down: int
    hosts: int
    hosts_down: int


class SweepPayload(TypedDict):
    """One program over every integer of `[start, stop)`, cut into chunks."""

    kind: Literal["sweep"]
    schema: Literal[1]
    start: int
    stop: int
    worker: list[str]
    params: dict[str, Any]
    snapshot: str | None
    cwd: str | None
    files: list[str] | None
    digest: str
    chance: float | None
    kernel: str | None
    target_s: float | None
    min_chunk: int
    max_chunk: int | None
    max_hits: int
    silence_s: float
    start_s: float
    uneven: bool


class SweepPayloadInput(TypedDict):
    """One program over every integer of `[start, stop)`, cut into chunks."""

    kind: NotRequired[Literal["sweep"]]
    schema: Literal[1]
    start: int
    stop: int
    worker: list[str]
    params: dict[str, Any]
    snapshot: NotRequired[str | None]
    cwd: NotRequired[str | None]
    files: NotRequired[list[str] | None]
    digest: str
    chance: NotRequired[float | None]
    kernel: NotRequired[str | None]
    target_s: NotRequired[float | None]
    min_chunk: NotRequired[int]
    max_chunk: NotRequired[int | None]
    max_hits: NotRequired[int]
    silence_s: NotRequired[float]
    start_s: NotRequired[float]
    uneven: NotRequired[bool]


class SweepView(TypedDict):
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
    per_s: float | None
    left_s: float | None
    device_s: float
    digest: str
    day: int
    calls: bool


class TargetView(TypedDict):
    """Somewhere that alerts are told, and how that goes. What is secret about it is not shown."""

    name: str
    kind: Literal["webhook", "slack", "ntfy", "apprise"]
    least: Severity
    through: int
    waiting: int
    sent: int
    given_up: int
    sent_at: float | None
    failing_since: float | None
    trouble: str | None


class TierShares(TypedDict):
    """Who had what of one tier's device time, as far as training configs had it."""

    tier: str
    devices: int
    device_s: float
    error_points: float | None
    patterns: list[ShareRow]
    configs: list[ShareRow]


class TokenBodyInput(TypedDict):
    """A token to be made."""

    name: str
    scope: NotRequired[ScopeInput]
    lifetime_s: NotRequired[float | None]
    owner: NotRequired[str | None]


class TokenMade(TypedDict):
    """A token, this once."""

    token: str
    about: TokenView


class TokenView(TypedDict):
    """A token as it is shown: never itself, nor its hash."""

    name: str
    scope: Scope
    created_at: float
    expires_at: float | None
    left_s: float | None
    expired: bool
    owner: str | None


class TombView(TypedDict):
    """A file in a tombstone."""

    path: str
    bytes: int
    rule: str
    why: str
    who: str
    buried_at: float
    until: float
    sha256: str | None
    proof: list[Copy]


class TrialView(TypedDict):
    """A candidate's sequential test against the current model: it is decided where `llr` leaves `(lower, upper)`."""

    candidate: str
    against: str
    groups: int
    score: float | None
    llr: float | None
    lower: float
    upper: float


class UndoBodyInput(TypedDict):
    """What is to be brought back."""

    files: NotRequired[list[str] | None]
    who: NotRequired[str | None]


class UnitCost(TypedDict):
    """What one unit of useful work took; `None` is unknown."""

    unit: str
    count: float
    device_s: float | None
    cost: float | None


class UsageView(TypedDict):
    """How devices were used in one period: all of them, or those of one group. Device seconds are of all together."""

    begins: float
    ends: float
    of: dict[str, str | None]
    held_s: float
    idle_s: float
    up_s: float
    utilization: float | None
    measured_s: float
    cost: float | None
    unpriced_s: float
    idle_cost: float | None
    done: int
    failed: int


class VelocityView(TypedDict):
    """Slope of the current model's rating in Elo per day, with its 95 % interval. May be negative."""

    per_day: float
    low: float
    high: float


class VerifyBodyInput(TypedDict):
    """Which copies are read again; the body may be left out."""

    place: NotRequired[str | None]
