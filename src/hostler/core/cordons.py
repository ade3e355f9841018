"""Nodes that are given nothing new because somebody said so: what that means, and what is said of it."""

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
Fold: TypeAlias = Callable[[State, Index, Any], None]


def gate(state: State, node: str) -> Refusal | None:
    """Why a node is given nothing new; `None` where it may be."""
    cordon = state.cordons.get(node)
    return None if cordon is None else Refusal(gate=Gate.CORDON, why=f"{node} is {words(cordon)}")


def words(cordon: Cordon) -> str:
    """What somebody wants of a node, who, and why."""
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
    )


def bans(state: State) -> Iterator[BanView]:
    """All nodes that are given nothing new because somebody said so."""
    for node, cordon in state.cordons.items():
        yield BanView(
            kind="cordon",
            what=node,
            of=None,
            owner=cordon.who or "operator",
            why=f"{words(cordon)}; `hostler nodes resume {node}` ends it",
            since=cordon.since,
            until=None,
        )


def faults(state: State) -> Iterator[str]:
    """Whatever was put on a node after somebody had said that nothing should be."""
    for device in state.devices.values():
        cordon = state.cordons.get(device.spec.node)
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
    _changed(state, index, event.node)


def _drained(state: State, index: Index, event: events.NodeDrained) -> None:
    state.cordons[event.node].drained_at = state.at


def _resumed(state: State, index: Index, event: events.NodeResumed) -> None:
    del state.cordons[event.node]
    for name in index.devices_at.get(event.node, ()):
        index.opened(state, name)
    _changed(state, index, event.node)


def _changed(state: State, index: Index, node: str) -> None:
    """What was not good enough beside this node may be now, or the other way round."""
    index.new_work = index.room_changed = True
    planning.fleet_changed(index, len(state.nodes[node].spec.devices))


FOLDS: dict[type, Fold] = {
    events.NodeCordoned: _cordoned,
    events.NodeDrained: _drained,
    events.NodeResumed: _resumed,
}
