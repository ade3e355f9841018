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

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from hostler.core import judging, orders
from hostler.core.index import Index
from hostler.core.state import Job, Node, State
from hostler.model import inputs
from hostler.model.commands import Collect, Command, Launch, Lend, ListWork, Prove, Recall, Stop
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
ANSWERED = (Launch, Stop, Lend, Recall, Collect, Prove)
"""Orders that a node answers."""
NAMED_MOST = 5


def due(state: State, index: Index, given: Sequence[Command]) -> Iterator[Command]:
    """What nodes are asked now, and what they are told once more; `given` are the commands of this step."""
    known = index.confirming
    again, known.again = known.again, []
    for node, name, held in again:
        yield from orders.again(state, index, node, name, held)
    is_open = any(isinstance(each, ANSWERED) for each in given)
    if CHORE in index.chores:
        index.chores.discard(CHORE)
        known.is_armed = False
        unsettled = _unsettled(state, index)
        is_open = is_open or bool(unsettled or index.proving)
        yield from _looked(state, index, unsettled)
    if is_open and not known.is_armed:
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


def _unsettled(state: State, index: Index) -> dict[str, list[str]]:
    """Attempts and chunks at linked nodes that an answer is awaited for, by node."""
    linked = (node for node in state.nodes.values() if node.link is Link.UP and node.spec.pool is None)
    found = {node.spec.name: [name for name in _held(state, index, node) if _is_open(state, name)] for node in linked}
    return {node: names for node, names in found.items() if names}


def _looked(state: State, index: Index, unsettled: dict[str, list[str]]) -> Iterator[Command]:
    known = index.confirming
    before, known.since = known.since, {}

    def waited(name: str) -> float:
        """For how long something that has no time of its own has been seen to wait."""
        since = known.since[name] = before.get(name, index.now)
        return index.now - since

    for node, names in unsettled.items():
        doubtful = [name for name in names if _is_doubtful(state, index, name, waited)]
        for name in (each for each in doubtful if _is_ended(state, each)):
            yield from orders.again(state, index, node, name, held=True)
        asked = tuple(each for each in doubtful if not _is_ended(state, each))
        if asked:
            known.asked[node] = asked
            yield ListWork(node=node)
    for device in [name for name, since in sorted(index.proving.items()) if index.now - since >= PROOF_S]:
        del index.proving[device]
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


def _is_open(state: State, name: str) -> bool:
    """Whether the node of an attempt or a chunk has still to answer an order about it."""
    job = state.jobs[job_of(name)]
    if job.attempt is None or job.attempt.id != name:
        return True
    if job.attempt.ended is not None:
        return job.attempt.ended.fetch is not None
    is_told_to_end = job.cancelling is not None or job.attempt.yielding is not None
    return is_told_to_end or job.state is JobState.LAUNCHING


def _is_doubtful(state: State, index: Index, name: str, waited: Callable[[str], float]) -> bool:
    job = state.jobs[job_of(name)]
    if job.attempt is None or job.attempt.id != name:
        lease = state.sweeps[job.id].leases[name]
        return max(lease.leased_at, lease.began_at or 0.0, lease.told_at or 0.0) + SILENT_S <= index.now
    if job.attempt.ended is not None:
        return waited(name) >= SILENT_S
    if job.cancelling is not None or job.attempt.yielding is not None:
        return waited(name) >= SILENT_S + job.spec.grace_s
    return job.attempt.leased_at + SILENT_S <= index.now


def _is_ended(state: State, name: str) -> bool:
    job: Job = state.jobs[job_of(name)]
    return job.attempt is not None and job.attempt.id == name and job.attempt.ended is not None
