"""More or less concurrency on this device?

One PID controller per device sets how many self-play jobs may share it, so that its utilisation stays in the band of
the targets. Utilisation is a share (0..1), the output is a number of jobs ("lanes"), and the gains are per second of
that: at 0.01 a device 0.1 below its band gets one more job after some ten minutes. What a controller remembers is a
value, so that every device has its own and asking changes nothing. It begins anew at each whole number of lanes: where
one is too few and two are too many, it changes its mind a few times an hour and no more often.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from simple_pid import PID

from hostler.model.record import record
from hostler.model.rules import Targets

LEAN = 0.6
"""How far the output must be off the number of lanes to change it: more than half, so that noise does not."""

Tuning: TypeAlias = tuple[float, float, float, float, float, int]


@record
class Controller:
    """What the controller of one device remembers between two samples."""

    lanes: int = 1
    output: float = 1.0
    """The number of lanes it would like; `lanes` follows it in whole steps."""
    integral: float = 1.0
    """Its part that adds up; it never leaves what can be ordered, so there is nothing to wind up."""
    last: float | None = None
    """The utilisation of the sample before; `None`: it is off, and begins where `lanes` is."""
    tuning: Tuning | None = None
    """The targets it was last run with."""


@record
class Watch:
    """How long a device has been idle without a gap in its readings."""

    since: float | None = None
    seen_at: float | None = None
    checked_at: float | None = None
    told: bool = False
    """Whether this spell was told already."""


def step(controller: Controller, utilization: float | None, dt_s: float, targets: Targets) -> tuple[Controller, int]:
    """The controller after one more sample, and how many lanes the device should have now, in 1..`lanes_max`.

    `dt_s` is the time since the sample before; of a longer gap than telemetry may be old no more than that counts. An
    unknown utilisation changes nothing; neither does one in the band, nor the first sample after a pause or after a
    change of the targets, but for a smaller `lanes_max`, which holds at once.
    """
    if utilization is None:
        return controller, _clamped(controller.lanes, targets)
    if controller.last is None or controller.tuning != _tuning(targets):
        taken_over = begun(controller.lanes, targets, last=utilization)
        return taken_over, taken_over.lanes
    if dt_s <= 0 or targets.gpu_min <= utilization <= targets.gpu_max:
        moved = replace(controller, last=utilization)
        return moved, moved.lanes
    moved = _moved(controller, utilization, min(dt_s, targets.telemetry_max_age_s), targets)
    return moved, moved.lanes


def paused(controller: Controller) -> Controller:
    """The controller of a device whose utilisation says nothing about its lanes now; it goes on from them later."""
    return Controller(lanes=controller.lanes, output=controller.lanes, integral=controller.lanes)


def begun(lanes: int, targets: Targets, last: float | None = None) -> Controller:
    """A controller that begins with so many lanes, as if it had always had them."""
    held = _clamped(lanes, targets)
    return Controller(lanes=held, output=held, integral=held, last=last, tuning=_tuning(targets))


def watched(watch: Watch, utilization: float | None, now: float, targets: Targets) -> Watch:
    """What is known of a device's idleness after one more reading. No reading is not idle, nor is a gap in them."""
    if utilization is None or utilization >= targets.idle_below:
        return Watch()
    gap = watch.seen_at is None or now - watch.seen_at > targets.telemetry_max_age_s
    if gap or watch.since is None:
        return Watch(since=now, seen_at=now)
    return replace(watch, seen_at=now)


def idle_s(watch: Watch, now: float, targets: Targets) -> float | None:
    """For how long the device has been idle, where that is long enough and it is time to look; otherwise `None`."""
    if watch.since is None or watch.told or now - watch.since < targets.idle_after_s:
        return None
    if watch.checked_at is not None and now - watch.checked_at < targets.idle_check_s:
        return None
    return now - watch.since


def checked(watch: Watch, now: float, *, told: bool) -> Watch:
    """The watch after a look at the device; a spell that was told is not told again."""
    return replace(watch, checked_at=now, told=told)


def _moved(controller: Controller, utilization: float, dt_s: float, targets: Targets) -> Controller:
    pid = _pid(controller, targets)
    output = pid(utilization, dt=dt_s)
    assert output is not None, "a controller that is on answers"
    if abs(output - controller.lanes) >= LEAN and round(output) != controller.lanes:
        return begun(round(output), targets, last=utilization)
    return replace(controller, output=output, integral=pid.components[1], last=utilization)


def _pid(controller: Controller, targets: Targets) -> PID:
    """The library's controller as it was after the sample before."""
    assert controller.last is not None, "a controller that is off has no sample before"
    pid = PID(
        setpoint=(targets.gpu_min + targets.gpu_max) / 2,
        sample_time=None,
        output_limits=(1, targets.lanes_max),
        auto_mode=False,
        error_map=lambda error: _beyond(error, (targets.gpu_max - targets.gpu_min) / 2),
        time_fn=lambda: 0.0,  # it is told how much time has passed
    )
    pid.set_auto_mode(True, last_output=controller.integral)
    pid.tunings = (0.0, 0.0, 0.0)  # shown the sample before, it has a difference to go by, and nothing adds up twice
    pid(controller.last, dt=1.0)
    pid.tunings = (targets.pid_kp, targets.pid_ki, targets.pid_kd)
    return pid


def _beyond(error: float, half_band: float) -> float:
    """The part of an error that lies outside the band."""
    return max(error - half_band, 0.0) + min(error + half_band, 0.0)


def _clamped(lanes: int, targets: Targets) -> int:
    return max(1, min(lanes, targets.lanes_max))


def _tuning(targets: Targets) -> Tuning:
    return (
        targets.pid_kp,
        targets.pid_ki,
        targets.pid_kd,
        targets.gpu_min,
        targets.gpu_max,
        targets.lanes_max,
    )
