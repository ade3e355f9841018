"""One device: how many self-play jobs may share it, and whether it idles while there is something to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

from hostler.core import gates
from hostler.core.care import effects
from hostler.core.care.state import HeardDevice
from hostler.core.index import Index
from hostler.core.metering import measured
from hostler.core.state import Device, Job, State
from hostler.model.events import ConcurrencySet, Event, IdleResourceDetected, job_of
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.work import JobState, WorkKind
from hostler.policy import utilization
from hostler.policy.fit import Refusal
from hostler.policy.utilization import Watch

Emit: TypeAlias = Callable[[Event], None]
Waiting: TypeAlias = tuple[Job, Refusal | None]
"""A job, and what keeps it off a device now."""

NOTHING, SELFPLAY, OTHER = "nothing", "selfplay", "other"


def steer(state: State, index: Index, device: Device, heard: HeardDevice, told: DeviceTelemetry, emit: Emit) -> None:
    """Take what a device's driver tells; more or fewer lanes, and `IdleResourceDetected`, may follow."""
    dt_s = index.now - heard.told_at
    heard.utilization, heard.told_at = _share(told.utilization), index.now
    heard.vram_used_gb, heard.temperature_c = told.vram_used_gb, told.temperature_c
    if heard.utilization is not None:
        heard.known_at = index.now
    measured.measure(state, index, device, heard.utilization, dt_s)
    business = _business(state, device)
    if business != heard.business:
        heard.business, heard.watch = business, Watch()
    _control(state, device, heard, dt_s, emit)
    heard.watch = utilization.watched(heard.watch, heard.utilization, index.now, state.rules.targets)
    idle_s = utilization.idle_s(heard.watch, index.now, state.rules.targets)
    if idle_s is not None:
        _look_at_idle(state, index, device, heard, idle_s, emit)
    expire(state, index, device, heard, index.now, emit)


def expire(state: State, index: Index, device: Device, heard: HeardDevice | None, since: float, emit: Emit) -> None:
    """Back to one lane where the utilisation has been unknown for too long; where it never was known, since then."""
    was = effects.decided_lanes(state, device)
    known_at = since if heard is None else heard.known_at
    if was == 1 or index.now < known_at + hold_s(state):
        return
    why = f"its utilisation has been unknown for {index.now - known_at:.0f} s"
    emit(ConcurrencySet(device=device.spec.id, lanes=1, was=was, utilization=None, why=why))
    if heard is not None:
        heard.controller = utilization.begun(1, state.rules.targets)


def hold_s(state: State) -> float:
    """How long what was decided on telemetry holds after it was heard, while nothing more is."""
    return state.rules.targets.telemetry_max_age_s + state.rules.targets.unknown_hold_s


def _share(value: float | None) -> float | None:
    """A utilisation; what cannot be one is unknown."""
    return value if value is not None and math.isfinite(value) and 0 <= value <= 1 else None


def _business(state: State, device: Device) -> str:
    if not device.attempts and not device.chunks:
        return NOTHING
    works = {state.jobs[job_of(name)].spec.work for name in device.attempts}
    return SELFPLAY if works == {WorkKind.SELFPLAY} and not device.chunks else OTHER


def _running(state: State, device: Device) -> int:
    return sum(state.jobs[job_of(name)].state is JobState.RUNNING for name in device.attempts)


def _control(state: State, device: Device, heard: HeardDevice, dt_s: float, emit: Emit) -> None:
    """One sample for the device's controller, if its utilisation says something about its lanes."""
    targets, was = state.rules.targets, effects.decided_lanes(state, device)
    if heard.controller.lanes != was:  # as it was journalled, at a start
        heard.controller = utilization.begun(was, targets)
    if heard.business == OTHER:
        heard.controller = utilization.paused(heard.controller)
        return
    used = heard.utilization
    if used is None or heard.business == NOTHING:
        return
    if used < targets.gpu_min and _running(state, device) < was:
        return  # it is idle because it has free lanes, not because it has too few
    heard.controller, lanes = utilization.step(heard.controller, used, dt_s, targets)
    if lanes != was:
        why = f"utilisation {used:.0%}, wanted {targets.gpu_min:.0%} to {targets.gpu_max:.0%}"
        emit(ConcurrencySet(device=device.spec.id, lanes=lanes, was=was, utilization=used, why=why))


def _look_at_idle(state: State, index: Index, device: Device, heard: HeardDevice, idle_s: float, emit: Emit) -> None:
    told = False
    if heard.business == SELFPLAY:
        told = _idle_at_selfplay(state, device, heard, idle_s, emit)
    elif heard.business == NOTHING and not index.draining:
        told = _idle_without_work(state, index, device, heard, idle_s, emit)
    heard.watch = utilization.checked(heard.watch, index.now, told=told)


def _idle_at_selfplay(state: State, device: Device, heard: HeardDevice, idle_s: float, emit: Emit) -> bool:
    """More self-play at once, where there is none to come yet; the next lane has its own grace. Whether it was told."""
    targets, was, used = state.rules.targets, effects.decided_lanes(state, device), heard.utilization
    full = _running(state, device) >= was
    more = full and was < targets.lanes_max
    outlook = "it gets a lane more" if more else "it has as many lanes as it may" if full else "it has a free lane"
    emit(_idle(device, heard, idle_s, None, f"self-play keeps it busy {used:.1%} of the time; {outlook}"))
    if more:
        emit(ConcurrencySet(device=device.spec.id, lanes=was + 1, was=was, utilization=used, why="it idles"))
        heard.controller = utilization.begun(was + 1, targets, last=used)
        heard.watch = Watch()
    return not more


def _idle_without_work(
    state: State, index: Index, device: Device, heard: HeardDevice, idle_s: float, emit: Emit
) -> bool:
    """Work waits that the device could do and it has nothing: that is a defect, to be seen. Whether it was told."""
    waiting = _waiting_for(state, index, device)
    if waiting is None:
        return False
    job, refusal = waiting
    gate = None if refusal is None else str(refusal)
    why = f"{job.id} ({job.spec.work}) waits and fits on it; {gate or 'nothing is known to keep it off'}"
    emit(_idle(device, heard, idle_s, gate, why))
    return True


def _idle(device: Device, heard: HeardDevice, idle_s: float, gate: str | None, why: str) -> IdleResourceDetected:
    assert heard.utilization is not None, "an unknown utilisation is not idle"
    return IdleResourceDetected(
        node=device.spec.node,
        device=device.spec.id,
        utilization=heard.utilization,
        idle_s=idle_s,
        attempts=tuple(device.attempts),
        gate=gate,
        why=why,
    )


def _waiting_for(state: State, index: Index, device: Device) -> Waiting | None:
    """Something that waits and fits on the device; preferably what nothing is known to keep off it now."""
    name = device.spec.id
    if name not in index.places or not state.puts_work_on(name):
        return None
    waiting = [*_jobs_for(state, index, device), *_sweeps_for(state, index, device)]
    return min(waiting, key=lambda each: (each[1] is not None, each[0].rank), default=None)


def _jobs_for(state: State, index: Index, device: Device) -> Iterator[Waiting]:
    for group in list(index.ready):
        job = index.head(state, group)
        if job is not None and gates.misfit(state, index, job, device) is None:
            yield job, gates.refusal(state, index, job, device)


def _sweeps_for(state: State, index: Index, device: Device) -> Iterator[Waiting]:
    for sweep in (state.sweeps[each] for each in sorted(index.active)):
        job = state.jobs[sweep.job]
        misfit = gates.misfit(state, index, job, device)
        if sweep.ledger.free and device.spec.id not in sweep.barred and misfit is None:
            yield job, effects.blocked(state, device.spec.node, job.spec.work)
