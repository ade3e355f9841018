"""What people do about alerts: not wanting to be told for a while, looking after one, trying whether a rule works."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hostler.core.alerting import decide, folds, gather, learners, views
from hostler.core.index import Index
from hostler.core.state import State
from hostler.model import events, inputs
from hostler.model.alert_views import SilenceView
from hostler.model.alerts import EVERYTHING, TEST_SUBJECT, AlertRule
from hostler.model.errors import Conflict, NotFound, UsageError
from hostler.model.events import Event
from hostler.model.units import duration
from hostler.policy import alerting

Emit: TypeAlias = Callable[[Event], None]

SILENCE_LEAST_S, SILENCE_MOST_S = 1.0, 31 * 86_400.0
"""The longest silence: what nobody wants to be told of for longer is for the settings."""
PROBE_MOST_S = 86_400.0
WORDS_MAX = 2000
LOOKS_MOST = 1000


def _silence(state: State, index: Index, given: inputs.SilenceAlerts, emit: Emit) -> str:
    _in_words(given.who, "who", given.why, "why", given.subject or EVERYTHING, "of what")
    if given.rule != EVERYTHING:
        _rule(state, given.rule)
    if not SILENCE_LEAST_S <= given.for_s <= SILENCE_MOST_S:
        raise UsageError(
            f"a silence of {given.for_s:g} s cannot be; it lasts from a second up to {duration(SILENCE_MOST_S)} "
            "(a rule that is never wanted is turned off in the fleet file: `alerts: {rules: {NAME: {enabled: false}}}`)"
        )
    name = f"s{state.alerts.next_silence}"
    emit(
        events.AlertsSilenced(
            id=name,
            rule=given.rule,
            subject=given.subject,
            who=given.who,
            why=given.why,
            until=index.now + given.for_s,
        )
    )
    return name


def _unsilence(state: State, index: Index, given: inputs.UnsilenceAlerts, emit: Emit) -> SilenceView:
    """End a silence; returns it as it was, for there will be none to look at."""
    if given.silence not in state.alerts.silences:
        raise NotFound(f"there is no silence {given.silence!r}, or it is over; `hostler alert silences` lists them")
    ended = views.silence_view(state, state.alerts.silences[given.silence])
    decide.unsilence(state, given.silence, given.who, emit)
    return ended


def _acknowledge(state: State, index: Index, given: inputs.AcknowledgeAlert, emit: Emit) -> None:
    _in_words(given.who, "who", given.note or "-", "note")
    alert = folds.find(state, given.alert)
    if alert is None:
        over = next((each for each in state.alerts.recent if each.id == given.alert), None)
        if over is None:
            raise NotFound(f"there is no alert {given.alert!r}; `hostler alert list` lists them")
        raise Conflict(f"{given.alert} is over already; there is nothing to look after")
    known = alert.acknowledged
    if known is None or (known.who, known.note) != (given.who, given.note):
        emit(events.AlertAcknowledged(id=given.alert, who=given.who, note=given.note))


def _probe(state: State, index: Index, given: inputs.ProbeAlert, emit: Emit) -> str:
    """The measurement goes the way of all: as if the rule had seen it every half minute for as long as it asks.

    Raises `Conflict` where nothing fires, with what keeps it from firing.
    """
    rule = _rule(state, given.rule)
    if not 0 < given.lasts_s <= PROBE_MOST_S:
        raise UsageError(f"a test of {given.lasts_s:g} s cannot be; it lasts up to {duration(PROBE_MOST_S)}")
    if not rule.enabled:
        raise Conflict(f"{rule.name} is not in force, and never fires; its `enabled` is false in the settings")
    if TEST_SUBJECT in state.alerts.firing.get(rule.name, {}):
        raise Conflict(f"a test of {rule.name} is under way; wait until that is over")
    try:
        reading = alerting.crossing(rule)
    except ValueError as error:
        raise Conflict(f"{rule.name} can never fire: {error}") from error
    index.watching.readings[rule.name] = dict(gather.readings(gather.Sights(state, index), rule))
    made = None
    for at in _looks(index.now - rule.for_s, index.now):
        made = made or decide.take(state, index, rule, TEST_SUBJECT, reading, at, emit)
    if made is None:
        raise Conflict(f"{rule.name} did not fire though it was crossed for {duration(rule.for_s)}")
    index.watching.probes[rule.name] = index.now + given.lasts_s
    return made


TAKES: dict[type, Callable[[State, Index, Any, Emit], Any]] = {
    inputs.SilenceAlerts: _silence,
    inputs.UnsilenceAlerts: _unsilence,
    inputs.AcknowledgeAlert: _acknowledge,
    inputs.ProbeAlert: _probe,
    inputs.RlTelemetry: learners.heard,
}


def _rule(state: State, name: str) -> AlertRule:
    found = next((rule for rule in state.rules.alerts if rule.name == name), None)
    if found is None:
        raise NotFound(f"there is no rule {name!r}; `hostler alert rules` lists them")
    return found


def _looks(since: float, until: float) -> Iterator[float]:
    """When a rule would have looked: every half minute, of long times at a thousand moments; the last is `until`."""
    apart_s = max(decide.EVERY_S, (until - since) / LOOKS_MOST)
    for number in range(int((until - since) / apart_s)):
        yield since + number * apart_s
    yield until


def _in_words(*said: str) -> None:
    """Texts that somebody has to give, each followed by its name."""
    for text, name in zip(said[::2], said[1::2], strict=True):
        if not text.strip() or len(text) > WORDS_MAX:
            raise UsageError(f"say {name}, in at most {WORDS_MAX} characters; it is shown wherever this is")
