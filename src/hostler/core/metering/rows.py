"""Rows of an hour: what was counted of it, with what each device has had since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from hostler.core.metering.occupants import occupants
from hostler.core.metering.state import Measured, Meter, Sum
from hostler.model.fleet import Link
from hostler.model.usage import HOUR_S, IDLE, HourRow, hour_of
from hostler.model.work import BY_NAME
from hostler.policy.cost import device_price

if TYPE_CHECKING:
    from hostler.core.index import Index
    from hostler.core.state import Device, State

MOST_HOURS = 48
"""After so many hours without an event nobody knows what devices had: of more there are no rows."""
NOTHING: Mapping[str, Measured] = {}


def present(state: State, index: Index, now: float) -> tuple[int, list[HourRow]]:
    """Rows of the hours that are not over, or whose end no event has told of yet, up to `now`; and the first of them.

    What is before that hour is in the store, or on its way there.
    """
    metering, now = state.metering, max(now, index.now)
    first = hour_of(now) if metering.hour is None else metering.hour
    if metering.hour is None:
        return first, []
    found = list(rows(state, index, metering.hour, metering.meters, min(now, float((first + 1) * HOUR_S))))
    for hour in range(first + 1, min(hour_of(now), first + MOST_HOURS) + 1):
        found += rows(state, index, hour, {}, min(now, float((hour + 1) * HOUR_S)))
    return first, found


def rows(
    state: State, index: Index, hour: int, meters: Mapping[str, Meter], to: float, *, dark: bool = False
) -> Iterator[HourRow]:
    """One hour up to `to`; `dark`: nobody knows whether nodes were linked since the last event."""
    begun_at = max(float(hour * HOUR_S), state.metering.begun_at)
    for name, device in state.devices.items():
        meter = meters.get(name) or Meter(at=begun_at)
        sums = {work: replace(each) for work, each in meter.sums.items()}
        count(state, index, device, sums, to - meter.at, dark=dark)
        told = index.metered.told.get(name, NOTHING) if hour == state.metering.hour else NOTHING
        for work, each in sums.items():
            if each.device_s > 0 or each.done or each.failed:
                yield _row(state, device, hour, work, each, told.get(work) or Measured())


def count(
    state: State, index: Index, device: Device, sums: dict[str, Sum], seconds: float, *, dark: bool = False
) -> None:
    """Add to its sums what a device has had for so many seconds, and has still."""
    if seconds <= 0:
        return
    node = state.nodes[device.spec.node]
    up = node.link is Link.UP and not dark and device.spec.id in index.places
    parts = occupants(state, device)
    if not parts and up and node.spec.pool is None:
        parts = {IDLE: 1.0}
    for work, part in parts.items():
        each = sums.setdefault(work, Sum())
        each.device_s += seconds * part
        each.up_s += seconds * part if up else 0.0


def _row(state: State, device: Device, hour: int, work: str, each: Sum, told: Measured) -> HourRow:
    spec, node = device.spec, state.nodes[device.spec.node].spec
    return HourRow(
        hour=hour,
        node=spec.node,
        device=spec.id,
        kind=spec.kind,
        model=spec.model,
        pool=None if node.pool is None else node.name,
        provider=node.provider,
        price_per_h=device_price(node, spec),
        work=BY_NAME.get(work),
        device_s=each.device_s,
        up_s=each.up_s,
        measured_s=told.measured_s,
        busy_s=told.busy_s,
        done=each.done,
        failed=each.failed,
    )
