"""What rules measure of trainings by reinforcement: of those that have devices, from what they told last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from hostler.core.alerting.state import Learner
from hostler.core.index import Index
from hostler.core.state import State
from hostler.model.alerts import AlertRule, Measure
from hostler.model.errors import NotFound
from hostler.model.events import job_of
from hostler.model.inputs import RlTelemetry
from hostler.model.rl_telemetry import HEARD_MOST
from hostler.model.units import duration
from hostler.model.work import HELD_STATES, WorkKind
from hostler.policy import advising
from hostler.policy.alerting import Reading

Emit: TypeAlias = Callable[..., None]

SILENT_S = 900.0
"""What was told longer ago than that says nothing of now."""
WINDOW_S = 600.0
SLOWEST = 0.9
"""So many of the calls are faster than what is measured."""
UNHEARD = "nothing of its output was read yet"


def heard(state: State, index: Index, given: RlTelemetry, emit: Emit) -> None:
    """Take what a training told. Raises `NotFound` for a job that there is not; of one that is over it is dropped."""
    job = state.jobs.get(given.job)
    if job is None:
        raise NotFound(f"there is no job {given.job!r}; `hostler jobs` lists them")
    known = index.watching.learners
    for name in [each for each in known if state.jobs[each].state not in HELD_STATES]:
        del known[name]
    if job.state not in HELD_STATES or job.spec.work is not WorkKind.RL:
        return
    before = known.get(given.job)
    if before is not None and _mark(before.told) == _mark(given):
        return
    counts = () if before is None else before.counts
    if given.advice is not None:
        counts = advising.added(counts, advising.Count(at=index.now, told=given.advice))
    known[given.job] = Learner(told=given, at=index.now, counts=counts)


def learning(state: State) -> list[str]:
    """Trainings that have devices, the oldest first: those that are listened to."""
    names = {job_of(each) for device in state.devices.values() for each in device.attempts}
    found = [name for name in names if state.jobs[name].spec.work is WorkKind.RL]
    return sorted(found, key=lambda name: int(name[1:]))[:HEARD_MOST]


def readings(state: State, index: Index, rule: AlertRule) -> Mapping[str, Reading]:
    """What a rule measures of them, by job; one that it is not about has no reading."""
    found = {name: _reading(index, rule, index.watching.learners.get(name)) for name in learning(state)}
    return {name: each for name, each in found.items() if each is not None}


def _reading(index: Index, rule: AlertRule, known: Learner | None) -> Reading | None:
    if known is None:
        return Reading(value=None, note=UNHEARD)
    if not APPLIES[rule.measures](known.told):
        return None
    silent_s = index.now - known.at
    if silent_s > SILENT_S:
        return Reading(value=None, note=f"it has told nothing for {duration(silent_s)}")
    return READ[rule.measures](index, rule, known)


def _success(index: Index, rule: AlertRule, known: Learner) -> Reading | None:
    """Nobody who needs no advice is failed: where nothing was asked all along, there is nothing to measure."""
    window_s = rule.window_s or WINDOW_S
    span = advising.span(known.counts, index.now, window_s)
    if span is None:
        return Reading(value=None, note="its calls were counted once only")
    found = advising.success(*span)
    if found.calls:
        share, low, high = found.share
        note = f"{found.answered} of {found.calls} calls within {duration(span[1].at - span[0].at)}"
        return Reading(value=share, low=low, high=high, note=note)
    rests = bool(known.told.advice and known.told.advice.resting)
    if rests or span[1].at - span[0].at < window_s:
        return Reading(value=None, note="no call has come to anything of late")
    return None


def _resting(index: Index, rule: AlertRule, known: Learner) -> Reading | None:
    told = known.told.advice
    return Reading(value=None if told is None else told.resting, note="" if told is None else _came_to(told.calls))


def _slow(index: Index, rule: AlertRule, known: Learner) -> Reading | None:
    span = advising.span(known.counts, index.now, rule.window_s or WINDOW_S)
    found = None if span is None else advising.waits(*span)
    if found is None:
        return Reading(value=None, note="how long calls take was told once at most")
    value = found.quantile(SLOWEST)
    return Reading(value=value, note=f"of {found.calls} calls, nine in ten were faster" if found.calls else "no calls")


def _share(index: Index, rule: AlertRule, known: Learner) -> Reading | None:
    return Reading(value=known.told.advice_share)


def _over(index: Index, rule: AlertRule, known: Learner) -> Reading | None:
    told = known.told
    if told.largest_share is None:
        return Reading(value=None, note="its reward has paid nothing yet")
    return Reading(value=float(len(told.over_share)), note=", ".join(told.over_share))


def _came_to(calls: Mapping[str, int]) -> str:
    return "calls so far: " + (", ".join(f"{count} {name}" for name, count in calls.items() if count) or "none")


def _mark(told: RlTelemetry) -> tuple[str, int, float]:
    return told.attempt, told.steps, told.seconds


APPLIES: Mapping[Measure, Callable[[RlTelemetry], bool]] = {
    Measure.ADVICE_SUCCESS: lambda told: told.advice is not None,
    Measure.ADVICE_RESTING: lambda told: told.advice is not None,
    Measure.ADVICE_LATENCY: lambda told: told.advice is not None and told.advice.waits is not None,
    Measure.ADVICE_SHARE: lambda told: told.advice_share is not None,
    Measure.COMPONENTS_OVER: lambda told: True,
}
READ: Mapping[Measure, Callable[[Index, AlertRule, Learner], Reading | None]] = {
    Measure.ADVICE_SUCCESS: _success,
    Measure.ADVICE_RESTING: _resting,
    Measure.ADVICE_LATENCY: _slow,
    Measure.ADVICE_SHARE: _share,
    Measure.COMPONENTS_OVER: _over,
}
