"""What the fleet's owner has decided about scheduling: shares, quotas, weights, preferences, limits. Numbers only.

Fractions lie in 0..1, times are seconds, money is in the currency of the fleet file. Each field is a setting of the
same name in the fleet file's `scheduling` section (of `PastRules`, in `journal`); the defaults are the product's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from hostler.model.alerts import AlertRule
from hostler.model.fleet import Money
from hostler.model.numbers import Count, Some
from hostler.model.record import record
from hostler.model.work import GIGABYTES_MAX, Rest, Seconds, WorkKind

Fraction: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Weight: TypeAlias = Annotated[float, Field(ge=0, le=1000)]
Tier: TypeAlias = Literal[1, 2, 3]

SHARES: Mapping[WorkKind, float] = {
    WorkKind.SELFPLAY: 0.6,
    WorkKind.TRAINING: 0.3,
    WorkKind.EVALUATION: 0.1,
    WorkKind.SCRIPT: 1.0,
    WorkKind.SWEEP: 1.0,
    WorkKind.RL: 1.0,
}
"""What each kind of work may count on, against the sum of those that want devices. An export counts as training."""


@record
class Quota:
    """A share of the device time of one tier for the configs a pattern matches, together."""

    pattern: Annotated[str, Field(min_length=1)]
    """Name of a config; `*` and `?` match as in file names."""
    share: Fraction
    tier: Tier = 1


@record
class PriorityWeights:
    """How much each factor counts in the rank of a training config; only their proportions matter."""

    curriculum: Weight = 0.3
    starvation: Weight = 0.25
    data_age: Weight = 0.15
    velocity: Weight = 0.15
    quality: Weight = 0.15


@record
class Preferences:
    """Providers in the order a kind of work likes them; those not named come between `fallback` and `avoid`."""

    prefer: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()


@record
class Cost:
    """Whom to rent from for what, and what is too dear."""

    providers: Mapping[WorkKind, Preferences] = field(default_factory=dict)
    max_price_per_h: Mapping[WorkKind, Money] = field(default_factory=dict)
    """Most that one device may cost per hour for this kind of work; a device of unknown price is not refused."""


@record
class Targets:
    """What a device and a node should be like. Utilisation as the driver tells it."""

    gpu_min: Fraction = 0.6
    gpu_max: Fraction = 0.8
    pid_kp: Annotated[float, Field(ge=0)] = 0.1
    pid_ki: Annotated[float, Field(ge=0)] = 0.01
    pid_kd: Annotated[float, Field(ge=0)] = 0.05
    lanes_max: Annotated[int, Field(ge=1, le=64)] = 4
    """Self-play jobs that may share one device, at most."""
    idle_below: Fraction = 0.05
    idle_after_s: Seconds = 300.0
    idle_check_s: Seconds = 60.0
    memory_max: Fraction = 0.8
    disk_warning: Fraction = 0.6
    disk_clean: Fraction = 0.65
    disk_critical: Fraction = 0.7
    disk_store: Fraction = 0.5
    """Of the disk that the state directory lies on: it is cleaned from here on, sooner than others."""
    disk_free_gb: Annotated[float, Field(ge=0, le=GIGABYTES_MAX)] = 1.0
    """Less free space than this is critical, whatever its share."""
    disk_roomy_gb: Annotated[float, Field(ge=0, le=GIGABYTES_MAX)] = 50.0
    """With so much free space the share that is taken warns, and nothing more: a tenth of a large disk is a lot."""
    disk_full_within_s: Seconds = 3600.0
    """A disk that will be full so soon, as it fills now, is critical."""
    queue_max: Annotated[Count, Field(ge=1)] = 200_000
    """Jobs waiting."""
    backlog_max_s: Seconds = 1800.0
    """Age of the oldest result that is not yet where it should be."""
    load_max: Annotated[float, Field(gt=0, le=1000)] = 16.0
    """Processes that run or want to, per core of a node: as many are an overload."""
    telemetry_max_age_s: Seconds = 60.0
    """What was heard longer ago is unknown."""
    unknown_hold_s: Rest = 300.0
    """How long what was decided on telemetry holds once that is unknown; then it expires."""


@record
class QuarantineRules:
    """When a device is not trusted any more, and when it is tried again."""

    failures: Some = 3
    """Failures of the device's own kind in a row, of different jobs or not."""
    rest_s: Seconds = 600.0
    """First quarantine; doubled each time the probe fails."""
    rest_max_s: Seconds = 6 * 3600.0


@record
class PlacementRules:
    """How devices are given away."""

    beta: Annotated[float, Field(ge=0, le=16)] = 4.0
    """How strongly work keeps to the devices it is best at for their price; faded in with the backlog."""
    round_s: Rest = 0.0
    """How often jobs that can be stopped are placed anew; 0: never, they keep what they have."""
    restart_s: Rest = 60.0
    """What starting anew is taken to cost a job that can be stopped, beside what it has not saved."""
    plan_every_s: Seconds = 120.0
    """How often the slow loop looks at the whole."""
    starve_after_s: Seconds = 4 * 3600.0
    """After so long without work a config goes first, ever more so."""
    preempt: bool = True
    """Whether training and evaluation may take a device from self-play."""
    preempt_after_s: Rest = 10.0
    """How long they wait before they do: a device may come free by itself."""
    hold_s: Rest = 900.0
    """How long a device may be kept free for work that needs more than one."""
    transfer_mb_per_s: Annotated[float, Field(gt=0, le=1e6)] = 30.0
    """How fast data is taken to come to a node, in megabytes per second."""


@record
class PastRules:
    """When jobs that are over leave the controller's memory, and are answered for by the store alone."""

    keep_finished: Count = 10_000
    """The newest that stay, however old they are."""
    keep_finished_s: Rest = 86_400.0
    """For how long all of them stay."""


@record
class CompactRules:
    """Which entries of the journal go into segments: packed, and as good to read as others, only slower."""

    after_s: Rest = 7 * 86_400.0
    """How old they are."""
    keep_entries: Count = 100_000
    """The newest that stay, however old they are."""


@record
class Rules:
    """Everything the policies are told by the fleet's owner."""

    shares: Mapping[WorkKind, Weight] = field(default_factory=lambda: SHARES)
    quotas: tuple[Quota, ...] = ()
    priority: PriorityWeights = PriorityWeights()
    cost: Cost = Cost()
    targets: Targets = Targets()
    quarantine: QuarantineRules = QuarantineRules()
    placement: PlacementRules = PlacementRules()
    past: PastRules = PastRules()
    memory_gb: Annotated[float, Field(gt=0, le=GIGABYTES_MAX)] | None = None
    """Most resident memory (GiB) of each attempt of a script or a stage that states none; `None`: no limit."""
    alerts: tuple[AlertRule, ...] = ()
    """What people are told of; a fleet file has `model.alerts.USUAL_ALERTS`, or what it makes of them."""


USUAL = Rules()
