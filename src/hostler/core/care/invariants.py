"""What must always be true of lanes and pressures."""

from __future__ import annotations

from collections.abc import Iterator

from hostler.core.index import Index
from hostler.core.state import State
from hostler.model.telemetry import Level


def care_faults(state: State, index: Index) -> Iterator[str]:
    """Everything that is wrong with them, in words."""
    care = state.care
    for node, noted in care.lanes.items():
        if not noted or any(state.devices[name].spec.node != node or lanes < 2 for name, lanes in noted.items()):
            yield f"{node} has these lanes noted: {noted}; one is what every device has"
    for place, pressed in (*care.nodes.items(), ("the queue", care.queue)):
        if any(each.signal.level is Level.NONE or name != each.signal.name for name, each in pressed.items()):
            yield f"what presses on {place} does not: {pressed}"
    if not all(care.nodes.values()) or care.nodes.keys() - state.nodes.keys():
        yield f"nothing presses on some of these, or they are unknown: {sorted(care.nodes)}"
    for node in care.lanes.keys() | care.nodes.keys():
        if node not in index.telemetry or not index.telemetry[node].armed:
            yield f"what was decided on the telemetry of {node} would never expire"
