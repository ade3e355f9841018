"""What instruments read off a controller: plain numbers, made at once and for one moment. Unknown is `None`, never 0.

They are what `/metrics`, `/queue/status` and `/daemons/health` are made of. Times are Unix seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from hostler.model.artifact_views import ReplicationView
from hostler.model.fleet import Link
from hostler.model.inputs import RlTelemetry
from hostler.model.learning import Losses, Rating
from hostler.model.record import record
from hostler.model.steering import QuotaView
from hostler.model.views import ForeignUseView, PressureView, VelocityView
from hostler.model.work import JobState, WorkKind


@record
class NodeReading:
    """One node; what it told of itself is `None` where it is too old to count."""

    name: str
    backend: str
    provider: str | None
    tier: str | None
    """`1`, `2` or 3; `None`: it has no GPUs, or the VRAM of one is unknown."""
    link: Link | None
    """`None`: the controller has begun, and nobody can say yet whether it can be reached."""
    since: float
    """Since when the link is as it is."""
    cordoned: bool
    told_at: float | None
    memory_used: float | None
    """Share, 0..1."""
    load: float | None
    """Processes that want a core, for each core."""
    disk_used: float | None
    disk_free_gb: float | None
    disk_full_in_s: float | None
    backlog_s: float | None
    """Age of the oldest result that is not yet where it should be."""
    price_per_h: float | None
    games: int
    """Of self-play, since counting began."""
    games_at_risk: int
    """Closed in segments that nobody has but the node."""
    levels: Mapping[str, str]
    """What presses on it, by signal."""


@record
class DeviceReading:
    """One device; what its driver told is `None` where it is too old to count."""

    id: str
    node: str
    kind: str
    model: str | None
    vram_gb: float | None
    held: Mapping[WorkKind, int]
    """Attempts and chunks on it."""
    lanes: int
    utilization: float | None
    vram_used_gb: float | None
    temperature_c: float | None
    told_at: float | None
    quarantined: bool
    cordoned: bool
    foreign_use: ForeignUseView | None
    """Who else uses it; `None`: no use by others is known."""
    """It, or its node."""
    unproved: bool
    """Whether its canary keeps it out."""


@record
class WorkReading:
    """One kind of work."""

    work: WorkKind
    jobs: Mapping[JobState, int]
    oldest_at: float | None
    """When the job that has waited for longest was submitted; `None`: none waits."""
    attempts: Mapping[str, int]
    """That have ended, by outcome, since counting began."""
    device_s: float
    """Of what is over."""
    cost: float
    """Of the part of it whose price is known."""
    unpriced_s: float


@record
class PlaceReading:
    """What was used up on the nodes of one tier and provider, by what is over."""

    tier: str
    provider: str | None
    device_s: float
    cost: float
    unpriced_s: float


@record
class ConfigReading:
    """One training config."""

    name: str
    state: str
    """`open`, `reached`, `missed` or `retired`."""
    generation: int | None
    rating: Rating | None
    velocity: VelocityView | None
    made_at: float | None
    """When its newest dataset was made."""
    loss: Losses | None
    """Of its newest model, where that was measured."""
    fresh_games: int
    games_per_h: float | None
    """Of self-play, within the window of the pace."""
    games: int
    datasets: int
    models: int
    promotions: int
    rejections: int
    """All of them since counting began."""
    resting: int
    """Stages that failed and rest."""


@record
class SweepReading:
    """All sweeps together."""

    chunks: Mapping[str, int]
    """That have ended, by outcome, since counting began."""
    items: int
    hits: int
    chunks_out: int
    left: int
    """Items that sweeps which are not over have still to search."""
    per_s: float
    """Measured speed of the devices at work, in items."""


@record
class RlReading:
    """One training by reinforcement that has devices, from what it told last."""

    told: RlTelemetry
    at: float
    """When it was heard."""


@record
class Pace:
    """What came to an end of late: within `window_s`, or since counting began. `None`: too short to tell."""

    window_s: float | None
    games_per_h: float | None
    chunks_per_h: float | None
    items_per_s: float | None
    attempts_per_h: float | None
    """Ended, however."""
    failed_per_h: float | None
    """Of these, those that came to nothing by a failure."""
    datasets: int
    models: int
    promotions: int


@record
class LoopReading:
    """The controller's own process."""

    lag_s: float | None = None
    """By how much its event loop was late, at worst, within the last minute; `None`: not measured yet."""
    readers: int | None = None
    """Event streams that are open."""
    readers_lost: int | None = None
    """Event streams that were cut off because they were too slow."""


@record
class Gist:
    """What there is to do and what came of it, in few numbers."""

    at: float
    seq: int
    epoch: int
    begun_at: float
    """When the controller of this epoch began."""
    blocked: int
    """Jobs that wait for others."""
    works: tuple[WorkReading, ...]
    nodes: int
    nodes_up: int
    devices: int
    devices_busy: int
    pressures: tuple[PressureView, ...]
    """On the queue."""
    pace: Pace


@record
class Readings:
    """Everything, at one moment."""

    gist: Gist
    version: str
    fleet: str
    refused: int
    troubles: int
    nodes: tuple[NodeReading, ...]
    devices: tuple[DeviceReading, ...]
    places: tuple[PlaceReading, ...]
    configs: tuple[ConfigReading, ...]
    sweeps: SweepReading
    quotas: QuotaView
    bans: Mapping[str, int]
    """By kind; devices that single jobs keep away from are left out."""
    trainings: tuple[RlReading, ...] = ()
    """By reinforcement; at most so many as are listened to."""
    loop: LoopReading = field(default_factory=LoopReading)
    replication: ReplicationView | None = None
    """`None`: nobody knows, as where nothing but the core is asked."""
    leads: bool = True
    """Whether this controller leads, or only stands by."""


@record
class Part:
    """One part of the controller. Not how it is, but what it last did."""

    name: str
    does: str
    last_at: float | None
    """When it last did something; `None`: not since the controller began."""
    times: int | None
    """How often it has, since then; `None`: not counted."""
    fault: str | None
    """What keeps it from its work now."""
