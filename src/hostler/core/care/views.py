"""Pressures and lanes for people: what holds now, since when, and when it expires."""

from __future__ import annotations

from typing import TypedDict

from hostler.core.care import effects
from hostler.core.care.decide import FACTS
from hostler.core.care.state import Pressed
from hostler.core.index import Index
from hostler.core.state import State
from hostler.model.events import EXTERNAL_NAMES, BackpressureActivated
from hostler.model.fleet import DeviceSpec
from hostler.model.telemetry import Level
from hostler.model.views import PressureView
from hostler.policy import pressure


class DeviceFacts(TypedDict):
    """Those fields of a `DeviceView` that come from telemetry."""

    lanes: int
    utilization: float | None
    told_at: float | None
    vram_used_gb: float | None
    temperature_c: float | None


def node_pressures(state: State, index: Index, node: str) -> tuple[PressureView, ...]:
    """What presses on a node, the worst first."""
    pressed = state.care.nodes.get(node, {})
    return tuple(_view(each, _expires_at(state, index, node, name)) for name, each in pressed.items())


def queue_pressures(state: State) -> tuple[PressureView, ...]:
    """What presses on the queue."""
    return tuple(_view(each, None) for each in state.care.queue.values())


def device_facts(state: State, index: Index, device: DeviceSpec) -> DeviceFacts:
    """A device's lanes, and what its driver told; what is too old is unknown."""
    node = index.telemetry.get(device.node)
    heard = None if node is None else node.devices.get(device.id)
    fresh = heard is not None and index.now - heard.told_at <= state.rules.targets.telemetry_max_age_s
    return DeviceFacts(
        lanes=effects.lanes(state, device.id),
        utilization=heard.utilization if heard is not None and fresh else None,
        told_at=None if heard is None else heard.told_at,
        vram_used_gb=heard.vram_used_gb if heard is not None and fresh else None,
        temperature_c=heard.temperature_c if heard is not None and fresh else None,
    )


def _view(pressed: Pressed, expires_at: float | None) -> PressureView:
    signal = pressed.signal
    critical = signal.level is Level.CRITICAL
    return PressureView(
        signal=signal.name,
        event=EXTERNAL_NAMES[FACTS.get(signal.name, BackpressureActivated)],
        level=signal.level.name.lower(),
        value=signal.value,
        limit=signal.limit,
        unit=pressure.UNITS[signal.name],
        since=pressed.since,
        expires_at=expires_at,
        holds_back=tuple(sorted(pressure.HELD_BACK[signal.name])) if critical else (),
    )


def _expires_at(state: State, index: Index, node: str, signal: str) -> float:
    targets = state.rules.targets
    heard = index.telemetry.get(node)
    at = index.now if heard is None or signal not in heard.known else heard.known[signal][1]
    return at + targets.telemetry_max_age_s + targets.unknown_hold_s
