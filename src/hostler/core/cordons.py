"""Nodes and devices that are given nothing new because a person wants that: what that means, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from hostler.core import planning
from hostler.core.index import Index
from hostler.core.state import Cordon, State
from hostler.model import events
from hostler.model.views import BanView, CordonView
from hostler.policy.fit import Gate, Refusal

ITSELF = "the node itself"
"""Who wants nothing new on a node that is about to go."""
HOSTLER = "hostler"
"""Who holds a node that reports on the work of others."""
CHORE = "device cordons"
"""A cordon of a device may have expired."""
Fold: TypeAlias = Callable[[State, Index, Any], None]


def gate(state: State, device: str) -> Refusal | None:
    """Why a device is given nothing new, for its node or for itself; `None` where it may be."""
    node = state.devices[device].spec.node
    for name, cordon in ((node, state.cordons.get(node)), (device, state.device_cordons.get(device))):
        if cordon is not None:
            return Refusal(gate=Gate.CORDON, why=f"{name} is {words(cordon)}")
    return None


def of_device(state: State, device: str) -> CordonView | None:
    """The cordon of a single device, to be shown."""
    cordon = state.device_cordons.get(device)
    return None if cordon is None else view(cordon)


def words(cordon: Cordon) -> str:
    """How a node or a device is cordoned, by whom, and why."""
    who = "" if cordon.who is None else f" by {cordon.who}"
    return f"{view(cordon).state}{who}" + ("" if cordon.why is None else f": {cordon.why}")


def view(cordon: Cordon) -> CordonView:
    """The same, to be shown."""
    return CordonView(
        state="cordoned" if not cordon.drain else "draining" if cordon.drained_at is None else "drained",
        since=cordon.since,
        who=cordon.who,
        why=cordon.why,
        now=cordon.now,
        until=cordon.until,
    )


def bans(state: State) -> Iterator[BanView]:
    """All nodes and devices that are given nothing new because a person wants that."""
    for node, cordon in state.cordons.items():
        yield BanView(
            kind="cordon",
            what=node,
            of=None,
            owner=cordon.who or "operator",
            why=f"{words(cordon)}; `hostler node resume {node}` ends it",
            since=cordon.since,
            until=None,
        )
    for device, cordon in state.device_cordons.items():
        yield BanView(
            kind="cordon",
            what=device,
            of=None,
            owner=cordon.who or "operator",
            why=f"{words(cordon)}; `hostler device resume {device}` ends it",
            since=cordon.since,
            until=cordon.until,
        )


def faults(state: State) -> Iterator[str]:
    """Whatever was put on a node after somebody had said that nothing should be."""
    for device in state.devices.values():
        both = (state.cordons.get(device.spec.node), state.device_cordons.get(device.spec.id))
        cordon = min((each for each in both if each is not None), key=lambda each: each.since, default=None)
        if cordon is None:
            continue
        begun = {name: state.jobs[name.rpartition(".")[0]].attempt for name in device.attempts}
        held = {name: attempt.leased_at for name, attempt in begun.items() if attempt is not None}
        held |= {name: state.sweeps[name.rpartition(".")[0]].leases[name].leased_at for name in device.chunks}
        for name in (name for name, leased_at in held.items() if leased_at > cordon.since):
            yield f"{name} was put on {device.spec.id}, which has been cordoned since {cordon.since}"


def _cordoned(state: State, index: Index, event: events.NodeCordoned) -> None:
    known = state.cordons.get(event.node)
    state.cordons[event.node] = Cordon(
        since=state.at if known is None else known.since,
        why=event.why,
        who=event.who,
        drain=event.drain,
        now=event.now,
        drained_at=None if known is None else known.drained_at,
    )
    for name in index.devices_at.get(event.node, ()):
        index.closed(name)
    if event.who != HOSTLER:  # a node must not be able to have others looked at in another order by lying of them
        _changed(state, index, event.node)


def _drained(state: State, index: Index, event: events.NodeDrained) -> None:
    state.cordons[event.node].drained_at = state.at


def _resumed(state: State, index: Index, event: events.NodeResumed) -> None:
    del state.cordons[event.node]
    index.conduct[event.node].foreign.clear()
    for name in index.devices_at.get(event.node, ()):
        index.opened(state, name)
    _changed(state, index, event.node)


def _device_cordoned(state: State, index: Index, event: events.DeviceCordoned) -> None:
    known = state.device_cordons.get(event.device)
    state.device_cordons[event.device] = Cordon(
        since=state.at if known is None else known.since,
        why=event.why,
        who=event.who,
        drain=event.drain,
        now=False,
        drained_at=None if known is None else known.drained_at,
        until=event.until,
    )
    if event.until is not None:
        index.do_later(CHORE, event.until)
    index.closed(event.device)
    _changed(state, index, state.devices[event.device].spec.node)


def _device_drained(state: State, index: Index, event: events.DeviceDrained) -> None:
    state.device_cordons[event.device].drained_at = state.at


def _device_resumed(state: State, index: Index, event: events.DeviceResumed) -> None:
    del state.device_cordons[event.device]
    index.opened(state, event.device)
    _changed(state, index, state.devices[event.device].spec.node)


def _changed(state: State, index: Index, node: str) -> None:
    """Work that preferred this node may be placed elsewhere now, or the other way round."""
    index.new_work = index.room_changed = True
    planning.fleet_changed(index, len(state.nodes[node].spec.devices))


FOLDS: dict[type, Fold] = {
    events.NodeCordoned: _cordoned,
    events.NodeDrained: _drained,
    events.NodeResumed: _resumed,
    events.DeviceCordoned: _device_cordoned,
    events.DeviceDrained: _device_drained,
    events.DeviceResumed: _device_resumed,
}
