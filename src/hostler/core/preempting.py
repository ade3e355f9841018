"""Who must yield? Training and evaluation may take devices from self-play; nothing takes any from them.

The devices that are asked for are kept for whom they are meant. A reservation is volatile: after a restart it is made
again, if it is still wanted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TypeAlias

from hostler.core import accounts, gates
from hostler.core.bidding import desirability, fitting
from hostler.core.index import Index
from hostler.core.loop.claims import idle_s
from hostler.core.state import Attempt, Device, Job, State
from hostler.core.stuck import never_on
from hostler.core.uses import Group
from hostler.core.yielding import begun_at, last_begun
from hostler.model.events import Event, PreemptRequested
from hostler.model.work import JobState, WorkKind
from hostler.policy import fit, preemption

Emit: TypeAlias = Callable[[Event], None]

URGENT = preemption.YIELDS_TO[WorkKind.SELFPLAY]
CHORE = "room"
PREEMPTED_MOST = 5
"""Who has made way for others so often is left to finish."""
COMPARED = 32
"""Devices that a job could take which are compared, at most."""
LOOKED_AT = 4
"""Waiting jobs of a group for which room is made in one decision."""
ASK_AGAIN_S = 30.0
"""Where no device was to be had for a job, all are looked at again after that, and before it those that are new."""
LOOK_AGAIN_S = 5.0
"""However little seems to have changed, it is looked at again after that: odds and pressures change with time."""
ROOMLESS_MOST = 10_000
"""Notes of that kind that are kept."""


def make_room(state: State, index: Index, emit: Emit) -> None:
    """Ask self-play to leave devices for the urgent work that got none, and for self-play on several that starves."""
    if CHORE in index.chores:
        index.chores.discard(CHORE)
        index.room_at, index.room_changed = math.inf, True
    drop_stale(state, index)
    if not _is_to_be_looked_at(state, index):
        return
    if not state.rules.placement.preempt or not any(index.yieldable.values()):
        return
    waiting = _without_devices(state, index)
    if not waiting:
        index.roomless.clear()
        index.newly_yieldable.clear()
        return
    may_yield = _may_yield(state, index)
    allowed = [each for each in waiting if may_yield or each[0].work is WorkKind.SELFPLAY]
    index.room_held = len(allowed) < len(waiting)
    newly = list(index.newly_yieldable)
    if not index.room_held:
        index.newly_yieldable.clear()
    for group, job in allowed:
        if _is_worth_a_try(index, group, job, newly):
            _take_device(state, index, group, job, emit)


def _is_to_be_looked_at(state: State, index: Index) -> bool:
    """Whether anything may have changed since it was looked at last; noted as looked at, if so."""
    due = index.room_changed or index.now >= index.room_again_at or (index.room_held and _may_yield(state, index))
    if due:
        index.room_changed, index.room_held, index.room_again_at = False, False, index.now + LOOK_AGAIN_S
    return due


def drop_stale(state: State, index: Index) -> None:
    """Give up reservations for jobs that wait no more, and those on devices that are gone."""
    for name, kept_for in list(index.reserved.items()):
        job = state.jobs.get(kept_for)
        over = index.kept_until.get(name, math.inf) <= index.now
        over = over or (name in index.places and (_is_away(state, name) or _is_useless(state, index, job, name)))
        if over or name not in index.places or job is None or not _still_wants(index, job):
            del index.reserved[name]
            index.room_changed = True
            index.kept_until.pop(name, None)
            index.opened(state, name)


def _is_away(state: State, name: str) -> bool:
    return not state.puts_work_on(name)


def _is_useless(state: State, index: Index, job: Job | None, name: str) -> bool:
    """Whether the device has been emptied for the job, and something keeps the job off it all the same."""
    device = state.devices[name]
    if job is None or job.state is not JobState.PENDING or device.attempts or name in index.kept_until:
        return False
    return gates.standing_refusal(state, index, job, device) is not None


def _still_wants(index: Index, job: Job) -> bool:
    """Whether the job waits, or will as soon as it has left where it is; not for another training of its config."""
    if job.state.final or job.cancelling is not None:
        return False
    if job.attempt is None:
        return gates.owner_limit(index, job) is None
    return job.attempt.yielding is not None


def _without_devices(state: State, index: Index) -> list[tuple[Group, Job]]:
    """Jobs that have waited for long enough, for which nothing is kept and that may run as far as they go."""
    found = []
    served = set(index.reserved.values())
    for group, heap in [each for each in index.ready.items() if each[0].work in URGENT or _is_gang(each[0])]:
        if (len(heap) == 1 and heap[0][2] in served) or index.head(state, group) is None:
            continue
        for job in index.heads(state, group, LOOKED_AT):
            if job.id not in served and gates.owner_limit(index, job) is None and _is_due(state, index, job):
                found.append((group, job))
    return found


def _is_gang(group: Group) -> bool:
    """Self-play that takes several devices: these hardly ever come free at once by themselves."""
    return group.work is WorkKind.SELFPLAY and (group.need.gpus > 1 or group.need.shards)


def _is_due(state: State, index: Index, job: Job) -> bool:
    """Whether the job has waited for long enough; if not, it is looked at again when it has."""
    at = _due_at(state, index, job)
    if at <= index.now:
        return True
    if at < index.room_at:
        index.room_at = at
        index.do_later(CHORE, at)
    return False


def _due_at(state: State, index: Index, job: Job) -> float:
    """From when on others are to leave for the job: soon where it is urgent; self-play must starve first."""
    rules, since = state.rules.placement, max(job.submitted_at, job.not_before)
    if job.spec.work is not WorkKind.SELFPLAY:
        return since + rules.preempt_after_s
    config = state.configs.get(job.spec.serves or "")
    idle = None if config is None else idle_s(index, config)
    if idle == 0.0:
        return math.inf
    return (since if idle is None else index.now - idle) + rules.starve_after_s


def _is_worth_a_try(index: Index, group: Group, job: Job, newly: list[str]) -> bool:
    """Whether devices may be had for the job: where there were none a moment ago, only if new ones have come."""
    until = index.roomless.get(job.id)
    if until is None or index.now >= until:
        index.roomless.pop(job.id, None)
        return True
    return any(index.misfit(group.need, group.work, index.classes[name]) is None for name in newly)


def _may_yield(state: State, index: Index) -> bool:
    """Whether self-play has its own share though it leaves."""
    shares = {kind: accounts.served_s(state, index, accounts.kind_account(kind)) for kind in state.rules.shares}
    return preemption.may_yield(WorkKind.SELFPLAY, shares, state.rules.shares)


def _take_device(state: State, index: Index, group: Group, job: Job, emit: Emit) -> None:
    classes = [cls for cls in fitting(index, group) if index.yieldable.get(cls)]
    for cls in desirability(state, index, job, classes):
        wanted = fit.devices_needed(job.spec.resources, index.samples[cls])
        chosen = _cheapest(state, index, job, cls, wanted)
        if chosen:
            index.roomless.pop(job.id, None)
            _ask(state, index, job, chosen, emit)
            return
    index.roomless[job.id] = index.now + ASK_AGAIN_S
    index.fresh_groups[group] = None  # it may take what it has left to others for the sake of a better one
    if len(index.roomless) > ROOMLESS_MOST:
        index.roomless.clear()


def _cheapest(state: State, index: Index, job: Job, cls: str, wanted: int) -> list[str]:
    """Devices of one node which lose least when they are taken: those that were begun last."""
    if never_on(state, index, job.spec.resources, job.spec.work, cls) is not None:
        return []
    if wanted == 1:
        return _newest_of_all(state, index, job, cls)
    by_node: dict[str, list[str]] = {}
    for name in index.yieldable[cls]:
        if _would_leave(state, index, job, name):
            by_node.setdefault(state.devices[name].spec.node, []).append(name)
    able = [_newest(state, names)[:wanted] for names in by_node.values() if len(names) >= wanted]
    return max(able, key=lambda names: min(begun_at(state, name) for name in names), default=[])


def _newest_of_all(state: State, index: Index, job: Job, cls: str) -> list[str]:
    """The one that was begun last; but who holds several is asked last: it would leave more than is wanted.

    And it would hardly ever get several again, so that its share went to others.
    """
    able = (name for _, name in last_begun(state, index, cls) if _would_leave(state, index, job, name))
    found = list(islice(able, COMPARED))
    single = next(
        (name for name in found if not any(each.others for each in _attempts(state, state.devices[name]))), None
    )
    return [single] if single is not None else found[:1]


def _would_leave(state: State, index: Index, job: Job, name: str) -> bool:
    device = state.devices[name]
    return job.priority >= _priority(state, device) and _could_have(state, index, job, device)


def _could_have(state: State, index: Index, job: Job, device: Device) -> bool:
    if any(state.jobs[name.rpartition(".")[0]].preempted >= PREEMPTED_MOST for name in device.attempts):
        return False
    return gates.standing_refusal(state, index, job, device) is None


def _newest(state: State, names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (-begun_at(state, name), name))


def _priority(state: State, device: Device) -> int:
    return max(state.jobs[name.rpartition(".")[0]].priority for name in device.attempts)


def _attempts(state: State, device: Device) -> list[Attempt]:
    found = (state.jobs[name.rpartition(".")[0]].attempt for name in device.attempts)
    return [attempt for attempt in found if attempt is not None]


def _ask(state: State, index: Index, job: Job, names: list[str], emit: Emit) -> None:
    """Keep the devices for the job, and ask whoever is there to go."""
    before = "starves and needs several at once" if job.spec.work is WorkKind.SELFPLAY else "goes before self-play"
    why = f"{job.id} ({job.spec.name}) has waited {index.now - job.submitted_at:.0f} s and {before}"
    for name in names:
        index.reserved[name] = job.id
    leaving = {attempt.id for name in names for attempt in _attempts(state, state.devices[name])}
    for attempt in sorted(leaving):
        emit(PreemptRequested(attempt=attempt, by=job.id, why=why))
