"""What is shown of how the fleet is steered: shares, learnt durations, costs. Never read back into the scheduler.

As in `views`: plain values with a JSON form, times are Unix seconds, unknown is `null`.
"""

from __future__ import annotations

from collections.abc import Mapping

from hostler.model.record import record
from hostler.model.work import WorkKind


@record
class ShareRow:
    """What a training config, or the configs of a quota together, had of a tier against what they are meant to have."""

    name: str
    pattern: str | None
    """The quota it comes from; `None`: what the quotas leave."""
    configs: tuple[str, ...]
    target: float
    """Share of the tier's device time, 0..1."""
    had: float | None
    """The same of what was had; older time counts less. `None`: nobody had any."""
    device_s: float
    """Device seconds had, fading: those of three days ago count half."""
    holds: float
    """Devices now."""
    wants: bool
    """Whether it wants something more."""


@record
class TierShares:
    """Who had what of one tier's device time, as far as training configs had it."""

    tier: str
    """`1`, `2`, `3`, or `cpu` for CPU slots of nodes without a tier."""
    devices: int
    device_s: float
    error_points: float | None
    """Share of the time that went to others than it was meant for, in points; `None`: there was none."""
    patterns: tuple[ShareRow, ...]
    configs: tuple[ShareRow, ...]


@record
class KindShare:
    """What a kind of work had of the fleet's device time."""

    work: WorkKind
    target: float | None
    """Against all that have or want something; `None`: it neither has nor wants anything."""
    had: float | None
    device_s: float
    holds: float


@record
class Feasibility:
    """What the slow loop's newest plan says."""

    status: str
    conflicts: tuple[str, ...]
    """Quotas that cannot be met, and why."""
    slack: Mapping[str, float]
    """Devices by which each quota is missed even by the best plan."""
    prices: Mapping[str, float]
    """What a device of each class is worth, the dearest 1."""
    bound: float | None
    seconds: float | None


@record
class QuotaView:
    """Shares: target against achieved."""

    at: float
    tiers: tuple[TierShares, ...]
    kinds: tuple[KindShare, ...]
    contradictions: tuple[str, ...]
    """What is wrong with the quotas."""
    plan: Feasibility | None
    """`None`: there is none yet."""


@record
class DurationView:
    """What was learnt of how long one family of jobs takes on one model of device."""

    work: WorkKind
    family: str
    """The training config, or the program and name of scripts, numbers left out."""
    model: str | None
    """`None`: on any other; in seconds of a device of strength 1."""
    p50_s: float
    p90_s: float
    longest_s: float
    samples: int
    source: str


@record
class AccuracyView:
    """How good predictions of one kind of work were of late."""

    work: WorkKind
    factor: float
    """By which they are typically off; 1 is perfect."""
    within_2: float
    """Share of them that were right within a factor 2."""
    samples: int


@record
class Durations:
    """All learnt durations, and how good predictions by them were."""

    rows: tuple[DurationView, ...]
    accuracy: tuple[AccuracyView, ...]


@record
class UnitCost:
    """What one unit of useful work took; `None` is unknown."""

    unit: str
    count: float
    device_s: float | None
    cost: float | None
    """`None` where part of the device time has no price, or nothing was made."""


@record
class CostRow:
    """What work of one kind for somebody has used up so far; what runs now counts when it is over."""

    work: WorkKind
    of: str | None
    """A training config or a sweep; `None`: jobs that serve none."""
    name: str | None
    """The sweep's name."""
    device_s: float
    cost: float | None
    """Of the part whose price is known; `None`: of none. In the currency of the fleet file."""
    unpriced: float | None
    """Share of the device time whose price is unknown, 0..1."""
    units: tuple[UnitCost, ...]


@record
class CostView:
    """What everything has cost so far."""

    device_s: float
    cost: float | None
    unpriced: float | None
    kinds: tuple[CostRow, ...]
    """Sums by work kind."""
    rows: tuple[CostRow, ...]
    """Most device time first."""
