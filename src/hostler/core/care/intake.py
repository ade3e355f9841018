"""One node tells how it is: noted, then judged and steered by. What contradicts itself is unknown."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hostler.core import foreign_use
from hostler.core.care import decide, steer
from hostler.core.care.decide import Emit
from hostler.core.care.state import Heard, HeardDevice
from hostler.core.index import Index
from hostler.core.state import State
from hostler.model.errors import NotFound
from hostler.model.inputs import Telemetry
from hostler.model.telemetry import DeviceTelemetry
from hostler.policy import pressure

NOTHING = DeviceTelemetry()
ROOMIER_GB = 0.1
"""More free space than so much is worth another look."""


def telemetry(state: State, index: Index, given: Telemetry, emit: Emit) -> None:
    """Take what a node measured. Raises `NotFound` for a node that is not in the fleet."""
    if given.node not in state.nodes:
        raise NotFound(f"there is no node {given.node!r} in the fleet; `hostler node list` lists them")
    heard = index.telemetry.setdefault(given.node, Heard())
    if heard.measured_at == given.at:
        return
    heard.measured_at, heard.at = given.at, index.now
    _note(state, index, heard, given)
    _reconsider_if_roomier(state, index, given.node, heard)
    decide.judge_node(state, index, given.node, emit)
    for spec in state.nodes[given.node].spec.devices:
        device, told = state.devices[spec.id], given.devices.get(spec.id)
        known = _heard_device(index, heard, spec.id)
        foreign_use.heard(state, index, device, known, told, emit)
        steer.steer(state, index, device, known, told or NOTHING, emit)


def _note(state: State, index: Index, heard: Heard, given: Telemetry) -> None:
    targets, free_gb = state.rules.targets, _amount(given.disk_free_gb)
    if free_gb is not None and pressure.used_share(given.disk_total_gb, free_gb) is not None:
        before, heard.free_gb = heard.free_gb, pressure.with_reading(heard.free_gb, index.now, free_gb, targets)
        if heard.free_gb != before:
            heard.full_in_s = pressure.full_in_s(heard.free_gb)
    for name, value in _values(heard, given):
        if value is not None:
            heard.known[name] = (value, index.now)


def _reconsider_if_roomier(state: State, index: Index, node: str, heard: Heard) -> None:
    """What waits for room on its disk is looked at again, once there is some more."""
    free_gb, _ = heard.known.get(pressure.DISK_FREE, (None, 0.0))
    if free_gb is None:
        return
    room_gb = free_gb - index.nodes[node].disk_gb
    if heard.room_gb is not None and room_gb >= heard.room_gb + ROOMIER_GB:
        index.fresh.update(dict.fromkeys(each for each in index.devices_at.get(node, ()) if each in index.open))
    if heard.room_gb is None or abs(room_gb - heard.room_gb) >= ROOMIER_GB:
        heard.room_gb = room_gb


def _values(heard: Heard, given: Telemetry) -> Iterator[tuple[str, float | None]]:
    disk_gb, free_gb = _amount(given.disk_total_gb), _amount(given.disk_free_gb)
    disk = pressure.used_share(disk_gb, free_gb)
    yield pressure.MEMORY, pressure.used_share(_amount(given.memory_total_gb), _amount(given.memory_free_gb))
    yield pressure.LOAD, _amount(given.load)
    yield pressure.DISK, disk
    yield pressure.DISK_FREE, free_gb if disk is not None or given.disk_total_gb is None else None
    yield pressure.DISK_FILL, None if disk is None else heard.full_in_s
    yield pressure.BACKLOG, _amount(given.backlog_s)


def _amount(value: float | None) -> float | None:
    """A measured amount; what cannot be one is unknown."""
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _heard_device(index: Index, heard: Heard, name: str) -> HeardDevice:
    if name not in heard.devices:
        heard.devices[name] = HeardDevice(told_at=index.now, known_at=index.now)
    return heard.devices[name]
