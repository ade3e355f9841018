"""Alerts, silences and rules for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hostler.core.alerting import folds
from hostler.core.alerting.state import Alert, Silence
from hostler.core.index import Index
from hostler.core.state import State
from hostler.model.alert_views import AlertView, RuleReading, RuleView, SilenceView
from hostler.model.alerts import MEASURES, AlertRule
from hostler.model.views import BanView
from hostler.policy import alerting
from hostler.policy.alerting import Reading, Stage

READINGS_SHOWN = 100


def alert_views(state: State, index: Index) -> Sequence[AlertView]:
    """What fires, the newest first; what may come to fire; then what is over, the one that ended last first."""
    firing = sorted(folds.firing(state), key=lambda each: int(each.id[1:]), reverse=True)
    now = {each.id: _reading(index, each.rule, each.subject) for each in firing}
    return [
        *(_view(each, now[each.id]) for each in firing),
        *_pending(state, index),
        *(_view(each, None) for each in reversed(state.alerts.recent)),
    ]


def find_alert(state: State, index: Index, name: str) -> AlertView | None:
    """The alert of this id that fires, or did of late."""
    alert = folds.find(state, name)
    if alert is not None:
        return _view(alert, _reading(index, alert.rule, alert.subject))
    return next((_view(each, None) for each in state.alerts.recent if each.id == name), None)


def rule_views(state: State, index: Index, origins: Mapping[str, Mapping[str, str]]) -> Sequence[RuleView]:
    """All rules, with what they measure now; `origins` says by rule and field where its value was set."""
    return [_rule(state, index, rule, origins.get(rule.name, {})) for rule in state.rules.alerts]


def silence_views(state: State) -> Sequence[SilenceView]:
    """All silences."""
    return [silence_view(state, each) for each in state.alerts.silences.values()]


def silence_view(state: State, silence: Silence) -> SilenceView:
    """A silence, and what it keeps from being told."""
    return SilenceView(
        id=silence.id,
        rule=silence.rule,
        subject=silence.subject,
        who=silence.who,
        why=silence.why,
        since=silence.since,
        until=silence.until,
        alerts=tuple(each.id for each in folds.firing(state) if each.silence == silence.id),
    )


def count(state: State) -> int:
    """How many alerts fire that no silence keeps back."""
    return sum(each.silence is None for each in folds.firing(state))


def bans(state: State) -> Iterator[BanView]:
    """The silences, among everything else that is held back for a while."""
    for each in state.alerts.silences.values():
        yield BanView(
            kind="silence",
            what=each.rule,
            of=each.subject,
            owner=each.who,
            why=f"{each.why}; `hostler alert unsilence {each.id}` ends it",
            since=each.since,
            until=each.until,
        )


def _view(alert: Alert, now: Reading | None) -> AlertView:
    known = alert.acknowledged
    return AlertView(
        id=alert.id,
        state="firing" if alert.ended_at is None else "over",
        rule=alert.rule,
        subject=alert.subject,
        severity=alert.severity,
        group=alert.group,
        value=alert.value,
        low=alert.low,
        high=alert.high,
        value_now=None if now is None else now.value,
        unit=MEASURES[alert.measures].unit,
        comparison=alert.comparison,
        threshold=alert.threshold,
        since=alert.since,
        fired_at=alert.fired_at,
        ended_at=alert.ended_at,
        why=alert.why,
        ended_why=alert.ended_why,
        test=alert.test,
        silence=alert.silence,
        acknowledged_by=None if known is None else known.who,
        acknowledged_at=None if known is None else known.at,
        note=None if known is None else known.note,
    )


def _pending(state: State, index: Index) -> Iterator[AlertView]:
    for rule in state.rules.alerts:
        watches, readings = index.watching.watches.get(rule.name, {}), index.watching.readings.get(rule.name, {})
        for subject, watch in watches.items():
            if watch.stage is Stage.PENDING and watch.since is not None and subject in readings:
                yield _waiting(rule, subject, readings[subject], watch.since)


def _waiting(rule: AlertRule, subject: str, reading: Reading, since: float) -> AlertView:
    return AlertView(
        id=None,
        state="pending",
        rule=rule.name,
        subject=subject,
        severity=rule.severity,
        group=rule.group or rule.name,
        value=reading.value,
        low=reading.low,
        high=reading.high,
        value_now=reading.value,
        unit=MEASURES[rule.measures].unit,
        comparison=rule.comparison,
        threshold=rule.threshold,
        since=since,
        fired_at=None,
        ended_at=None,
        why=alerting.words(rule, reading),
        ended_why=None,
        test=False,
        silence=None,
        acknowledged_by=None,
        acknowledged_at=None,
        note=None,
    )


def _reading(index: Index, rule: str, subject: str) -> Reading | None:
    return index.watching.readings.get(rule, {}).get(subject)


def _rule(state: State, index: Index, rule: AlertRule, origins: Mapping[str, str]) -> RuleView:
    readings = index.watching.readings.get(rule.name, {})
    watches = index.watching.watches.get(rule.name, {})
    return RuleView(
        rule=rule,
        unit=MEASURES[rule.measures].unit,
        meaning=MEASURES[rule.measures].meaning,
        origins=dict(origins),
        looked_at=index.watching.looked_at,
        subjects=len(readings),
        unknown=sum(each.value is None for each in readings.values()),
        pending=sum(each.stage is Stage.PENDING for each in watches.values()),
        firing=len(state.alerts.firing.get(rule.name, {})),
        readings=tuple(
            RuleReading(subject=name, value=each.value, low=each.low, high=each.high, note=each.note)
            for name, each in sorted(readings.items())[:READINGS_SHOWN]
        ),
    )
