"""What should a person know? A threshold, how long it must be crossed, and a second one at which that is over.

What is unknown neither fires nor ends anything, and the time in which it is does not count; where a rule says so, not
to know for long is an alert itself. Of a value with an interval the end that speaks against an alert counts: chance
fires nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Literal

from hostler.model.alerts import EVERYTHING, MEASURES, AlertRule, Measure
from hostler.model.record import record
from hostler.model.units import duration

NEARLY = 1e-9
"""Seconds that are nothing: times are sums of floats."""


class Stage(StrEnum):
    """Where a rule stands with a subject. `BLIND` fires, because nobody has known the value for long."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"
    BLIND = "blind"

    @property
    def fires(self) -> bool:
        """Whether somebody should know."""
        return self in (Stage.FIRING, Stage.BLIND)


@record
class Reading:
    """What is measured of a subject now; `value` is `None` where it is not known."""

    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""
    """What it consists of, or why it is not known."""


@record
class Watch:
    """What is remembered of a rule and a subject from one look to the next."""

    stage: Stage = Stage.OK
    since: float | None = None
    """While it is pending: since when it is crossed, moved on by the time in which that was unknown."""
    unknown_since: float | None = None


@record
class Change:
    """An alert fires now, or is over."""

    to: Literal["fired", "ended"]
    since: float
    why: str


@record
class Smoothed:
    """A mean over the last while in which older values count less."""

    value: float
    at: float


def step(watch: Watch, rule: AlertRule, reading: Reading, at: float) -> tuple[Watch, Change | None]:
    """One look at a subject at `at` (seconds, never less than before): what to remember, and what has changed."""
    if reading.value is None:
        return _unknown(watch, rule, reading, at)
    away_s = 0.0 if watch.unknown_since is None else at - watch.unknown_since
    known = replace(watch, unknown_since=None)
    if known.stage.fires:
        return _firing(known, rule, reading, at)
    if not crosses(rule, reading):
        return Watch(), None
    since = at if known.since is None else known.since + away_s
    if at - since < rule.for_s - NEARLY:
        return Watch(stage=Stage.PENDING, since=since), None
    return Watch(stage=Stage.FIRING), Change(to="fired", since=since, why=words(rule, reading))


def crosses(rule: AlertRule, reading: Reading) -> bool:
    """Whether the value is beyond the threshold for certain: the whole of its interval is."""
    value = _decisive(rule, reading)
    return value is not None and (value < rule.threshold if rule.comparison == "below" else value > rule.threshold)


def leaves(rule: AlertRule, reading: Reading) -> bool:
    """Whether an alert is over with this value: it has reached the second threshold."""
    value = _decisive(rule, reading)
    return value is not None and (value >= rule.over if rule.comparison == "below" else value <= rule.over)


def fault(rule: AlertRule) -> str | None:
    """Why a rule cannot work; `None` where it can."""
    backwards = rule.over < rule.threshold if rule.comparison == "below" else rule.over > rule.threshold
    if backwards:
        side = "above" if rule.comparison == "below" else "below"
        return f"over {rule.over:g} must lie {side} threshold {rule.threshold:g}, or be the same"
    if _end(rule, crossing=True) is None:
        return f"threshold {rule.threshold:g}: no value can be {rule.comparison} that ({_range(rule.measures)})"
    if _end(rule, crossing=False) is None:
        return f"over {rule.over:g}: no value can reach that ({_range(rule.measures)})"
    return None


def crossing(rule: AlertRule) -> Reading:
    """A measurement that crosses the threshold, as a test needs one. Raises `ValueError` where there is none."""
    return _made(rule, crossing=True)


def leaving(rule: AlertRule) -> Reading:
    """A measurement with which an alert is over. Raises `ValueError` where there is none."""
    return _made(rule, crossing=False)


def smoothed(before: Smoothed | None, value: float, at: float, window_s: float) -> Smoothed:
    """The mean after one more value; after a gap longer than `window_s` it begins anew."""
    if before is None or at - before.at > window_s:
        return Smoothed(value=value, at=at)
    weight = 1.0 - math.exp(-(at - before.at) / window_s)
    return Smoothed(value=before.value + weight * (value - before.value), at=at)


def matches(rule: str, subject: str, of_rule: str, of_subject: str | None) -> bool:
    """Whether a silence of `of_rule` and `of_subject` (a name or a pattern, `None` for all) is about this alert."""
    if of_rule not in (EVERYTHING, rule):
        return False
    return of_subject is None or of_subject == subject or fnmatchcase(subject, of_subject)


def words(rule: AlertRule, reading: Reading) -> str:
    """Why it fires or is over, for people: `0.31 share, below 0.5 for 30m 00s`."""
    lasts = f" for {duration(rule.for_s)}" if rule.for_s else ""
    window = f" over {duration(rule.window_s)}" if rule.window_s else ""
    note = f"; {reading.note}" if reading.note else ""
    limit = f"{rule.comparison} {figure(rule.measures, rule.threshold)}{lasts}"
    return f"{told(rule.measures, reading)}{window}, {limit}{note}"


def told(measure: Measure, reading: Reading) -> str:
    """A value with its interval and its unit."""
    if reading.value is None:
        return "unknown"
    interval = ""
    if reading.low is not None and reading.high is not None and reading.low < reading.high:
        interval = f" ({reading.low:.3g} to {reading.high:.3g})"
    return f"{figure(measure, reading.value)}{interval}"


def figure(measure: Measure, value: float) -> str:
    """A value with its unit."""
    unit = MEASURES[measure].unit
    show = FIGURES.get(unit)
    return f"{value:.3g} {unit}" if show is None else show(value)


FIGURES: Mapping[str, Callable[[float], str]] = {"s": duration, "share": lambda value: f"{100 * value:.0f} %"}


def _unknown(watch: Watch, rule: AlertRule, reading: Reading, at: float) -> tuple[Watch, Change | None]:
    since = at if watch.unknown_since is None else watch.unknown_since
    blind = replace(watch, unknown_since=since)
    if watch.stage.fires or rule.unknown_s is None or at - since < rule.unknown_s - NEARLY:
        return blind, None
    note = f"; {reading.note}" if reading.note else ""
    why = f"{MEASURES[rule.measures].meaning}: unknown for {duration(at - since)}{note}"
    return Watch(stage=Stage.BLIND, unknown_since=since), Change(to="fired", since=since, why=why)


def _firing(watch: Watch, rule: AlertRule, reading: Reading, at: float) -> tuple[Watch, Change | None]:
    if crosses(rule, reading):
        return Watch(stage=Stage.FIRING), None
    if watch.stage is Stage.FIRING and not leaves(rule, reading):
        return watch, None
    said = "is known again: " if watch.stage is Stage.BLIND else ""
    note = f"; {reading.note}" if reading.note else ""
    why = f"{said}{told(rule.measures, reading)}, over at {figure(rule.measures, rule.over)}{note}"
    return Watch(), Change(to="ended", since=at, why=why)


def _decisive(rule: AlertRule, reading: Reading) -> float | None:
    """The end of the interval that speaks against an alert; without an interval, the value."""
    end = reading.high if rule.comparison == "below" else reading.low
    return reading.value if end is None else end


def _made(rule: AlertRule, *, crossing: bool) -> Reading:
    value = _end(rule, crossing=crossing)
    if value is None:
        raise ValueError(fault(rule))
    return Reading(value=value, low=value, high=value, note="made up for a test")


def _end(rule: AlertRule, *, crossing: bool) -> float | None:
    """A value that crosses the threshold, or leaves it; `None` where the measure has none such."""
    about = MEASURES[rule.measures]
    limit, downwards = (rule.threshold if crossing else rule.over), (rule.comparison == "below") is crossing
    size = max(abs(limit), 1.0)
    value = limit - size / 2 if downwards else limit + size / 2
    value = value if about.lowest is None else max(value, about.lowest)
    value = value if about.highest is None else min(value, about.highest)
    does = crosses if crossing else leaves
    return value if does(rule, Reading(value=value)) else None


def _range(measure: Measure) -> str:
    about = MEASURES[measure]
    if about.lowest is None:
        return "it has no bounds"
    return f"it is {about.lowest:g} or more" + ("" if about.highest is None else f", up to {about.highest:g}")
