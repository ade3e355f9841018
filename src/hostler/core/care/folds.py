"""Folding what was decided on telemetry into the state: one small function for each event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hostler.core.care.state import Pressed
from hostler.core.index import Index
from hostler.core.state import State
from hostler.model import events
from hostler.model.telemetry import Signal


def concurrency_set(state: State, index: Index, event: events.ConcurrencySet) -> None:
    """More jobs may share the device, or fewer; those that run go on."""
    node = state.devices[event.device].spec.node
    noted = state.care.lanes.setdefault(node, {})
    noted[event.device] = event.lanes
    if event.lanes > 1:
        index.expire_later(state, node)
    else:
        del noted[event.device]
    if not noted:
        del state.care.lanes[node]
    index.opened(state, event.device)


def backpressure_activated(state: State, index: Index, event: events.BackpressureActivated) -> None:
    """These signals press on the node, or on the queue; others that did so no more."""
    if event.node is None:
        state.care.queue = _pressed(state, state.care.queue, event.signals)
        _wake_loops(state, index)
        return
    state.care.nodes[event.node] = _pressed(state, state.care.nodes.get(event.node, {}), event.signals)
    index.expire_later(state, event.node)
    _open(state, index, event.node)


def backpressure_released(state: State, index: Index, event: events.BackpressureReleased) -> None:
    """Nothing presses on the node, or on the queue; what was held back may go."""
    if event.node is None:
        state.care.queue = {}
        _wake_loops(state, index)
        return
    state.care.nodes.pop(event.node, None)
    _open(state, index, event.node)


def told(state: State, index: Index, event: object) -> None:
    """A fact for people and programs: what follows from it is decided by events of its own."""


FOLDS: Mapping[type, Callable[[State, Index, Any], None]] = {
    events.ConcurrencySet: concurrency_set,
    events.BackpressureActivated: backpressure_activated,
    events.BackpressureReleased: backpressure_released,
    events.IdleResourceDetected: told,
    events.ResourceConstraint: told,
    events.NodeOverloaded: told,
    events.DiskSpaceLow: told,
}


def _pressed(state: State, before: Mapping[str, Pressed], signals: Iterable[Signal]) -> dict[str, Pressed]:
    return {each.name: Pressed(signal=each, since=_since(state, before.get(each.name), each)) for each in signals}


def _since(state: State, before: Pressed | None, signal: Signal) -> float:
    return before.since if before is not None and before.signal.level is signal.level else state.at


def _open(state: State, index: Index, node: str) -> None:
    """Some work may be allowed on the node's devices again."""
    for device in state.nodes[node].spec.devices:
        index.opened(state, device.id)


def _wake_loops(state: State, index: Index) -> None:
    """What configs want is decided anew; a change of the queue's pressure is rare."""
    index.loops_due.update(state.configs)
