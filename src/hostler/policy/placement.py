"""Which work on which device, now?

The first version answers for one device at a time: the first script in rank order that fits, or the sweep that has
had the least device time. At one priority a script goes before a sweep: it ends, a sweep takes what is left over.
Self-play never ends either, so the two share the devices evenly.
"""

from __future__ import annotations

from hostler.model.record import record

LEAD_S = 0.5
"""Scripts that are over this soon are queued on a device ahead of time, so that it never waits for the controller."""
LEAD_ATTEMPTS = 32


SLICE_S = 60.0
"""How long self-play waits at least for a device that a sweep holds, when it holds none at all."""


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


@record
class Contest:
    """Self-play against sweeps of the same priority for one device; `waited_s` since either last had one to itself.

    For self-play that is since it got or left a device, for sweeps since one got a chunk.
    """

    selfplay_devices: int
    sweep_devices: int
    holds_chunks: bool
    """Whether the device is at a sweep now."""
    selfplay_waited_s: float
    selfplay_turn_s: float
    """How long self-play had the device that it left last."""
    sweep_waited_s: float


def selfplay_first(contest: Contest) -> bool:
    """Whether self-play gets the device: the side with fewer devices, or whoever waited longer where they are even.

    A device at a sweep changes sides only if that makes the shares more even, or if self-play has had none for as long
    as its last turn was.
    """
    if contest.holds_chunks:
        turn_s = max(contest.selfplay_turn_s, SLICE_S)
        starved = contest.selfplay_devices == 0 and contest.selfplay_waited_s > turn_s
        return starved or contest.selfplay_devices + 1 <= contest.sweep_devices - 1
    if contest.selfplay_devices != contest.sweep_devices:
        return contest.selfplay_devices < contest.sweep_devices
    return contest.selfplay_waited_s >= contest.sweep_waited_s


def script_first(script_priority: int | None, sweep_priority: int | None) -> bool:
    """Whether the best script goes before the best sweep; `None` where there is none."""
    if script_priority is None:
        return False
    return sweep_priority is None or script_priority >= sweep_priority
