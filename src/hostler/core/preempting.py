"""Who must yield? Training and evaluation may take devices from self-play; nothing takes any from them.

The devices that are asked for are kept for whom they are meant. A reservation is volatile: after a restart it is made
again, if it is still wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from hostler.core import accounts, gates
from hostler.core.bidding import desirability, fitting
from hostler.core.index import Group, Index
from hostler.core.state import Attempt, Device, Job, State
from hostler.model.events import Event, PreemptRequested
from hostler.model.work import JobState, WorkKind
from hostler.policy import fit, preemption

Emit: TypeAlias = Callable[[Event], None]

URGENT = (WorkKind.EVALUATION, WorkKind.TRAINING)
LOOKED_AT = 4
"""Waiting jobs of a group for which room is made in one decision."""


def make_room(state: State, index: Index, emit: Emit) -> None:
    """Ask self-play to leave devices for the urgent work that got none."""
    drop_stale(state, index)
    if not state.rules.placement.preempt or not any(index.yieldable.values()):
        return
    for group in [each for each in index.ready if each.work in URGENT]:
        if index.head(state, group) is None:
            continue
        for job in list(index.heads(state, group, LOOKED_AT)):
            if not _has_reservation(index, job) and _may_take(state, index, job):
                _take_device(state, index, group, job, emit)


def drop_stale(state: State, index: Index) -> None:
    """Give up reservations for jobs that wait no more, and those on devices that are gone."""
    for name, kept_for in list(index.reserved.items()):
        job = state.jobs.get(kept_for)
        if name not in index.places or job is None or job.state is not JobState.PENDING:
            del index.reserved[name]
            index.opened(state, name)


def _has_reservation(index: Index, job: Job) -> bool:
    return job.id in index.reserved.values()


def _may_take(state: State, index: Index, job: Job) -> bool:
    """Whether the job has waited for long enough, and self-play has its own share though it leaves."""
    rules = state.rules.placement
    since = max(job.submitted_at, job.not_before)
    if index.now - since < rules.preempt_after_s:
        index.do_later("room", since + rules.preempt_after_s)
        return False
    shares = {kind: accounts.served_s(state, index, accounts.kind_account(kind)) for kind in state.rules.shares}
    return preemption.may_yield(WorkKind.SELFPLAY, shares, state.rules.shares)


def _take_device(state: State, index: Index, group: Group, job: Job, emit: Emit) -> None:
    classes = [cls for cls in fitting(index, group) if index.yieldable.get(cls)]
    for cls in desirability(state, index, job, classes):
        wanted = fit.devices_needed(job.spec.resources, index.samples[cls])
        chosen = _cheapest(state, index, job, cls, wanted)
        if chosen:
            _ask(state, index, job, chosen, emit)
            return


def _cheapest(state: State, index: Index, job: Job, cls: str, wanted: int) -> list[str]:
    """Devices of one node which lose least when they are taken: those that were begun last."""
    by_node: dict[str, list[str]] = {}
    for name in index.yieldable[cls]:
        device = state.devices[name]
        if job.priority >= _priority(state, device) and _could_have(state, index, job, device):
            by_node.setdefault(device.spec.node, []).append(name)
    able = [_newest(state, names)[:wanted] for names in by_node.values() if len(names) >= wanted]
    return max(able, key=lambda names: min(_begun(state, name) for name in names), default=[])


def _could_have(state: State, index: Index, job: Job, device: Device) -> bool:
    return gates.misfit(state, index, job, device) is None and (
        gates.standing_refusal(state, index, job, device) is None
    )


def _newest(state: State, names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (-_begun(state, name), name))


def _begun(state: State, name: str) -> float:
    return max(attempt.leased_at for attempt in _attempts(state, state.devices[name]))


def _priority(state: State, device: Device) -> int:
    return max(state.jobs[name.rpartition(".")[0]].priority for name in device.attempts)


def _attempts(state: State, device: Device) -> list[Attempt]:
    found = (state.jobs[name.rpartition(".")[0]].attempt for name in device.attempts)
    return [attempt for attempt in found if attempt is not None]


def _ask(state: State, index: Index, job: Job, names: list[str], emit: Emit) -> None:
    """Keep the devices for the job, and ask whoever is there to go."""
    why = f"{job.id} ({job.spec.name}) has waited {index.now - job.submitted_at:.0f} s and goes before self-play"
    for name in names:
        index.reserved[name] = job.id
    leaving = {attempt.id for name in names for attempt in _attempts(state, state.devices[name])}
    for attempt in sorted(leaving):
        emit(PreemptRequested(attempt=attempt, by=job.id, why=why))
