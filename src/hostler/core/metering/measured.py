"""How busy drivers say that devices were: the integral of what they told, while they told it. Volatile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostler.core.metering.occupants import occupants
from hostler.core.metering.state import Measured
from hostler.model.usage import HOUR_S, IDLE, hour_of

if TYPE_CHECKING:
    from hostler.core.index import Index
    from hostler.core.state import Device, State


def measure(state: State, index: Index, device: Device, utilization: float | None, since_s: float) -> None:
    """A driver tells a utilisation (0..1) of the `since_s` seconds that are over now; what is older than telemetry may
    be is not known."""
    hour = state.metering.hour
    if utilization is None or hour is None or hour != hour_of(index.now):
        return  # the hour before is not written yet: these seconds are of neither
    told_s = min(since_s, state.rules.targets.telemetry_max_age_s, index.now - hour * HOUR_S)
    kinds = index.metered.told.setdefault(device.spec.id, {})
    for work, part in (occupants(state, device) or {IDLE: 1.0}).items():
        each = kinds.setdefault(work, Measured())
        each.measured_s += told_s * part
        each.busy_s += told_s * part * utilization
