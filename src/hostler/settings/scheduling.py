"""How devices are given away, as it is written in a fleet file: `model.rules`, one to one.

The numbers have one definition, with their defaults, in `hostler.model.rules`; here is what they mean to whoever writes
a fleet file, and which of them contradict each other.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import AfterValidator, Discriminator, Tag, model_validator

from hostler.model.fleet import Money
from hostler.model.rules import (
    SHARES,
    Fraction,
    PlacementRules,
    Preferences,
    PriorityWeights,
    QuarantineRules,
    Targets,
    Weight,
)
from hostler.model.work import WorkKind
from hostler.settings.section import Name, Section


def _named_once(preferences: Preferences) -> Preferences:
    counts = Counter((*preferences.prefer, *preferences.fallback, *preferences.avoid))
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise ValueError(f"names {', '.join(twice)} twice; a provider is preferred, a fallback or avoided")
    return preferences


def _has_a_weight(weights: PriorityWeights) -> PriorityWeights:
    if not any(getattr(weights, name) for name in PRIORITY_FIELDS):
        raise ValueError("all weights are 0, which ranks nothing; leave one above")
    return weights


def _in_order(targets: Targets) -> Targets:
    for least, most in (("gpu_min", "gpu_max"), ("disk_warning", "disk_clean"), ("disk_clean", "disk_critical")):
        low, high = getattr(targets, least), getattr(targets, most)
        if low > high:
            raise ValueError(f"{least} {low:g} is above {most} {high:g}; set both")
    if targets.idle_below >= targets.gpu_min:
        raise ValueError(
            f"idle_below {targets.idle_below:g} is not below gpu_min {targets.gpu_min:g}; nothing would be busy enough"
        )
    return targets


def _grows(rules: QuarantineRules) -> QuarantineRules:
    if rules.rest_s > rules.rest_max_s:
        raise ValueError(f"rest_s {rules.rest_s:g} is above rest_max_s {rules.rest_max_s:g}")
    return rules


def _layout(quotas: Any) -> str:
    nested = isinstance(quotas, dict) and any(isinstance(value, dict) for value in quotas.values())
    return "tiers" if nested else "patterns"


Pattern: TypeAlias = Name
Patterns: TypeAlias = dict[Pattern, Fraction]
Quotas: TypeAlias = Annotated[
    Annotated[Patterns, Tag("patterns")] | Annotated[dict[Literal["1", "2", "3"], Patterns], Tag("tiers")],
    Discriminator(_layout),
]
Providers: TypeAlias = dict[WorkKind, Annotated[Preferences, AfterValidator(_named_once)]]


class Shares(Section):
    """What each kind of work may count on of the devices, against all others that want some. Not needed is lent out."""

    selfplay: Weight = SHARES[WorkKind.SELFPLAY]
    """Of self-play."""
    training: Weight = SHARES[WorkKind.TRAINING]
    """Of training; an export counts as training."""
    evaluation: Weight = SHARES[WorkKind.EVALUATION]
    """Of evaluation."""
    script: Weight = SHARES[WorkKind.SCRIPT]
    """Of scripts that do not count as another kind of `work`."""
    sweep: Weight = SHARES[WorkKind.SWEEP]
    """Of sweeps."""
    rl: Weight = SHARES[WorkKind.RL]
    """Of distributed reinforcement learning."""

    @model_validator(mode="after")
    def _shares_something(self) -> Self:
        if not any(getattr(self, name) for name in type(self).model_fields):
            raise ValueError("all shares are 0, and nothing would run; leave one above")
        return self


class Costs(Section):
    """Whom to rent from for what, and what is too dear."""

    providers: Providers = {}
    """By kind of work, providers in the order it likes them: `prefer`, `fallback`, those not named, `avoid`."""
    max_price_per_h: dict[WorkKind, Money] = {}
    """By kind of work, the most that one device may cost per hour; one of unknown price is not refused."""


class Scheduling(Section):
    """How devices are given away."""

    shares: Shares = Shares()
    """What each kind of work may count on."""
    quotas: Quotas = {}
    """Shares of the device time of tier 1, by name of a training config or pattern (`hex8_*`); of other tiers as
    `{'1': {hexagonal_4p: 0.25}, '3': {'hex8_*': 0.5}}`. Time that is not used is lent out, and paid back."""
    priority: Annotated[PriorityWeights, AfterValidator(_has_a_weight)] = PriorityWeights()
    """What ranks a training config."""
    cost: Costs = Costs()
    """Whom to rent from for what, and what is too dear."""
    targets: Annotated[Targets, AfterValidator(_in_order)] = Targets()
    """What a device and a node should be like."""
    quarantine: Annotated[QuarantineRules, AfterValidator(_grows)] = QuarantineRules()
    """When a device is not trusted any more."""
    placement: PlacementRules = PlacementRules()
    """How work finds its device."""


PRIORITY_FIELDS = {
    "curriculum": "Counts the `weight` of the config.",
    "starvation": "Counts how long it has had no work.",
    "data_age": "Counts how old its newest dataset is.",
    "velocity": "Counts how fast its rating moves.",
    "quality": "Counts how good its games are.",
}
SCHEDULING_FIELDS = {
    "PriorityWeights": PRIORITY_FIELDS,
    "Preferences": {
        "prefer": "Providers it is put on first.",
        "fallback": "Providers it is put on next.",
        "avoid": "Providers it is put on where there is no other.",
    },
    "Targets": {
        "gpu_min": "A GPU that is used less than this, as a fraction, gets one more self-play job beside the others.",
        "gpu_max": "One that is used more gets one less.",
        "pid_kp": "Proportional gain of the controller that chooses how many self-play jobs share a GPU.",
        "pid_ki": "Its integral gain.",
        "pid_kd": "Its derivative gain.",
        "lanes_max": "Self-play jobs that may share one GPU, at most.",
        "idle_below": "A device used less than this, as a fraction, is idle.",
        "idle_after_s": "How long it must be, in seconds, before it counts.",
        "idle_check_s": "How often that is looked at, in seconds.",
        "memory_max": "A node with more of its memory in use, as a fraction, gets nothing more.",
        "disk_warning": "A disk that is fuller than this, as a fraction, is told of.",
        "disk_clean": "On one that is fuller it is time to make room: nodes are cleaned (`retention.mode`).",
        "disk_critical": "On one that is fuller, nothing is trained.",
        "disk_store": "The controller's own disk, if fuller, is cleaned (`retention.mode`).",
        "disk_free_gb": "Less free space than this, in GB, is critical, too.",
        "disk_roomy_gb": "With so many GB free the share that is taken warns, and nothing more.",
        "disk_full_within_s": "So is a disk that will be full so soon, in seconds, as it fills now.",
        "queue_max": "Jobs that may wait before less is made for them to do.",
        "backlog_max_s": "Age, in seconds, of the oldest result that is not where it should be, before less is made.",
        "load_max": "Processes per core that run or want to; with as many a node gets no more scripts.",
        "telemetry_max_age_s": "What a node told longer ago than this, in seconds, is unknown.",
        "unknown_hold_s": "How long what was decided on telemetry holds once that is unknown, in seconds.",
    },
    "QuarantineRules": {
        "failures": "Failures of the device's own kind in a row after which it rests.",
        "rest_s": "How long it rests first, in seconds; doubled each time it fails again.",
        "rest_max_s": "Longest rest, in seconds.",
    },
    "PlacementRules": {
        "beta": "How strongly work keeps to the devices that it is best at for their price; 0 does not look.",
        "round_s": "How often jobs that can be stopped are placed anew, in seconds; 0: they keep what they have.",
        "restart_s": "What starting anew is taken to cost a job that can be stopped, in seconds.",
        "plan_every_s": "How often the programme for the whole fleet is solved, in seconds.",
        "starve_after_s": "After so long without work, in seconds, a config goes first, ever more so.",
        "preempt": "Whether training and evaluation may take a device from self-play.",
        "preempt_after_s": "How long they wait before they do, in seconds: a device may come free by itself.",
        "hold_s": "How long a device may be kept free for work that needs several, in seconds; for a quarter of the "
        "time that the work then lasts, if that is more. 0 keeps none.",
        "transfer_mb_per_s": "How fast data is taken to come to a node, in MB/s: work goes to where its data is, or "
        "the time counts.",
    },
}
"""Descriptions of the fields of records, which have no room for them."""
