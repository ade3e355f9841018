"""How big is the next chunk? As long as the target lasts at the measured speed, and shorter towards the end.

Guided self-scheduling (Polychronopoulos and Kuck, 1987) on measured speeds: no device is ever given more than its
share of half of what is left, so that all devices end together; no chunk is so short that starting it costs more
than searching it.
"""

from __future__ import annotations

from hostler.model.record import record

ALPHA = 0.3
"""Weight of the newest sample in the moving average of speed."""
MAX_CORRECTION = 8.0
"""One sample moves the estimate by at most this factor: a hiccup must not make a giant or a dwarf."""
PROBE_SHARE = 1 / 4096
"""A device of unknown speed is given this share of the whole sweep."""
PROBE_MAX = 1 << 16
GROWTH = 8.0
"""A chunk is at most this many times longer than the longest its device has finished."""
SHORTEST_S = 0.1
"""Towards the end chunks do not get shorter than this."""
TAIL = 2.0
LEAD_S = 0.5
"""Work that a device has queued beyond the chunk at work, so that it never waits for the controller."""
LEAD_CHUNKS = 64


@record
class Speed:
    """Measured speed of one device at one kernel: items per second, and the longest chunk finished so far."""

    per_s: float
    longest: int
    samples: int


@record
class Bounds:
    """What the owner of a sweep asked for."""

    target_s: float
    floor: int
    ceiling: int | None


def learn(speed: Speed | None, items: int, seconds: float) -> Speed:
    """The speed after one more chunk: `items` in `seconds`."""
    sample = items / max(seconds, 1e-6)
    if speed is None:
        return Speed(per_s=sample, longest=items, samples=1)
    bounded = min(max(sample, speed.per_s / MAX_CORRECTION), speed.per_s * MAX_CORRECTION)
    return Speed(
        per_s=(1 - ALPHA) * speed.per_s + ALPHA * bounded,
        longest=max(speed.longest, items),
        samples=speed.samples + 1,
    )


def length(bounds: Bounds, total: int, left: int, speed: Speed | None, fleet_per_s: float) -> int:
    """Items of the next chunk: at least 1, at most `left`.

    `total` is the size of the sweep, `left` what nobody has yet, `speed` that of the device asking (`None`: never
    measured), `fleet_per_s` the summed speed of all devices at work on the sweep.
    """
    wanted = _probe(total) if speed is None else _measured(bounds, left, speed, fleet_per_s)
    wanted = max(wanted, bounds.floor)
    if bounds.ceiling is not None:
        wanted = min(wanted, bounds.ceiling)
    return max(1, min(wanted, left))


def wants_more(queued: int, queued_s: float | None) -> bool:
    """Whether a device that holds `queued` chunks, expected to last `queued_s`, should be given another.

    Two at least (one at work, one to go on with); more only where chunks are so short that the round trip shows.
    """
    if queued < 2:
        return True
    return queued_s is not None and queued_s < LEAD_S and queued < LEAD_CHUNKS


def _probe(total: int) -> int:
    return max(1, min(int(total * PROBE_SHARE), PROBE_MAX))


def _measured(bounds: Bounds, left: int, speed: Speed, fleet_per_s: float) -> int:
    by_target = speed.per_s * bounds.target_s
    by_growth = speed.longest * GROWTH
    share = speed.per_s / max(fleet_per_s, speed.per_s)
    by_tail = max(left * share / TAIL, speed.per_s * SHORTEST_S)
    return int(min(by_target, by_growth, by_tail))
