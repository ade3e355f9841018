"""What is shown of alerts. Made from the state that they are decided on; times are Unix seconds, unknown is `null`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from hostler.model.alerts import AlertRule, Comparison, Severity
from hostler.model.record import record


@record
class AlertView:
    """An alert that fires, may come to fire, or is over."""

    id: str | None
    """`None` while it is pending."""
    state: Literal["pending", "firing", "over"]
    rule: str
    subject: str
    """The node, device, sweep or training config that it is about; `fleet`: all of it."""
    severity: Severity
    group: str
    value: float | None
    """What it rests on; `None`: it had been unknown for so long that this is the alert."""
    low: float | None
    high: float | None
    """The interval of the value, where chance has a part in it."""
    value_now: float | None
    """As it was measured last; `None`: it is not known, or not measured any more."""
    unit: str
    comparison: Comparison
    threshold: float
    since: float
    """When it was crossed, time in which it was unknown left out."""
    fired_at: float | None
    ended_at: float | None
    why: str
    ended_why: str | None
    test: bool
    """Somebody asked for it, to see that it comes: nothing is wrong."""
    silence: str | None
    """The silence that keeps it from being told."""
    acknowledged_by: str | None
    acknowledged_at: float | None
    note: str | None


@record
class SilenceView:
    """Alerts that are not told for a while: by whom, why, until when."""

    id: str
    rule: str
    """`*`: all rules."""
    subject: str | None
    """A subject or a pattern; `None`: all."""
    who: str
    why: str
    since: float
    until: float
    alerts: tuple[str, ...]
    """Those that fire and are not told because of it."""


@record
class RuleReading:
    """What a rule measured last of one subject."""

    subject: str
    value: float | None
    low: float | None
    high: float | None
    note: str


@record
class RuleView:
    """A rule, where its numbers come from, and what it measures now."""

    rule: AlertRule
    unit: str
    meaning: str
    origins: Mapping[str, str]
    """By field: `file:line:column`, a variable, or `default`."""
    looked_at: float | None
    """When it was measured last; `None`: not yet in this life of the controller."""
    subjects: int
    unknown: int
    """Of how many subjects the value is not known now."""
    pending: int
    firing: int
    readings: tuple[RuleReading, ...]
    """At most 100."""


@record
class ProbeView:
    """A test of a rule: the alert that it made, and what the rule measures of the real fleet."""

    alert: AlertView
    rule: RuleView
    told: tuple[str, ...]
    """The targets that it goes to; empty where a silence keeps it back, or there are none."""


@record
class TargetView:
    """Somewhere that alerts are told, and how that goes. What is secret about it is not shown."""

    name: str
    kind: Literal["webhook", "slack", "ntfy", "apprise"]
    least: Severity
    """Nothing less severe is told there."""
    through: int
    """The number of the journal entry up to which everything has been told, or given up."""
    waiting: int
    """Alerts that are known and not told yet."""
    sent: int
    """Messages that were taken, since the controller began."""
    given_up: int
    sent_at: float | None
    failing_since: float | None
    trouble: str | None
    """What kept the newest message from being taken; `None`: nothing does."""
