"""What fires and what is over: every rule looks at what it measures, every half minute. Events only where that changes.

What fires and is measured no more (the node is gone, the sweep is done, the rule is not in force) is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from hostler.core.alerting import folds, gather
from hostler.core.alerting.state import Alert
from hostler.core.index import Index
from hostler.core.state import State
from hostler.model.alerts import TEST_SUBJECT, AlertRule
from hostler.model.events import AlertEnded, AlertFired, AlertsUnsilenced, Event
from hostler.policy import alerting
from hostler.policy.alerting import Change, Reading, Stage, Watch

Emit: TypeAlias = Callable[[Event], None]

CHORE = "alerts"
EVERY_S = 30.0
"""How often the rules are looked at."""


def review(state: State, index: Index, emit: Emit) -> None:
    """Look at the rules, if it is time to; nothing is looked at while the controller is about to leave."""
    own, kept = index.watching, state.alerts
    if index.draining or not (state.rules.alerts or kept.firing or kept.silences):
        return
    if own.due is None:
        _look_at(index, index.now + EVERY_S)
        return
    if CHORE not in index.chores:
        return
    index.chores.discard(CHORE)
    if index.now < own.due:
        return  # a timer that was set before it was decided to look later
    expire(state, index, emit)
    look(state, index, emit)
    _look_at(index, index.now + EVERY_S)


def look(state: State, index: Index, emit: Emit) -> None:
    """Look at all rules now."""
    in_force = {rule.name: rule for rule in state.rules.alerts if rule.enabled}
    for name in sorted(state.alerts.firing.keys() - in_force.keys()):
        for alert in list(state.alerts.firing[name].values()):
            _end(alert, "its rule is not in force any more", emit)
    for name in index.watching.watches.keys() - in_force.keys():
        del index.watching.watches[name]
    sights = gather.Sights(state, index)
    for rule in in_force.values():
        readings = gather.readings(sights, rule)
        index.watching.readings[rule.name] = dict(readings)
        judge(state, index, rule, {**readings, **_made_up(index, rule)}, emit)
    index.watching.looked_at = index.now


def judge(state: State, index: Index, rule: AlertRule, readings: Mapping[str, Reading], emit: Emit) -> None:
    """Take one rule's measurements of all its subjects."""
    watches, fires = index.watching.watches[rule.name], state.alerts.firing.get(rule.name, {})
    for subject in [each for each in watches if each not in readings]:
        del watches[subject]
    for alert in [each for name, each in fires.items() if name not in readings]:
        _end(alert, "there is nothing left to measure", emit)
    for subject, reading in readings.items():
        take(state, index, rule, subject, reading, index.now, emit)


def take(
    state: State, index: Index, rule: AlertRule, subject: str, reading: Reading, at: float, emit: Emit
) -> str | None:
    """Take one measurement of one subject; returns the id of the alert that it makes fire."""
    watches = index.watching.watches[rule.name]
    alert = state.alerts.firing.get(rule.name, {}).get(subject)
    before = watches.get(subject) or Watch()
    if alert is not None and not before.stage.fires:  # it fired in an earlier life of the controller
        before = Watch(stage=Stage.BLIND if alert.value is None else Stage.FIRING)
    watches[subject], change = alerting.step(before, rule, reading, at)
    if change is None:
        return None
    if change.to == "fired":
        return _fire(state, rule, subject, reading, change, emit)
    assert alert is not None, f"{rule.name} of {subject} is over and did not fire"
    _end(alert, change.why, emit, reading)
    return None


def expire(state: State, index: Index, emit: Emit) -> None:
    """End the silences whose time is up."""
    for silence in [each for each in state.alerts.silences.values() if each.until <= index.now]:
        unsilence(state, silence.id, None, emit)


def unsilence(state: State, silence: str, who: str | None, emit: Emit) -> None:
    """End a silence; what it has kept from being told and fires still is told now, unless another one is about it."""
    held = [each for each in folds.firing(state) if each.silence == silence and not each.told]
    heard = tuple(each.id for each in held if folds.silence_of(state, each.rule, each.subject, but=silence) is None)
    emit(AlertsUnsilenced(id=silence, who=who, alerts=heard))


def _made_up(index: Index, rule: AlertRule) -> Mapping[str, Reading]:
    """What a test lets the rule measure, until the alert it makes is over."""
    until = index.watching.probes.get(rule.name)
    if until is None:
        return {}
    if index.now < until:
        return {TEST_SUBJECT: alerting.crossing(rule)}
    del index.watching.probes[rule.name]
    return {TEST_SUBJECT: alerting.leaving(rule)}


def _fire(state: State, rule: AlertRule, subject: str, reading: Reading, change: Change, emit: Emit) -> str:
    name = f"a{state.alerts.next_alert}"
    emit(
        AlertFired(
            id=name,
            rule=rule.name,
            subject=subject,
            measures=rule.measures,
            severity=rule.severity,
            group=rule.group or rule.name,
            value=reading.value,
            low=reading.low,
            high=reading.high,
            comparison=rule.comparison,
            threshold=rule.threshold,
            since=change.since,
            why=change.why,
            test=subject == TEST_SUBJECT,
            silence=folds.silence_of(state, rule.name, subject),
        )
    )
    return name


def _end(alert: Alert, why: str, emit: Emit, reading: Reading | None = None) -> None:
    known = reading or Reading(value=None)
    emit(
        AlertEnded(
            id=alert.id,
            rule=alert.rule,
            subject=alert.subject,
            measures=alert.measures,
            severity=alert.severity,
            group=alert.group,
            value=known.value,
            low=known.low,
            high=known.high,
            comparison=alert.comparison,
            threshold=alert.threshold,
            why=why,
            test=alert.test,
            told=alert.told,
        )
    )


def _look_at(index: Index, at: float) -> None:
    index.watching.due = at
    index.do_later(CHORE, at)
