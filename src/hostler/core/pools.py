"""Pools: parts of clusters whose own scheduler says when something begins. What they are given, and what waits there.

A slot of a pool is a device like any other, but what is put on it first waits in the cluster's queue. So that this is
never flooded, so many slots may wait at a time, and no more are given work until one of them has begun.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

from hostler.core.index import Index
from hostler.core.state import Device, Job, State
from hostler.model import events, inputs
from hostler.model.errors import NotFound
from hostler.model.events import Event, job_of
from hostler.model.fleet import NodeSpec
from hostler.model.pools import Batch, SlotPhase, SlotSeen
from hostler.model.work import ANYWHERE, JobState, Resources
from hostler.policy.fit import Gate, Refusal

Emit: TypeAlias = Callable[[Event], None]
Fold: TypeAlias = Callable[[State, Index, Any], None]


def gate(state: State, index: Index, device: Device, need: Resources = ANYWHERE) -> Refusal | None:
    """Why a slot that has nothing is given nothing of this need now; `None` where it may be."""
    node = state.nodes[device.spec.node].spec
    if node.pool is None or _is_asked_for(state, index, device):
        return None
    shut = closed(index, node)
    if shut is not None:
        return shut
    idle = None if need.gpus > 1 or need.shards else _idle(state, index, device)
    if idle is not None:
        return Refusal(gate=Gate.CLUSTER, why=f"{idle} has begun and is idle; nothing more is asked of the cluster")
    if len(node.devices) <= node.pool.max_pending:
        return None  # all of them may: to count them for each of thousands takes seconds
    count = waiting(state, index, node)
    if count < node.pool.max_pending:
        return None
    why = f"{count} slots of {node.name} wait in the cluster's queue, {node.pool.max_pending} may"
    return Refusal(gate=Gate.CLUSTER, why=why)


def closed(index: Index, node: NodeSpec) -> Refusal | None:
    """Why the cluster of a node begins nothing; `None` where it may, or there is no cluster."""
    seen = None if node.pool is None else index.pools.seen.get(node.name)
    if node.pool is None or seen is None or seen.closed is None:
        return None
    return Refusal(gate=Gate.CLUSTER, why=f"partition {node.pool.partition} is {seen.closed}: nothing begins there")


def waiting(state: State, index: Index, node: NodeSpec) -> int:
    """Slots of the pool that were given something, or have a batch job, and have not begun."""
    known = index.pools.waiting.get(node.name)
    if known is None or known[0] != (state.seq, index.pools.times):
        found = (state.devices[each.id] for each in node.devices)
        count = sum(_is_asked_for(state, index, each) and not _has_begun(state, index, each) for each in found)
        known = index.pools.waiting[node.name] = (state.seq, index.pools.times), count
    return known[1]


def slot_of(state: State, index: Index, device: Device) -> SlotSeen | None:
    """The batch job behind a slot, as last seen."""
    seen = index.pools.seen.get(device.spec.node)
    return None if seen is None else seen.slots.get(device.spec.queue)


def has_yet_to_begin(state: State, index: Index, device: Device) -> bool:
    """Whether it is a slot of a pool whose batch job is not known to run."""
    return state.nodes[device.spec.node].spec.pool is not None and not _has_begun(state, index, device)


def has_begun(state: State, index: Index, attempt: str, device: Device) -> bool:
    """Whether the allocation of an attempt there runs, as far as anybody knows: it has begun, or is about to.

    Its own, where one was asked for with it; else that behind the slot, where that takes one after the other.
    """
    slot, own = slot_of(state, index, device), _batch_of(state, device, attempt)
    if slot is None or slot.phase is not SlotPhase.UP:
        return False
    return slot.stays if own is None or own.job is None else (slot.job or "").partition("_")[0] == own.job


def stuck(state: State, index: Index) -> Iterator[Job]:
    """Jobs whose batch jobs may wait for ever, by what the clusters say."""
    for node, seen in index.pools.seen.items():
        slots = (f"{node}/{part}" for queue, slot in seen.slots.items() if slot.stuck for part in queue.split("+"))
        held = (state.devices[name].attempts for name in slots if name in state.devices)
        for name in dict.fromkeys(chain.from_iterable(held)):
            job = state.jobs[job_of(name)]
            if job.state in (JobState.LEASED, JobState.LAUNCHING):
                yield job


def says(state: State, index: Index, job: Job) -> str | None:
    """What the cluster says of the batch job of the job's attempt; `None`: it has none, or nothing is known of it."""
    attempt = job.attempt
    if attempt is None or state.nodes[state.devices[attempt.device].spec.node].spec.pool is None:
        return None
    slot = slot_of(state, index, state.devices[attempt.device])
    if slot is None:
        return (
            None
            if job.state is JobState.RUNNING
            else _unseen(_batch_of(state, state.devices[attempt.device], attempt.id))
        )
    name = "its batch job" if slot.job is None else f"its batch job {slot.job}"
    return f"{name}: {slot.says}" + (_way_out(state, job, attempt.device) if slot.stuck else "")


def faults(state: State) -> list[str]:
    """Batches of nodes that nobody knows, or kept under another name than their own."""
    return [
        f"batch {token} is kept for {batch.token} on {batch.node}"
        for token, batch in state.batches.items()
        if token != batch.token or batch.node not in state.nodes
    ]


def _unseen(batch: Batch | None) -> str:
    """What there is to say of a batch job that nobody has seen."""
    if batch is None:
        return "no batch job has been asked for yet"
    return "its batch job is being submitted" if batch.job is None else f"its batch job {batch.job} has been submitted"


def _batch_of(state: State, device: Device, attempt: str) -> Batch | None:
    """The newest batch that was asked for with this attempt."""
    mine = (batch for batch in reversed(state.batches.values()) if batch.node == device.spec.node)
    return next((batch for batch in mine if any(attempt in task.attempts for task in batch.tasks)), None)


def _requested(state: State, index: Index, given: inputs.Requested, emit: Emit) -> None:
    _known(state, given.node)
    if given.token not in state.batches:
        emit(
            events.BatchRequested(
                node=given.node,
                token=given.token,
                mode=given.mode,
                tasks=given.tasks,
                wants=given.wants,
                time=given.time,
            )
        )


def _submitted(state: State, index: Index, given: inputs.Submitted, emit: Emit) -> None:
    batch = state.batches.get(given.token)
    if batch is not None and batch.job != given.job:
        emit(events.BatchSubmitted(node=given.node, token=given.token, as_job=given.job))


def _closed(state: State, index: Index, given: inputs.Closed, emit: Emit) -> None:
    if given.token in state.batches:
        emit(events.BatchClosed(node=given.node, token=given.token, why=given.why))


def _seen(state: State, index: Index, given: inputs.PoolSeen, emit: Emit) -> None:
    _known(state, given.node)
    index.pools.seen[given.node] = given.seen
    index.pools.times += 1
    look_again(state, index, state.nodes[given.node].spec)


TAKES: dict[type, Callable[[State, Index, Any, Emit], Any]] = {
    inputs.Requested: _requested,
    inputs.Submitted: _submitted,
    inputs.Closed: _closed,
    inputs.PoolSeen: _seen,
}


def look_again(state: State, index: Index, node: NodeSpec) -> None:
    """Fewer slots of a pool may be waiting than before: those that have nothing may be given something."""
    if node.pool is None:
        return
    for spec in node.devices:
        device = state.devices[spec.id]
        if not device.attempts and not device.chunks:
            index.opened(state, spec.id)


def _fold_requested(state: State, index: Index, event: events.BatchRequested) -> None:
    state.batches[event.token] = Batch(
        token=event.token,
        node=event.node,
        mode=event.mode,
        tasks=event.tasks,
        wants=event.wants,
        time=event.time,
        requested_at=state.at,
    )


def _fold_submitted(state: State, index: Index, event: events.BatchSubmitted) -> None:
    batch = state.batches[event.token]
    state.batches[event.token] = replace(batch, job=event.as_job, submitted_at=state.at)


def _fold_closed(state: State, index: Index, event: events.BatchClosed) -> None:
    del state.batches[event.token]


FOLDS: dict[type, Fold] = {
    events.BatchRequested: _fold_requested,
    events.BatchSubmitted: _fold_submitted,
    events.BatchClosed: _fold_closed,
}


def _known(state: State, node: str) -> None:
    if node not in state.nodes:
        raise NotFound(f"there is no node {node!r} in the fleet")


def _idle(state: State, index: Index, device: Device) -> str | None:
    """A slot of the same pool and class that runs and has nothing to do."""
    node, now = device.spec.node, (state.seq, index.pools.times)
    known = index.pools.idle.get(node)
    if known is None or known[0] != now:
        known = index.pools.idle[node] = now, _idle_by_class(state, index, node)
    return next((name for name in known[1].get(index.classes.get(device.spec.id), ()) if name in index.open), None)


def _idle_by_class(state: State, index: Index, node: str) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    seen = index.pools.seen.get(node)
    for queue, slot in () if seen is None else seen.slots.items():
        device = state.devices.get(f"{node}/{queue}")
        if _takes_more(slot) and device is not None and not device.attempts and not device.chunks:
            found.setdefault(index.classes.get(device.spec.id), []).append(device.spec.id)
    return found


def _is_asked_for(state: State, index: Index, device: Device) -> bool:
    if device.attempts or device.chunks:
        return True
    slot = slot_of(state, index, device)
    return slot is not None and not _goes(slot)


def _way_out(state: State, job: Job, device: str) -> str:
    """What to do about a batch job that may wait for ever."""
    node = state.devices[device].spec.node
    return (
        f"; it may wait for ever: mend that, or `hostler node drain {node}` takes back what waits there "
        f"(`hostler node resume {node}` then has it asked for anew), or `hostler cancel {job.id}`"
    )


def _takes_more(slot: SlotSeen) -> bool:
    return slot.phase is SlotPhase.UP and slot.stays


def _goes(slot: SlotSeen) -> bool:
    """Whether it runs and then ends: what comes next waits for another."""
    return slot.phase is SlotPhase.UP and not slot.stays


def _has_begun(state: State, index: Index, device: Device) -> bool:
    """Whether a batch job stands behind the slot that runs, as far as anybody knows; one for what the slot has now."""
    slot = slot_of(state, index, device)
    if slot is not None and (device.chunks or not _goes(slot)):
        return slot.phase is SlotPhase.UP
    held = (state.jobs[name.rpartition(".")[0]] for name in device.attempts)
    return any(job.state in (JobState.RUNNING, JobState.COLLECTING) for job in held)
