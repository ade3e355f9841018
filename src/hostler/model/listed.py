"""What has a list of its own: placed devices, the fleet by provider and tier, intervals of a range.

As in `views`: plain values with a JSON form, times are Unix seconds, unknown is `null`.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal

from hostler.model.fleet import Link
from hostler.model.readings import Pace
from hostler.model.record import record
from hostler.model.views import CordonView, DeviceView, JobView, SweepView


@record
class PlacedDevice:
    """One device, and what goes for it because of the node it is in."""

    node: str
    link: Link
    trouble: str | None
    """What keeps its node out of reach."""
    cordon: CordonView | None
    """Why its node is given nothing new; `None`: it is."""
    provider: str | None
    ephemeral: bool
    tier: int | None
    price_per_h: float | None
    """Its share of what the node costs; `None`: unknown."""
    device: DeviceView


@record
class FleetTotals:
    """Some nodes and their devices in numbers."""

    nodes: int
    nodes_up: int
    devices: int
    devices_busy: int
    devices_barred: int
    """Those that get nothing: out of reach, cordoned, in quarantine, or not proved by their canary."""
    utilization: float | None
    """Mean of those that told of it of late, 0..1; `None`: none did."""
    utilization_of: int
    """How many that were."""
    price_per_h: float | None
    """Of the nodes whose price is known; `None`: of none."""
    unpriced: int
    """Nodes whose price is unknown."""


@record
class FleetGroup:
    """The nodes of one provider and tier."""

    provider: str | None
    tier: int | None
    totals: FleetTotals


@record
class ConfigPace:
    """How fast a training config is played."""

    config: str
    games_per_h: float | None
    """Over the last hour, or since the first game if that is less long ago."""
    day: int
    """Games of the last 24 hours; of those whose jobs have left the memory, whole hours only."""


@record
class FleetView:
    """The fleet as a whole, by provider and tier, and what it achieves."""

    at: float
    totals: FleetTotals
    groups: tuple[FleetGroup, ...]
    pace: Pace
    sweeps: tuple[SweepView, ...]
    """Those that are not over; at most 100."""
    configs: tuple[ConfigPace, ...]
    """Training configs that are not retired."""


@record
class IntervalView:
    """A part of a sweep's range, `stop` not included. `free` ones between others are the holes."""

    start: int
    stop: int
    standing: Literal["done", "free", "leased"]
    chunk: str | None
    """The chunk that is leased."""
    device: str | None
    """Who has it."""


@record
class JobMatch:
    """A filter of job lists; a field that is `None` lets every job through."""

    group: str | None = None
    """The id of their group."""
    node: str | None = None
    """The node on which they run, or ran last."""
    called: str | None = None
    """A shell-style pattern (`*`, `?`, `[…]`) of their names."""
    owner: str | None = None
    """The person that they belong to."""

    def fits(self, job: JobView) -> bool:
        """Whether a job is one of them."""
        if self.group is not None and job.group != self.group:
            return False
        if self.owner is not None and job.owner != self.owner:
            return False
        if self.node is not None and (job.device is None or job.device.rpartition("/")[0] != self.node):
            return False
        return self.called is None or fnmatchcase(job.name, self.called)


ANY_JOB = JobMatch()
