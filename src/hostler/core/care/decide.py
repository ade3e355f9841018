"""What presses where, and what holds no more because a node has fallen silent. Events only where that changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from hostler.core.care import steer
from hostler.core.care.state import Heard, Pressed
from hostler.core.index import CARE, Index
from hostler.core.state import State
from hostler.model import events
from hostler.model.events import Event
from hostler.model.telemetry import Level, Signal
from hostler.model.work import JobState
from hostler.policy import pressure
from hostler.policy.pressure import Reading

Emit: TypeAlias = Callable[[Event], None]
Fact: TypeAlias = type[events.ResourceConstraint] | type[events.NodeOverloaded] | type[events.DiskSpaceLow]

FACTS: Mapping[str, Fact] = {
    pressure.MEMORY: events.ResourceConstraint,
    pressure.LOAD: events.NodeOverloaded,
    pressure.DISK: events.DiskSpaceLow,
    pressure.DISK_FREE: events.DiskSpaceLow,
    pressure.DISK_FILL: events.DiskSpaceLow,
}
"""What is told when a signal of a node rises, beside the back-pressure that follows."""

RECHECK_S = 1.0
"""When what should have expired is looked at again."""


def review(state: State, index: Index, emit: Emit) -> None:
    """Look at the queue, and at nodes from which nothing was heard for long; to be done before work is given out."""
    _judge_queue(state, index, emit)
    for chore in sorted(each for each in index.chores if each.startswith(CARE)):
        index.chores.discard(chore)
        _expire(state, index, chore.removeprefix(CARE), emit)


def judge_node(state: State, index: Index, node: str, emit: Emit) -> None:
    """Judge the signals of a node, each by its newest known value."""
    before = state.care.nodes.get(node, {})
    readings = _readings(state, index, index.telemetry[node], before)
    if before or not pressure.is_calm(readings, state.rules.targets):
        _change(node, before, _judge(state, readings, before), emit)


def _judge_queue(state: State, index: Index, emit: Emit) -> None:
    depth, before = index.counts[JobState.PENDING], state.care.queue
    if not before and depth < state.rules.targets.queue_max:
        return
    _change(None, before, _judge(state, [Reading(name=pressure.QUEUE, value=float(depth))], before), emit)


def _expire(state: State, index: Index, node: str, emit: Emit) -> None:
    """Nothing may hold for long that is based on what was heard long ago; at a start, time counts from then."""
    heard = index.telemetry[node]
    heard.armed = False
    if heard.at is None:
        heard.at = index.now
    judge_node(state, index, node, emit)
    for name in tuple(state.care.lanes.get(node, ())):
        steer.expire(state, index, state.devices[name], heard.devices.get(name), heard.at, emit)
    if node in state.care.nodes or node in state.care.lanes:
        index.expire_later(state, node, max(heard.at + steer.hold_s(state), index.now + RECHECK_S))


def _judge(state: State, readings: list[Reading], before: Mapping[str, Pressed]) -> tuple[Signal, ...]:
    return pressure.judge(readings, _levels(each.signal for each in before.values()), state.rules.targets)


def _readings(state: State, index: Index, heard: Heard, before: Mapping[str, Pressed]) -> list[Reading]:
    for name, pressed in before.items():
        if name not in heard.known and pressed.signal.value is not None:
            # Decided in an earlier life of the controller: it holds as if it was heard when this one began.
            heard.known[name] = (pressed.signal.value, index.now)
    free_gb, _ = heard.known.get(pressure.DISK_FREE, (None, 0.0))
    most = {pressure.DISK: pressure.most_of_share(free_gb, state.rules.targets)}
    return [
        Reading(name=name, value=value, age_s=index.now - at, most=most.get(name, Level.CRITICAL))
        for name, (value, at) in heard.known.items()
    ]


def _change(node: str | None, before: Mapping[str, Pressed], signals: tuple[Signal, ...], emit: Emit) -> None:
    was, now = _levels(each.signal for each in before.values()), pressure.pressing(signals)
    if _levels(iter(now)) == was:
        return
    for signal in now:
        fact = FACTS.get(signal.name)
        if node is not None and fact is not None and signal.level > was.get(signal.name, Level.NONE):
            emit(fact(node=node, signal=signal))
    if now:
        why = "; ".join(pressure.words(each) for each in now)
        emit(events.BackpressureActivated(node=node, level=now[0].level, signals=now, why=why))
        return
    eased = tuple(each for each in signals if each.name in was)
    why = "; ".join(pressure.words(each) for each in eased)
    emit(events.BackpressureReleased(node=node, signals=eased, why=why))


def _levels(signals: Iterator[Signal]) -> dict[str, Level]:
    return {each.name: each.level for each in signals}
