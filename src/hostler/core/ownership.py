"""What of a node's report concerns the work of that node: an attempt, a lease, a worker, a batch or a device of it.

An attempt of several devices belongs to the node of each. What no node has now (a late report of an attempt that was
lost, say) is judged where every report is: only what another node holds is foreign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from hostler.core.index import Index
from hostler.core.orders import sweep_of_worker, worker_id
from hostler.core.state import State
from hostler.model import inputs
from hostler.model.events import job_of
from hostler.model.inputs import Input


class Foreign(NamedTuple):
    """Something of a report that belongs to another node."""

    of: str
    why: str


class Admitted(NamedTuple):
    """What of a report is taken, if anything is, and what is not."""

    given: Input | None
    foreign: tuple[Foreign, ...] = ()


Check: TypeAlias = Callable[[State, Index, str, Any], Admitted]


def admitted(state: State, index: Index, node: str, given: Input) -> Admitted:
    """What of an input a node may report."""
    check = CHECKS.get(type(given))
    if check is None:
        return Admitted(None, (Foreign(type(given).__name__, "no node reports this"),))
    return check(state, index, node, given)


def _own_name(state: State, index: Index, node: str, given: Any) -> Admitted:
    """An input that names its node."""
    named = given.node if isinstance(given.node, str) else given.node.name
    return _all_or_nothing(given, None if named == node else Foreign(named, "it is another node"))


def _described(state: State, index: Index, node: str, given: inputs.NodeFound) -> Admitted:
    """A node describes itself, with devices of its own."""
    strange = [each for each in given.node.devices if each.node != node or each.id != f"{node}/{each.queue}"]
    if given.node.name == node and strange:
        return Admitted(None, (Foreign(strange[0].id, "it is no device of this node"),))
    return _own_name(state, index, node, given)


def _measured(state: State, index: Index, node: str, given: inputs.Telemetry) -> Admitted:
    """Telemetry of its own devices."""
    foreign = _others(given.devices, lambda name: None if name.startswith(f"{node}/") else "it is no device of it")
    if given.node != node or not foreign:
        return _own_name(state, index, node, given)
    gone = {each.of for each in foreign}
    kept = {name: told for name, told in given.devices.items() if name not in gone}
    return Admitted(replace(given, devices=kept), foreign)


def _attempt(state: State, index: Index, node: str, given: Any) -> Admitted:
    """An input about one attempt."""
    return _all_or_nothing(given, *_others([given.attempt], lambda name: _attempt_fault(state, node, name)))


def _attempts(state: State, index: Index, node: str, given: inputs.Launched) -> Admitted:
    foreign = _others(given.attempts, lambda name: _attempt_fault(state, node, name))
    gone = {each.of for each in foreign}
    return Admitted(replace(given, attempts=tuple(each for each in given.attempts if each not in gone)), foreign)


def _chunk(state: State, index: Index, node: str, given: Any) -> Admitted:
    """An input about one chunk."""
    return _all_or_nothing(given, *_others([given.chunk], lambda name: _chunk_fault(state, node, name)))


def _chunks(state: State, index: Index, node: str, given: inputs.Progress) -> Admitted:
    foreign = _others(given.chunks, lambda name: _chunk_fault(state, node, name))
    if not foreign:
        return Admitted(given)
    gone = {each.of for each in foreign}
    kept = {name: told for name, told in given.chunks.items() if name not in gone}
    found = {name: told for name, told in given.found.items() if name not in gone}
    return Admitted(replace(given, chunks=kept, found=found), foreign)


def _linked(state: State, index: Index, node: str, given: inputs.LinkUp | inputs.WorkListed) -> Admitted:
    """An inventory. What another node has of it stays in it: the node is to end that."""
    if given.node != node:
        return _own_name(state, index, node, given)
    foreign = (
        *_others(given.attempts, lambda name: _attempt_fault(state, node, name)),
        *_others(given.chunks, lambda name: _chunk_fault(state, node, name)),
    )
    return Admitted(given, foreign[:1])


def _worker(state: State, index: Index, node: str, given: inputs.WorkerRefused) -> Admitted:
    """A worker has the name of its device. One of a device that is not there any more concerns nothing."""
    sweep = state.sweeps.get(sweep_of_worker(given.worker))
    if sweep is None:
        return Admitted(given)
    for device in map(state.devices.__getitem__, sweep.workers):
        if worker_id(sweep.job, device) == given.worker and device.spec.node != node:
            return Admitted(None, (Foreign(given.worker, f"it is a worker of {device.spec.node}"),))
    return Admitted(given)


def _device(state: State, index: Index, node: str, given: inputs.DeviceProved) -> Admitted:
    device = state.devices.get(given.device)
    is_foreign = device is None or device.spec.node != node
    return _all_or_nothing(given, Foreign(given.device, "it is no device of this node") if is_foreign else None)


def _batch(state: State, index: Index, node: str, given: Any) -> Admitted:
    """A batch of the pool itself."""
    batch = state.batches.get(given.token)
    if given.node == node and batch is not None and batch.node != node:
        return Admitted(None, (Foreign(given.token, f"it is a batch of {batch.node}"),))
    return _own_name(state, index, node, given)


def _anything(state: State, index: Index, node: str, given: Any) -> Admitted:
    return Admitted(given)


CHECKS: Mapping[type, Check] = {
    inputs.NodeFound: _described,
    inputs.LinkUp: _linked,
    inputs.LinkDown: _own_name,
    inputs.WorkListed: _linked,
    inputs.NodeGoes: _own_name,
    inputs.Telemetry: _measured,
    inputs.Launched: _attempts,
    inputs.Started: _attempt,
    inputs.Ended: _attempt,
    inputs.Fetched: _attempt,
    inputs.SoFar: _attempt,
    inputs.Secured: _attempt,
    inputs.Searched: _chunk,
    inputs.Returned: _chunk,
    inputs.Progress: _chunks,
    inputs.WorkerRefused: _worker,
    inputs.DeviceProved: _device,
    inputs.Requested: _batch,
    inputs.Submitted: _batch,
    inputs.Closed: _batch,
    inputs.PoolSeen: _own_name,
    inputs.Trouble: _anything,
}
"""Every input that a node may report, with the check of whose work it concerns."""


def _attempt_fault(state: State, node: str, name: str) -> str | None:
    """Why a node may not report on an attempt; `None` where it may, or where no node has that attempt now."""
    job = state.jobs.get(job_of(name))
    if job is None or job.attempt is None or job.attempt.id != name:
        return None
    nodes = dict.fromkeys(state.devices[each].spec.node for each in job.attempt.devices)
    return None if node in nodes else f"it is an attempt of {', '.join(nodes)}"


def _chunk_fault(state: State, node: str, name: str) -> str | None:
    """The same of a chunk."""
    sweep = state.sweeps.get(job_of(name))
    lease = None if sweep is None else sweep.leases.get(name)
    if lease is None:
        return None
    owner = state.devices[lease.device].spec.node
    return None if owner == node else f"it is leased to {owner}"


def _others(names: Iterable[str], fault: Callable[[str], str | None]) -> tuple[Foreign, ...]:
    return tuple(Foreign(name, why) for name in names if (why := fault(name)) is not None)


def _all_or_nothing(given: Input, foreign: Foreign | None = None) -> Admitted:
    return Admitted(given) if foreign is None else Admitted(None, (foreign,))
