"""Cordon, drain, resume: what a person wants of a node or a device, and what follows for the work it has.

What waits in the queue of a cluster has not begun: it goes back at once, or it would wait for days, and begin then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import TypeAlias

from hostler.core import cordons, pools
from hostler.core.index import Index
from hostler.core.state import Job, State
from hostler.model import events, inputs
from hostler.model.errors import NotFound
from hostler.model.events import Event, job_of
from hostler.model.work import JobState

Emit: TypeAlias = Callable[[Event], None]

NAMED_MOST = 20


def cordon(state: State, index: Index, given: inputs.CordonNode, emit: Emit) -> None:
    """Put nothing new on a node; once more changes nothing, unless it asks for more or gives another reason.

    Raises `NotFound`.
    """
    _check(state, given.node)
    known = state.cordons.get(given.node)
    drain, now, why = given.drain or given.now, given.now, given.why
    if known is not None:
        drain, now, why = drain or known.drain, now or known.now, known.why if why is None else why
        if (drain, now, why) == (known.drain, known.now, known.why):
            return
    emit(events.NodeCordoned(node=given.node, why=why, who=given.who, drain=drain, now=now))
    said = cordons.words(state.cordons[given.node])
    unasked = _unasked(state, index.devices_at.get(given.node, ()))
    for attempt in unasked if now else _not_begun(state, index, given.node, unasked):
        emit(events.PreemptRequested(attempt=attempt, by=None, why=f"{given.node} is {said}"))


def resume(state: State, index: Index, given: inputs.ResumeNode, emit: Emit) -> None:
    """Put work on a node again; of one that takes work anyway, nothing is to be done. Raises `NotFound`."""
    _check(state, given.node)
    if given.node in state.cordons:
        emit(events.NodeResumed(node=given.node, who=given.who))


def cordon_device(state: State, index: Index, given: inputs.CordonDevice, emit: Emit) -> None:
    """Put nothing new on a device; once more changes nothing, unless it gives a reason or an end, or asks for a drain.

    Raises `NotFound`.
    """
    _check_device(state, given.device)
    known = state.device_cordons.get(given.device)
    until = None if given.for_s is None else index.now + given.for_s
    drain, why = given.drain, given.why
    if known is not None:
        drain, why = drain or known.drain, known.why if why is None else why
        until = known.until if until is None else until
        if (drain, why, until) == (known.drain, known.why, known.until):
            return
    emit(events.DeviceCordoned(device=given.device, why=why, who=given.who, drain=drain, until=until))
    said = cordons.words(state.device_cordons[given.device])
    node = state.devices[given.device].spec.node
    for attempt in _not_begun(state, index, node, _unasked(state, [given.device])):
        emit(events.PreemptRequested(attempt=attempt, by=None, why=f"{given.device} is {said}"))


def resume_device(state: State, index: Index, given: inputs.ResumeDevice, emit: Emit) -> None:
    """Put work on a device again; one that is not cordoned stays as it is. Raises `NotFound`."""
    _check_device(state, given.device)
    if given.device in state.device_cordons:
        emit(events.DeviceResumed(device=given.device, who=given.who, expired=False))


def goes(state: State, index: Index, given: inputs.NodeGoes, emit: Emit) -> None:
    """A node is about to go: it is given nothing more, and emptied; another boot of it takes work again."""
    if given.node in state.nodes and given.node not in state.cordons:
        emit(events.NodeCordoned(node=given.node, why=given.why, who=cordons.ITSELF, drain=True, now=False))


def back(state: State, given: inputs.LinkUp, emit: Emit) -> None:
    """A node that went is there again: its agent is another one, or was started anew."""
    node, cordon = state.nodes[given.node], state.cordons.get(given.node)
    again = (node.agent, node.incarnation) != (given.agent, given.incarnation)
    if cordon is not None and cordon.who == cordons.ITSELF and again:
        emit(events.NodeResumed(node=given.node, who=cordons.ITSELF))


def review(state: State, index: Index, emit: Emit) -> None:
    """Record nodes and devices that were to be emptied and are, and cordons that have expired."""
    for node, known in list(state.cordons.items()):
        if known.drain and known.drained_at is None and not _holds(state, index, node):
            emit(events.NodeDrained(node=node))
    for name, known in list(state.device_cordons.items()):
        device = state.devices[name]
        if known.drain and known.drained_at is None and not (device.attempts or device.chunks):
            emit(events.DeviceDrained(device=name))
    if cordons.CHORE in index.chores:
        index.chores.discard(cordons.CHORE)
        for name, known in list(state.device_cordons.items()):
            if known.until is not None and known.until <= index.now:
                emit(events.DeviceResumed(device=name, who=None, expired=True))


def _check(state: State, node: str) -> None:
    if node not in state.nodes:
        names = sorted(state.nodes)
        listed = ", ".join(names[:NAMED_MOST]) + (" and more" if len(names) > NAMED_MOST else "")
        raise NotFound(f"there is no node {node!r} in the fleet; it has {listed or 'none yet'}")


def _check_device(state: State, name: str) -> None:
    if name not in state.devices:
        names = sorted(state.devices)
        listed = ", ".join(names[:NAMED_MOST]) + (" and more" if len(names) > NAMED_MOST else "")
        raise NotFound(f"there is no device {name!r} in the fleet; it has {listed or 'none yet'}")


def _holds(state: State, index: Index, node: str) -> bool:
    held = (state.devices[name] for name in index.devices_at.get(node, ()))
    return any(device.attempts or device.chunks for device in held)


def _unasked(state: State, devices: Iterable[str]) -> list[str]:
    """Attempts on these devices that have not been asked to end yet."""
    held = (state.devices[name].attempts for name in devices)
    return [name for name in dict.fromkeys(chain.from_iterable(held)) if _is_unasked(state.jobs[job_of(name)])]


def _not_begun(state: State, index: Index, node: str, attempts: Iterable[str]) -> list[str]:
    """Those that wait for a cluster to begin them; what runs takes what it was given already, as any node does."""
    if state.nodes[node].spec.pool is None:
        return []
    return [name for name in attempts if _waits(state, index, name)]


def _waits(state: State, index: Index, name: str) -> bool:
    job = state.jobs[job_of(name)]
    if job.attempt is None or job.state not in (JobState.LEASED, JobState.LAUNCHING):
        return False
    return not pools.has_begun(state, index, name, state.devices[job.attempt.device])


def _is_unasked(job: Job) -> bool:
    """One that has ended goes once its files are here, without being asked."""
    attempt = job.attempt
    return attempt is not None and attempt.yielding is None and attempt.ended is None and job.cancelling is None
