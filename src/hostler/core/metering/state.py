"""What is counted of the present hour, by device and kind of work."""

from __future__ import annotations

from dataclasses import field

from hostler.model.record import entity
from hostler.model.usage import HourRow


@entity
class Sum:
    """What a device had of one kind of work in this hour, or of none (`model.usage.IDLE`)."""

    device_s: float = 0.0
    up_s: float = 0.0
    """The part of it in which its node was linked."""
    done: int = 0
    failed: int = 0


@entity
class Meter:
    """One device. `at`: up to when its time is counted; what it has since then it has still."""

    at: float
    sums: dict[str, Sum] = field(default_factory=dict)


@entity
class Metering:
    """The hour that is counted. Devices that nothing has happened to in it have no meter yet."""

    hour: int | None = None
    """Unix time // 3600; `None`: nothing has happened yet."""
    begun_at: float = 0.0
    """Since when in it there is something to count: its begin, but for the first hour of a journal."""
    meters: dict[str, Meter] = field(default_factory=dict)
    seq: int = 0
    """The entry beside which rows were written last; 0: none ever were."""


@entity
class Measured:
    """What drivers told of a device in this hour, while it had one kind of work."""

    measured_s: float = 0.0
    busy_s: float = 0.0


@entity
class Metered:
    """What is beside the state. Volatile."""

    told: dict[str, dict[str, Measured]] = field(default_factory=dict)
    """By device and kind of work: what drivers told in this hour."""
    rows: list[HourRow] = field(default_factory=list)
    """Of hours that are over, until whoever writes them has taken them; a replay drops them."""
