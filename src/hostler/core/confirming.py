"""Orders that a linked node has not answered for a minute: the node is asked what it has, and its answer settles them.

On a link that is up nothing is lost on the way, and a node tells of each end until that is in the journal. Yet an order
can be without an answer for ever: a journal that was rolled back gives a number a second time, which the node knows; an
errand of the controller fails in a way that nobody foresaw. Asked for are attempts that were launched and have not
started, attempts that were told to end, and chunks of which nothing is heard. What the node does not have is lost, or
sent once more where that cannot run anything twice; what it has is told once more what is wanted of it. What an ended
attempt has left is asked for again, and so is the proof of a device.

Pools are left out: there the cluster is asked, and what waits in its queue may wait for days.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from hostler.core import judging, orders
from hostler.core.index import Index
from hostler.core.state import Job, Node, State
from hostler.model import inputs
from hostler.model.commands import Command, ListWork
from hostler.model.events import Event, TroubleRecorded, job_of
from hostler.model.fleet import Link
from hostler.model.units import duration
from hostler.model.work import JobState

Emit: TypeAlias = Callable[[Event], None]

CHORE = "confirm"
SILENT_S = 60.0
"""For so long an order may be without an answer on a link that is up."""
PROOF_S = 900.0
"""The same for the canary of a device, which waits for those of its node's other devices."""
AT_WORK = (JobState.LEASED, JobState.LAUNCHING, JobState.RUNNING, JobState.COLLECTING)
NAMED_MOST = 5


def due(state: State, index: Index) -> Iterator[Command]:
    """What nodes are asked now, and what they are told once more."""
    known = index.confirming
    again, known.again = known.again, []
    for node, name, held in again:
        yield from orders.again(state, index, node, name, held)
    if CHORE in index.chores:
        index.chores.discard(CHORE)
        known.is_armed = False
        yield from _looked(state, index)
    is_at_work = index.active or index.proving or any(index.counts[each] for each in AT_WORK)
    if is_at_work and not known.is_armed:
        known.is_armed = True
        index.do_later(CHORE, index.now + SILENT_S)


def linked(index: Index, node: str) -> None:
    """A node was linked anew: its inventory says more than an answer from before."""
    index.confirming.asked.pop(node, None)


def listed(state: State, index: Index, given: inputs.WorkListed, emit: Emit) -> None:
    """A node has answered what it has: settle what it was asked for, and is without an answer still."""
    there, missing = {*given.attempts, *given.chunks}, []
    node = state.nodes.get(given.node)
    for name in index.confirming.asked.pop(given.node, ()):
        if node is None or name not in _held(state, index, node):
            continue
        job = state.jobs[job_of(name)]
        is_attempt = job.attempt is not None and job.attempt.id == name
        if name in there or not is_attempt:
            index.confirming.again.append((given.node, name, name in there))
            missing += [] if name in there else [name]
        elif job.attempt is not None and job.attempt.ended is None:
            silent = duration(max(index.now - job.attempt.leased_at, SILENT_S))
            since = f"nothing was heard of it since it was placed {silent} ago"
            why = f"{given.node} does not have it. It was asked for it, as {since}"
            judging.lose(state, index, name, why, emit)
    if missing:
        named = ", ".join(missing[:NAMED_MOST]) + (" and more" if len(missing) > NAMED_MOST else "")
        what = f"it has none of these chunks, of which nothing was heard for a minute; they are sent again: {named}"
        emit(TroubleRecorded(where=f"node {given.node}", what=what))


def _looked(state: State, index: Index) -> Iterator[Command]:
    known = index.confirming
    before, known.since = known.since, {}

    def waited(name: str) -> float:
        """For how long something that has no time of its own has been seen to wait."""
        since = known.since[name] = before.get(name, index.now)
        return index.now - since

    for node in state.nodes.values():
        if node.link is not Link.UP or node.spec.pool is not None:
            continue
        doubtful = [name for name in _held(state, index, node) if _is_doubtful(state, index, name, waited)]
        fetching = [name for name in doubtful if _is_ended(state, name)]
        for name in fetching:
            yield from orders.again(state, index, node.spec.name, name, held=True)
        if len(doubtful) > len(fetching):
            known.asked[node.spec.name] = tuple(name for name in doubtful if name not in fetching)
            yield ListWork(node=node.spec.name)
    for device in [each for each in sorted(index.proving) if waited(f"canary {each}") >= PROOF_S]:
        index.proving.discard(device)
        index.unproved[device] = None


def _held(state: State, index: Index, node: Node) -> dict[str, None]:
    """Attempts and chunks that the node was given: of several nodes, the one of the first device has the attempt."""
    found: dict[str, None] = {}
    for device in (state.devices[name] for name in index.devices_at.get(node.spec.name, ())):
        for name in device.attempts:
            attempt = state.jobs[job_of(name)].attempt
            if attempt is not None and attempt.device == device.spec.id:
                found[name] = None
        found.update(dict.fromkeys(device.chunks))
    return found


def _is_doubtful(state: State, index: Index, name: str, waited: Callable[[str], float]) -> bool:
    job = state.jobs[job_of(name)]
    if job.attempt is None or job.attempt.id != name:
        lease = state.sweeps[job.id].leases[name]
        return max(lease.leased_at, lease.began_at or 0.0, lease.told_at or 0.0) + SILENT_S <= index.now
    if job.attempt.ended is not None:
        return job.attempt.ended.fetch is not None and waited(name) >= SILENT_S
    if job.cancelling is not None or job.attempt.yielding is not None:
        return waited(name) >= SILENT_S + job.spec.grace_s
    return job.state is JobState.LAUNCHING and job.attempt.leased_at + SILENT_S <= index.now


def _is_ended(state: State, name: str) -> bool:
    job: Job = state.jobs[job_of(name)]
    return job.attempt is not None and job.attempt.id == name and job.attempt.ended is not None
