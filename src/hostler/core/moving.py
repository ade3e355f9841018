"""What should rather go on here? Into a device that no urgent work wants moves what runs far away from its best.

A training begins where it can at once; if that is slow, everything behind it in the queue of its config is late too. So
the one that gains most by starting anew here, from what it has saved, is asked to leave, and the device kept for it.
Where the owner has asked for rounds (`placement.round_s`), those place anew, and this does nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import TypeAlias

from hostler.core import forecast, gates
from hostler.core.bidding import bid_of, desirability
from hostler.core.forecast import Forecast
from hostler.core.index import Index, group_of
from hostler.core.preempting import URGENT
from hostler.core.state import Attempt, Device, Job, State
from hostler.core.uses import Group
from hostler.model.events import Event, PreemptRequested
from hostler.model.record import record
from hostler.model.work import JobState, WorkKind
from hostler.policy import fit
from hostler.policy.fit import Gate

Emit: TypeAlias = Callable[[Event], None]

SOONER = 1.25
"""How many times sooner it must be done here, the restart included, to be worth the trouble."""
LEAST_S = 600.0
"""What that must save, of its own time and of those that wait for it."""
MUCH = 2.0
"""How many times as fast a device must be that is worth waiting for self-play to leave it."""
SWAP_EVERY_S = 300.0
"""How often it is asked whether two should change places."""
SWAP_LEAST_S = 1800.0
"""What that must save in all."""
SWAPPED_MOST = 32
"""Jobs that are looked at for that."""
SETTLED_S = 300.0
"""How long a job must have run before it changes places."""
KEPT_S = 120.0
"""How long the device is kept for it, its grace and the way back to the queue."""
LOOKED_AT = 256
"""Jobs that are looked at, those first that have run longest."""


@record
class Move:
    """A running job that would be done `saved_s` sooner on another device, counted for all that wait for it as well."""

    job: Job
    saved_s: float


def improve(state: State, index: Index, device: Device, rival: Job | None, emit: Emit) -> bool:
    """Ask the job to move here that gains most by it, more than the rival loses by taking its place; whether one was.

    `rival` is the urgent job that would get the device otherwise.
    """
    name = device.spec.id
    if state.rules.placement.round_s or device.attempts or device.chunks or name in index.reserved:
        return False
    looked_at = (state.jobs[each] for each in islice(index.movable, LOOKED_AT))
    moves = [move for job in looked_at if (move := _move(state, index, job, device, rival)) is not None]
    if not moves:
        return False
    move = max(moves, key=lambda each: (each.saved_s, each.job.rank))
    attempt = move.job.attempt
    assert attempt is not None
    index.reserved[name] = move.job.id
    index.kept_until[name] = index.now + move.job.spec.grace_s + KEPT_S
    index.look_again(name, index.kept_until[name])
    emit(PreemptRequested(attempt=attempt.id, by=None, why=f"goes on faster on {name}: {move.saved_s:.0f} s are saved"))
    return True


def swap(state: State, index: Index, emit: Emit) -> None:
    """Let two running jobs change places, if more wait for the one that gets the faster one; now and then."""
    if state.rules.placement.round_s or len(index.movable) < 2 or index.now < index.swap_at:
        return
    index.swap_at = index.now + SWAP_EVERY_S
    jobs = [job for each in islice(index.movable, SWAPPED_MOST) if _is_settled(index, job := state.jobs[each])]
    awaited = [job for job in jobs if _waiting_for(index, job) > 1]
    pairs = [
        (saved_s, slow, fast) for slow in awaited for fast in jobs if (saved_s := _swap_s(state, index, slow, fast))
    ]
    if not pairs:
        return
    saved_s, slow, fast = max(pairs, key=lambda each: (each[0], each[1].rank, each[2].rank))
    assert slow.attempt is not None
    assert fast.attempt is not None
    places = slow.attempt.device, fast.attempt.device
    for job, name in ((slow, places[1]), (fast, places[0])):
        index.reserved[name] = job.id
        index.kept_until[name] = index.now + slow.spec.grace_s + fast.spec.grace_s + KEPT_S
        index.look_again(name, index.kept_until[name])
    for job, other in ((slow, fast), (fast, slow)):
        assert job.attempt is not None
        why = f"changes places with {other.id}: {saved_s:.0f} s are saved"
        emit(PreemptRequested(attempt=job.attempt.id, by=None, why=why))


def _is_settled(index: Index, job: Job) -> bool:
    """Whether the job runs on one device, and has for a while."""
    attempt = job.attempt
    if attempt is None or attempt.yielding is not None or job.state is not JobState.RUNNING or attempt.others:
        return False
    return attempt.device not in index.reserved and index.now - attempt.leased_at >= SETTLED_S


def _swap_s(state: State, index: Index, slow: Job, fast: Job) -> float | None:
    """What is saved if two jobs change places, counted for all that wait for them; `None`: it is not worth it."""
    assert slow.attempt is not None
    assert fast.attempt is not None
    here, there = state.devices[slow.attempt.device], state.devices[fast.attempt.device]
    if here.spec.speed_class == there.spec.speed_class or slow.priority != fast.priority:
        return None
    gain_s = _gain_s(state, index, slow, here, there)
    if gain_s is None or gain_s <= 0:
        return None
    loss_s = _gain_s(state, index, fast, there, here)
    if loss_s is None or gain_s + loss_s < SWAP_LEAST_S:
        return None
    may = _may_go(state, index, slow, there) and _may_go(state, index, fast, here)
    return gain_s + loss_s if may else None


def _gain_s(state: State, index: Index, job: Job, here: Device, there: Device) -> float | None:
    """How much sooner the job is done there, counted for all that wait for it; negative where that is later."""
    cls = index.classes.get(there.spec.id)
    if cls is None or not _fits(index, job, cls):
        return None
    whole_s, other_s = _median_s(state, index, job, here), _median_s(state, index, job, there)
    assert job.attempt is not None
    left_s = _left_s(state, index, job, job.attempt)
    if whole_s is None or other_s is None or left_s is None:
        return None
    return (left_s - min(left_s / whole_s, 1.0) * other_s - state.rules.placement.restart_s) * _waiting_for(index, job)


def holds_out(state: State, index: Index, job: Job, group: Group, device: Device) -> bool:
    """Whether the job leaves the device to others, because it may take one from self-play that is much faster for it.

    Not if that is what it has asked for in vain, or self-play has too little as it is.
    """
    if group.work not in URGENT or not state.rules.placement.preempt or index.reserved.get(device.spec.id) == job.id:
        return False
    if index.room_held:
        return False
    rates = bid_of(state, index, job, group).rates
    own, found = rates.get(index.classes[device.spec.id]), (rates[cls] for cls in rates if index.yieldable.get(cls))
    return own is not None and max(found, default=0.0) > MUCH * own and job.id not in index.roomless


def _move(state: State, index: Index, job: Job, device: Device, rival: Job | None) -> Move | None:
    """What is saved if the job goes on here; `None`: it may not, or that is not worth it."""
    attempt = job.attempt
    if attempt is None or attempt.yielding is not None or job.state is not JobState.RUNNING:
        return None
    held, cls = index.classes.get(attempt.device), index.classes[device.spec.id]
    if held is None or held == cls or not _fits(index, job, cls):
        return None
    if state.devices[attempt.device].spec.speed_class == device.spec.speed_class:
        return None  # no sooner, as far as anybody knows
    if rival is not None and job.priority < rival.priority:
        return None
    here, there = (_median_s(state, index, job, each) for each in (state.devices[attempt.device], device))
    if here is None or there is None or here < SOONER * there:
        return None
    left_s = _left_s(state, index, job, attempt)
    if left_s is None:
        return None
    after_s = min(left_s / here, 1.0) * there + state.rules.placement.restart_s
    if left_s < SOONER * after_s:
        return None
    saved_s = (left_s - after_s) * _waiting_for(index, job)
    if rival is not None:
        lost_s = _lost_s(state, index, rival, device, state.devices[attempt.device])
        saved_s = -math.inf if lost_s is None else saved_s - lost_s
    if saved_s < LEAST_S or not _may_go(state, index, job, device):
        return None
    first = desirability(state, index, job, (held, cls))[0]
    return Move(job=job, saved_s=saved_s) if first == cls else None


def _left_s(state: State, index: Index, job: Job, attempt: Attempt) -> float | None:
    """Seconds that the job still takes where it is, as likely more as less."""
    known = _expected(state, index, job, state.devices[attempt.device])
    left = None if known is None else forecast.left_s(known, index.now - attempt.leased_at)
    return None if left is None else left[0]


def _lost_s(state: State, index: Index, rival: Job, device: Device, instead: Device) -> float | None:
    """What the rival loses by running there instead of here; `None`: it cannot."""
    if not _fits(index, rival, index.classes[instead.spec.id]) or not _may_go(state, index, rival, instead):
        return None
    here, there = (_median_s(state, index, rival, each) for each in (device, instead))
    if here is None or there is None:
        return None
    return max(there - here, 0.0) * _waiting_for(index, rival)


def _median_s(state: State, index: Index, job: Job, device: Device) -> float | None:
    known = _expected(state, index, job, device)
    return known.p50_s if known is not None and known.p50_s > 0 else None


def _expected(state: State, index: Index, job: Job, device: Device) -> Forecast | None:
    """What the job's owner expects of it, as where bids are made; or else what others of its kind took."""
    return forecast.owners(job, device.spec) or forecast.prediction(state, index, job, device)


def _waiting_for(index: Index, job: Job) -> int:
    """How many jobs are done sooner if this one is: itself, and of its config those that may not run beside it."""
    if job.spec.work is not WorkKind.TRAINING or job.spec.serves is None:
        return 1
    return 1 + len(index.ready.get(group_of(job), ()))


def _fits(index: Index, job: Job, cls: str) -> bool:
    """Whether a device of the class does for the job, all by itself."""
    need, work = job.spec.resources, job.spec.work
    return index.misfit(need, work, cls) is None and fit.devices_needed(need, index.samples[cls]) == 1


def _may_go(state: State, index: Index, job: Job, device: Device) -> bool:
    """Whether nothing but its own running keeps the job off the device."""
    if gates.misfit(state, index, job, device) is not None:
        return False
    refused = gates.standing_refusal(state, index, job, device)
    return refused is None or refused.gate in (Gate.CONFIG, Gate.GROUP)
