"""What should rather go on here? A device came free that no urgent work wants: something far away from its best moves in.

A training begins where it can at once; if that is slow, everything behind it in the queue of its config is late too. So
the one that gains most by starting anew here, from what it has saved, is asked to leave, and the device kept for it.
Where the owner has asked for rounds (`placement.round_s`), those place anew, and this does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

from hostler.core import forecast, gates
from hostler.core.bidding import RESTART_S, desirability
from hostler.core.index import Index, group_of
from hostler.core.state import Device, Job, State
from hostler.model.events import Event, PreemptRequested
from hostler.model.work import JobState
from hostler.policy import fit
from hostler.policy.fit import Gate

Emit: TypeAlias = Callable[[Event], None]

SOONER = 1.5
"""How many times sooner it must be done here, the restart included, to be worth the trouble."""
LEAST_S = 900.0
"""What that must save."""
KEPT_S = 120.0
"""How long the device is kept for it, its grace and the way back to the queue."""
LOOKED_AT = 256
"""Jobs that are looked at, those first that have run longest."""


def improve(state: State, index: Index, device: Device, emit: Emit) -> bool:
    """Ask the job to move here that gains most by it; whether there was one."""
    name = device.spec.id
    if state.rules.placement.round_s or device.attempts or device.chunks or name in index.reserved:
        return False
    gains = [
        (gain, job)
        for job in (state.jobs[each] for each in islice(index.movable, LOOKED_AT))
        if (gain := _gain_s(state, index, job, device)) is not None
    ]
    if not gains:
        return False
    gain_s, job = max(gains, key=lambda each: (each[0], each[1].rank))
    assert job.attempt is not None
    index.reserved[name] = job.id
    index.kept_until[name] = index.now + job.spec.grace_s + KEPT_S
    index.look_again(name, index.kept_until[name])
    emit(PreemptRequested(attempt=job.attempt.id, by=None, why=f"is done {gain_s:.0f} s sooner on {name}"))
    return True


def _gain_s(state: State, index: Index, job: Job, device: Device) -> float | None:
    """How much sooner the job would be done on the device; `None`: it may not go there, or that is not worth it."""
    attempt, group = job.attempt, group_of(job)
    if attempt is None or attempt.yielding is not None or job.state is not JobState.RUNNING:
        return None
    cls = index.classes[device.spec.id]
    if index.misfit(group.need, group.work, cls) is not None or index.classes.get(attempt.device) == cls:
        return None
    if fit.devices_needed(group.need, index.samples[cls]) > 1:
        return None
    here = forecast.prediction(state, index, job, state.devices[attempt.device])
    there = forecast.prediction(state, index, job, device)
    if here is None or there is None or here.p50_s <= 0:
        return None
    left = forecast.left_s(here, index.now - attempt.leased_at)
    if left is None:
        return None
    left_s = left[0]
    after_s = min(left_s / here.p50_s, 1.0) * there.p50_s + RESTART_S
    if left_s < SOONER * after_s or left_s - after_s < LEAST_S:
        return None
    first = desirability(state, index, job, (index.classes[attempt.device], cls))[0]
    return left_s - after_s if first == cls and _may_go(state, index, job, device) else None


def _may_go(state: State, index: Index, job: Job, device: Device) -> bool:
    """Whether nothing but its own running keeps the job off the device."""
    if gates.misfit(state, index, job, device) is not None:
        return False
    refused = gates.standing_refusal(state, index, job, device)
    return refused is None or refused.gate is Gate.CONFIG
