"""How long will a job take on a device, and how good were such answers? What `policy.duration` is told, and asked."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

from hostler.core import nearness
from hostler.core.index import Index
from hostler.core.state import Device, Job, State
from hostler.core.uses import Learnt
from hostler.model.fleet import DeviceSpec
from hostler.model.record import record
from hostler.model.work import ScriptPayload, StagePayload
from hostler.policy import duration, power

OWNERS_SPREAD = 0.5
"""Standard deviation of the log of what jobs take, around what their owners expect."""
Z90 = 1.2816
"""The 0.9 quantile of the normal distribution."""
NORMAL = NormalDist()
LEAST_SPREAD = 0.01
SURELY = 1 - 1e-6
"""What is less likely than the rest of that did not happen: something else did."""
REMEMBERED = 10_000
"""Predictions that are kept."""


@record
class Forecast:
    """Seconds from the job's start on: the median, what one in ten exceeds, and what hardly any does."""

    p50_s: float
    p90_s: float
    at_most_s: float | None
    samples: int
    source: str


def family_of(job: Job) -> str:
    """What the job is expected to behave like: kind and training config, or family of scripts."""
    payload = job.spec.payload
    if job.spec.serves is not None:
        return f"{job.spec.work} {job.spec.serves}"
    assert isinstance(payload, ScriptPayload), f"{job.id} is a sweep"
    return duration.family(job.spec.name, payload.argv[0])


def keys(job: Job, device: DeviceSpec) -> tuple[str, str]:
    """What durations are kept under: on devices of this model, and on any, in seconds of the reference device."""
    family = family_of(job)
    return f"{device.speed_class} {family}", f"* {family}"


def strength(device: DeviceSpec) -> float:
    """How fast a device is by the ranking table; 1 where that says nothing."""
    return power.prior(device.model) or 1.0


def prediction(state: State, index: Index, job: Job, device: Device) -> Forecast | None:
    """How long the rest of a job will take on a device, its data brought there; `None` while nobody can say."""
    found, node = _work(state, index, job, device), state.nodes.get(device.spec.node)
    waits_s = 0.0 if node is None else nearness.transfer_s(state, job, node.spec)
    if found is None or waits_s == 0:
        return found
    return replace(
        found,
        p50_s=found.p50_s + waits_s,
        p90_s=found.p90_s + waits_s,
        at_most_s=None if found.at_most_s is None else found.at_most_s + waits_s,
    )


def learnt_s(state: State, index: Index, job: Job, device: DeviceSpec) -> float | None:
    """Seconds that the rest of a job works on a device once it has its data; `None` while nobody can say."""
    known = _work(state, index, job, Device(spec=device))
    return None if known is None else known.p50_s


def _work(state: State, index: Index, job: Job, device: Device) -> Forecast | None:
    known = _learnt(state, index, job, device.spec)
    learnt = known.prediction
    if learnt is not None:
        left = 1.0 - job.progress
        at_most_s = duration.at_most(known.here)
        return Forecast(
            p50_s=left * learnt.p50_s,
            p90_s=left * learnt.p90_s,
            at_most_s=at_most_s,
            samples=learnt.samples,
            source=learnt.source,
        )
    return owners(job, device.spec)


def median_s(state: State, index: Index, job: Job, device: Device) -> float | None:
    """Seconds that the rest of a job takes on a device, as likely more as less; `None` while nobody can say."""
    return learnt_s(state, index, job, device.spec)


def left_s(known: Forecast, elapsed_s: float) -> tuple[float, float] | None:
    """Seconds that something still takes which was expected to take `known` and has run so long: P50 and P90 of them.

    Quantiles of the log-normal distribution, given that it is not over yet: who is overdue is not expected any moment.
    `None`: it is so long overdue that the expectation was of something else.
    """
    spread = max(math.log(known.p90_s / known.p50_s) / Z90, LEAST_SPREAD) if known.p50_s > 0 else LEAST_SPREAD
    mean = math.log(max(known.p50_s, duration.SHORTEST_S))
    gone = NORMAL.cdf((math.log(max(elapsed_s, duration.SHORTEST_S)) - mean) / spread)
    if gone > SURELY:
        return None
    half, most = (math.exp(mean + spread * NORMAL.inv_cdf(gone + part * (1 - gone))) for part in (0.5, 0.9))
    return max(half - elapsed_s, 0.0), max(most - elapsed_s, 0.0)


def at_most_s(state: State, job: Job, device: DeviceSpec) -> float | None:
    """Seconds that a job will hardly exceed on a device; `None` while too few of its like were seen to say."""
    return duration.at_most(state.durations.get(keys(job, device)[0]))


def owners(job: Job, device: DeviceSpec) -> Forecast | None:
    """What the job's owner expects of the device."""
    expected_s = expected(job, device.speed_class)
    if expected_s is None:
        return None
    left_s = expected_s * (1.0 - job.progress)
    return Forecast(
        p50_s=left_s, p90_s=left_s * math.exp(Z90 * OWNERS_SPREAD), at_most_s=None, samples=0, source="its owner"
    )


def expected(job: Job, model: str) -> float | None:
    """Seconds that the whole job takes on devices of a model, as its owner said."""
    return job.spec.expected_s.get(model, job.spec.expected_s.get("*"))


PROGRESS_MAX = 0.999
"""A job that was stopped is not done, whatever its estimate says."""


def saved(job: Job, device: DeviceSpec, elapsed_s: float | None) -> float | None:
    """The share of a job that is done when it is stopped after so long on a device; `None`: what it was before."""
    whole_s = expected(job, device.speed_class)
    if not job.spec.checkpoints or elapsed_s is None or whole_s is None:
        return None
    return min(job.progress + elapsed_s / whole_s, PROGRESS_MAX)


def learn(state: State, job: Job, device: DeviceSpec, elapsed_s: float) -> None:
    """A job that was done in one go took so long."""
    here, anywhere = keys(job, device)
    state.durations[here] = duration.learn(state.durations.get(here), elapsed_s)
    in_reference_s = elapsed_s * strength(device)
    state.durations[anywhere] = duration.learn(state.durations.get(anywhere), in_reference_s)


def judge(state: State, job: Job, expected_s: float | None, elapsed_s: float) -> None:
    """A job that was expected to take so long was done in one go and took so long."""
    if expected_s is not None:
        state.accuracy[job.spec.work] = duration.judge(state.accuracy.get(job.spec.work), expected_s, elapsed_s)


def is_stage(job: Job) -> bool:
    """Whether the job is a stage of a training config's loop."""
    return isinstance(job.spec.payload, StagePayload)


def _learnt(state: State, index: Index, job: Job, device: DeviceSpec) -> Learnt:
    """What was learnt of the job's like, and what that says: worked out anew only when more was learnt."""
    key, general = keys(job, device)
    here, anywhere = state.durations.get(key), state.durations.get(general)
    known = index.predicted.get(key)
    if known is None or known.here is not here or known.anywhere is not anywhere:
        if len(index.predicted) > REMEMBERED:
            index.predicted.clear()
        found = duration.predict((here, anywhere), scale=1 / strength(device))
        known = index.predicted[key] = Learnt(here, anywhere, found)
    return known
