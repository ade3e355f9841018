"""Which work on which device, now?

The first version answers for one device at a time: the first script in rank order that fits, or the sweep that has
had the least device time. At one priority a script goes before a sweep: it ends, a sweep takes what is left over.
"""

from __future__ import annotations

from hostler.model.record import record

LEAD_S = 0.5
"""Scripts that are over this soon are queued on a device ahead of time, so that it never waits for the controller."""
LEAD_ATTEMPTS = 32


@record
class Occupied:
    """What a device has been given: numbers, and the seconds they will last at most (`None`: unknown)."""

    attempts: int
    attempts_s: float | None
    chunks: int
    chunks_s: float | None


def takes_attempt(device: Occupied, predicted_s: float | None) -> bool:
    """Whether the device should be given one more script, expected to last `predicted_s` at most.

    Chunks do not stand in its way: the device turns to the script at the next chunk border.
    """
    if device.attempts == 0:
        return True
    if device.attempts_s is None or predicted_s is None or device.attempts >= LEAD_ATTEMPTS:
        return False
    return device.attempts_s + predicted_s < LEAD_S


def takes_chunks(device: Occupied) -> bool:
    """Whether the device may be given chunks: not while a script of unknown or long duration has it."""
    return device.attempts == 0 or (device.attempts_s is not None and device.attempts_s < LEAD_S)


def script_first(script_priority: int | None, sweep_priority: int | None) -> bool:
    """Whether the best script goes before the best sweep; `None` where there is none."""
    if script_priority is None:
        return False
    return sweep_priority is None or script_priority >= sweep_priority
