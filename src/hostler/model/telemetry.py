"""What nodes measure of themselves, and the pressures that are read from it. Unknown is `None`, never 0."""

from __future__ import annotations

from enum import IntEnum

from hostler.model.numbers import Few
from hostler.model.record import record

USERS_MOST = 32
"""Processes of one device that are kept."""


@record
class DeviceUser:
    """A process that uses a device."""

    pid: Few
    name: str | None = None
    user: str | None = None
    """The name of its owner on the node."""
    vram_gb: float | None = None
    ours: bool | None = None
    """Whether the node's agent started it; `None`: no such process can be seen there."""
    attempt: str | None = None
    """The attempt that it belongs to."""


@record
class DeviceTelemetry:
    """How busy a device is, as its driver tells."""

    utilization: float | None = None
    """Share of the time in which it computed something, 0..1."""
    vram_used_gb: float | None = None
    temperature_c: float | None = None
    age_s: float = 0.0
    """How long ago that was measured."""
    users: tuple[DeviceUser, ...] | None = None
    """The processes on it; `None`: they are unknown."""


class Level(IntEnum):
    """How hard something presses; a higher one includes the lower."""

    NONE = 0
    WARNING = 1
    """To be seen."""
    CLEAN = 2
    """Room should be made."""
    CRITICAL = 3
    """Work is held back."""


@record
class Signal:
    """One named reason to slow down. `value` and `limit` have the unit of the signal (`policy.pressure.UNITS`)."""

    name: str
    value: float | None
    """As it was last known."""
    limit: float
    """What `value` has reached; at level `none`, the first limit that it could reach."""
    level: Level
    stale_s: float | None = None
    """For how long its value has been unknown, where it has been too long; what is kept so is kept for a while only."""
