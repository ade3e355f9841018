"""Alerts and silences as they were decided; and, volatile beside them, what the rules measured last."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import field

from hostler.model.alerts import Comparison, Measure, Severity
from hostler.model.inputs import RlTelemetry
from hostler.model.record import entity, record
from hostler.policy.advising import Count
from hostler.policy.alerting import Reading, Smoothed, Watch

RECENT = 200
"""Alerts that are over and still shown; the journal has all of them."""


@record
class Acknowledged:
    """Somebody looks after it."""

    at: float
    who: str
    note: str | None


@record
class Silence:
    """Somebody does not want to be told of some alerts until then."""

    id: str
    rule: str
    subject: str | None
    who: str
    why: str
    since: float
    until: float


@entity
class Alert:
    """An alert that fires or, once it is over, did."""

    id: str
    rule: str
    subject: str
    measures: Measure
    severity: Severity
    group: str
    value: float | None
    low: float | None
    high: float | None
    comparison: Comparison
    threshold: float
    since: float
    fired_at: float
    why: str
    test: bool
    silence: str | None
    """The silence that keeps it from being told now."""
    told: bool
    """Whether there was a time when no silence did."""
    acknowledged: Acknowledged | None = None
    ended_at: float | None = None
    ended_why: str | None = None


@entity
class Alerts:
    """What fires, what is over, and what is not told."""

    next_alert: int = 1
    next_silence: int = 1
    firing: dict[str, dict[str, Alert]] = field(default_factory=dict)
    """By rule and subject."""
    recent: list[Alert] = field(default_factory=list)
    """Those that are over, the one that ended last at the end."""
    silences: dict[str, Silence] = field(default_factory=dict)
    """By id."""


@record
class Learner:
    """What a training by reinforcement told last, when it did, and what became of its advice at several times."""

    told: RlTelemetry
    at: float
    counts: tuple[Count, ...]


@entity
class Watching:
    """What is remembered from one look to the next. Volatile: a controller that begins knows nothing."""

    due: float | None = None
    """When the rules are looked at again."""
    looked_at: float | None = None
    watches: dict[str, dict[str, Watch]] = field(default_factory=lambda: defaultdict(dict))
    """By rule and subject."""
    readings: dict[str, dict[str, Reading]] = field(default_factory=dict)
    """By rule and subject: what was measured last."""
    means: dict[tuple[str, str], Smoothed] = field(default_factory=dict)
    """By rule and subject."""
    probes: dict[str, float] = field(default_factory=dict)
    """By rule: until when it measures something that was made up for a test."""
    learners: dict[str, Learner] = field(default_factory=dict)
    """By job: trainings by reinforcement that were heard of."""
    fleet: frozenset[str] | None = None
    """The nodes of the fleet; `None`: all that are known."""
