"""Facts about alerts, with the values they rest on."""

from __future__ import annotations

from typing import Literal

from hostler.model.alerts import Comparison, Measure, Severity
from hostler.model.record import record


@record
class AlertFired:
    """Decision: somebody should know. What crossed its threshold has done so for as long as the rule asks."""

    kind: Literal["alert.fired"] = "alert.fired"
    id: str
    rule: str
    subject: str
    """The node, device, sweep or training config that it is about; `fleet`: all of it."""
    measures: Measure
    severity: Severity
    group: str
    value: float | None
    """`None`: it has been unknown for so long that this is the alert."""
    low: float | None = None
    high: float | None = None
    comparison: Comparison
    threshold: float
    since: float
    """When it was crossed, time in which it was unknown left out."""
    why: str
    test: bool = False
    silence: str | None = None
    """The silence that keeps it from being told."""


@record
class AlertEnded:
    """Decision: what fired is over, or is about nothing any more."""

    kind: Literal["alert.ended"] = "alert.ended"
    id: str
    rule: str
    subject: str
    measures: Measure
    severity: Severity
    group: str
    value: float | None
    """`None` where there is nothing left to measure."""
    low: float | None = None
    high: float | None = None
    comparison: Comparison
    threshold: float
    why: str
    test: bool = False
    told: bool = True
    """Whether there was a time when no silence kept it from being told."""


@record
class AlertsSilenced:
    """Somebody wants not to be told of some alerts until then."""

    kind: Literal["alert.silenced"] = "alert.silenced"
    id: str
    rule: str
    """`*`: all rules."""
    subject: str | None
    """A subject or a pattern (`rig-*`); `None`: all."""
    who: str
    why: str
    until: float


@record
class AlertsUnsilenced:
    """A silence is over: its time is up (`who` is `None`), or somebody ended it."""

    kind: Literal["alert.unsilenced"] = "alert.unsilenced"
    id: str
    who: str | None
    alerts: tuple[str, ...]
    """Alerts that fire, and that nobody was told of yet."""


@record
class AlertAcknowledged:
    """Somebody looks after an alert."""

    kind: Literal["alert.acknowledged"] = "alert.acknowledged"
    id: str
    who: str
    note: str | None
