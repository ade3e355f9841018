"""Folding what was decided about alerts into the state: one small function for each event."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hostler.core.alerting.state import RECENT, Acknowledged, Alert, Silence
from hostler.core.index import Index
from hostler.core.state import State
from hostler.model import events
from hostler.model.errors import IllegalTransition
from hostler.policy import alerting


def find(state: State, alert: str) -> Alert | None:
    """The alert of this id that fires."""
    return next((each for each in firing(state) if each.id == alert), None)


def firing(state: State) -> Iterator[Alert]:
    """All alerts that fire."""
    return (each for by_subject in state.alerts.firing.values() for each in by_subject.values())


def _fired(state: State, index: Index, event: events.AlertFired) -> None:
    known = state.alerts.firing.setdefault(event.rule, {})
    if event.subject in known:
        raise IllegalTransition(f"{event} does not fit: it fires already, as {known[event.subject].id}")
    known[event.subject] = Alert(
        id=event.id,
        rule=event.rule,
        subject=event.subject,
        measures=event.measures,
        severity=event.severity,
        group=event.group,
        value=event.value,
        low=event.low,
        high=event.high,
        comparison=event.comparison,
        threshold=event.threshold,
        since=event.since,
        fired_at=state.at,
        why=event.why,
        test=event.test,
        silence=event.silence,
        told=event.silence is None,
    )
    state.alerts.next_alert = max(state.alerts.next_alert, int(event.id[1:]) + 1)


def _ended(state: State, index: Index, event: events.AlertEnded) -> None:
    of_rule = state.alerts.firing[event.rule]
    alert = of_rule.pop(event.subject)
    if not of_rule:
        del state.alerts.firing[event.rule]
    alert.ended_at, alert.ended_why = state.at, event.why
    state.alerts.recent = [*state.alerts.recent[1 - RECENT :], alert]


def _silenced(state: State, index: Index, event: events.AlertsSilenced) -> None:
    silence = Silence(
        id=event.id,
        rule=event.rule,
        subject=event.subject,
        who=event.who,
        why=event.why,
        since=state.at,
        until=event.until,
    )
    state.alerts.silences[event.id] = silence
    state.alerts.next_silence = max(state.alerts.next_silence, int(event.id[1:]) + 1)
    for alert in firing(state):
        if alert.silence is None and alerting.matches(alert.rule, alert.subject, event.rule, event.subject):
            alert.silence = event.id


def _unsilenced(state: State, index: Index, event: events.AlertsUnsilenced) -> None:
    """What another silence is about as well stays silent by that one."""
    del state.alerts.silences[event.id]
    for alert in firing(state):
        if alert.silence == event.id:
            alert.silence = silence_of(state, alert.rule, alert.subject)
            alert.told = alert.told or alert.silence is None


def _acknowledged(state: State, index: Index, event: events.AlertAcknowledged) -> None:
    alert = find(state, event.id)
    if alert is None:
        raise IllegalTransition(f"{event} does not fit: it does not fire")
    alert.acknowledged = Acknowledged(at=state.at, who=event.who, note=event.note)


def silence_of(state: State, rule: str, subject: str, but: str | None = None) -> str | None:
    """The silence (other than `but`) that an alert would not be told for."""
    return next(
        (
            each.id
            for each in state.alerts.silences.values()
            if each.id != but and alerting.matches(rule, subject, each.rule, each.subject)
        ),
        None,
    )


FOLDS: Mapping[type, Callable[[State, Index, Any], None]] = {
    events.AlertFired: _fired,
    events.AlertEnded: _ended,
    events.AlertsSilenced: _silenced,
    events.AlertsUnsilenced: _unsilenced,
    events.AlertAcknowledged: _acknowledged,
}
