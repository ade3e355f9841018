"""What the pressures and the lanes mean for work: the questions of whoever gives work to devices."""

from __future__ import annotations

from collections.abc import Iterable

from hostler.core.care.state import Pressed
from hostler.core.index import Index
from hostler.core.state import Device, State
from hostler.model.telemetry import Signal
from hostler.model.work import WorkKind
from hostler.policy import pressure
from hostler.policy.fit import Gate, Refusal


def lanes(state: State, device: str) -> int:
    """How many self-play jobs may share the device; one as long as nobody knows better."""
    return min(decided_lanes(state, state.devices[device]), state.rules.targets.lanes_max)


def decided_lanes(state: State, device: Device) -> int:
    """How many were decided on last, whatever the targets say since then."""
    return state.care.lanes.get(device.spec.node, {}).get(device.spec.id, 1)


def blocked(state: State, node: str, work: WorkKind) -> Refusal | None:
    """The pressure that keeps new work of this kind off the node; `None` where it may start. What runs goes on."""
    pressed = state.care.nodes.get(node)
    if pressed is None:
        return None
    signal = pressure.holds_back(signals(pressed.values()), work)
    return None if signal is None else Refusal(gate=Gate.PRESSURE, why=f"{node}: {pressure.words(signal)}")


def disk_free_gb(state: State, index: Index, node: str) -> float | None:
    """Free space of the node, as it told of late; `None`: unknown."""
    heard = index.telemetry.get(node)
    value, at = (None, 0.0) if heard is None else heard.known.get(pressure.DISK_FREE, (None, 0.0))
    return value if index.now - at <= state.rules.targets.telemetry_max_age_s else None


def queue_blocked(state: State) -> str | None:
    """Why no self-play should be queued; `None` where it may. Whatever somebody asks for is queued all the same."""
    signal = pressure.holds_back(signals(state.care.queue.values()), WorkKind.SELFPLAY)
    return None if signal is None else pressure.words(signal)


def signals(pressed: Iterable[Pressed]) -> Iterable[Signal]:
    """The signals that press, in their order."""
    return (each.signal for each in pressed)
