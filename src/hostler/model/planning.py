"""What the slow loop is asked, and what it answers: the whole fleet in numbers, by group of work × class of devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from hostler.model.record import record


@record
class Demand:
    """A group of work alike that wants devices."""

    name: str
    worth: Mapping[str, float]
    """What a second of a device of a class brings: value rate times relative speed. A class not named does not fit."""
    rates: Mapping[str, float] | None = None
    """Relative speed by class, the best 1; only for groups with `work`. `None`: `worth` over its largest."""
    most: float | None = None
    """Devices it can use at the same time; `None`: any number."""
    devices: int = 1
    """Devices that each of its jobs takes at once."""
    work: float | None = None
    """What is to be done of it in all, in device seconds of its best class; `None`: it never ends."""


@record
class QuotaRow:
    """A share of the devices of some classes that some groups are owed together."""

    name: str
    groups: frozenset[str]
    classes: frozenset[str]
    share: float
    penalty: float | None = None
    """What a missing device costs per second; `None`: more than any work could bring."""


@record
class Instance:
    """What there is and who wants it."""

    classes: Mapping[str, float]
    """Devices by class; fractions are those that are there for a part of the time."""
    demands: tuple[Demand, ...]
    quotas: tuple[QuotaRow, ...] = ()
    cost: Mapping[str, float] = field(default_factory=dict)
    """What a second of a device of a class costs, in the unit of `worth`."""
    drain_least_s: float = 0.0
    """The backlog need not be done sooner than that."""


@record
class Plan:
    """The best that could be done."""

    status: str
    """`optimal`, the solver's word for why not, or `no solver`."""
    shares: Mapping[str, Mapping[str, float]]
    """Group -> class -> devices; empty unless optimal."""
    prices: Mapping[str, float]
    """By class, the dearest 1."""
    raw_prices: Mapping[str, float]
    """By class, what one more device would bring per second, in the unit of the objective; empty unless optimal."""
    bound: float | None
    """What all work together can bring per second with the quotas kept as well as they can be; `None`: unknown."""
    drain_s: float | None
    """How long the backlog takes at least when all groups end together; `None`: there is none, or unknown."""
    quota_slack: Mapping[str, float]
    """Devices by which each quota is missed even by the best plan."""
    conflicts: tuple[str, ...]
    """In words: each quota that cannot be met, and what stands in its way."""
    seconds: float | None = None
    """How long the solver took, by its own clock."""
