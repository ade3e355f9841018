"""Lanes and pressures as they were decided; and, volatile beside them, what was heard of each node."""

from __future__ import annotations

from dataclasses import field

from hostler.model.fleet import MemoryLimits
from hostler.model.record import entity, record
from hostler.model.telemetry import Signal
from hostler.policy.foreign_use import Use
from hostler.policy.pressure import Point
from hostler.policy.utilization import Controller, Watch


@record
class Pressed:
    """A signal that presses, and since when at this level."""

    signal: Signal
    since: float


@entity
class Care:
    """What is decided on telemetry and holds now."""

    lanes: dict[str, dict[str, int]] = field(default_factory=dict)
    """By node and device: self-play jobs that may share it; one where it is not named."""
    nodes: dict[str, dict[str, Pressed]] = field(default_factory=dict)
    """By node and signal: what presses there, the worst first."""
    queue: dict[str, Pressed] = field(default_factory=dict)


@entity
class HeardDevice:
    """What is known of a device now. Volatile."""

    utilization: float | None = None
    """As last told, 0..1; `None` where that said nothing."""
    vram_used_gb: float | None = None
    temperature_c: float | None = None
    told_at: float
    """When its node last told of it."""
    known_at: float
    """When its utilisation was last known, or when it was first asked for."""
    business: str = ""
    """What kind of work it had then."""
    controller: Controller = field(default_factory=Controller)
    watch: Watch = field(default_factory=Watch)
    read_at: float | None = None
    """When its memory and processes were last read on this link; `None`: they have not been."""
    use: Use | None = None
    """Its use by others, as that was last read."""
    suspected_at: float | None = None
    """Since when there seems to be some, where one reading is not enough."""
    clear_at: float | None = None
    """Since when none is seen, where it counts as used still."""
    changed_at: float | None = None
    """Since when another kind of use is seen than it counts as."""
    taken_gb: float | None = None
    """Memory that is used by others, or by nothing that is listed; `None`: unknown."""


@entity
class Heard:
    """What is known of a node now. Volatile; times are the core's."""

    measured_at: float | None = None
    """By the node's own clock."""
    at: float | None = None
    """`None`: nothing was heard in this life of the controller."""
    known: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The newest known value of each signal, and when it was heard."""
    free_gb: tuple[Point, ...] = ()
    full_in_s: float | None = None
    """What that says about when the disk is full."""
    devices: dict[str, HeardDevice] = field(default_factory=dict)
    room_gb: float | None = None
    """What of its disk was free and kept for nobody, when that was last more than before."""
    reads_devices: bool = False
    """Whether it reads its devices when it is asked."""
    memory_limits: MemoryLimits | None = None
    """What holds attempts to their memory limits there, as its agent reports."""
    asked_at: float | None = None
    """When it was last asked."""
    armed: bool = False
    """Whether it is noted to look whether the node has fallen silent."""
