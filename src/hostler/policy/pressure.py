"""Must we slow down? The worst of named, bounded signals, with hysteresis and expiry; never an average.

Each signal has a ladder of limits and is judged alone, so that no other can hide it. It rises to a level where it
reaches the limit, and leaves it again only where it is better than the limit by a margin. What is unknown stays as it
was for `unknown_hold_s`, and then presses no more: a node that is silent is kept off by its link, not by a memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from operator import attrgetter
from statistics import median
from typing import NamedTuple, TypeAlias

from hostler.model.rules import Targets
from hostler.model.telemetry import Level, Signal
from hostler.model.work import SECONDS_MAX, WorkKind

MEMORY, LOAD, BACKLOG, QUEUE = "memory", "load", "backlog", "queue"
DISK, DISK_FREE, DISK_FILL = "disk", "disk free", "disk full in"
STORE = "controller's disk"
UNITS: Mapping[str, str] = {
    MEMORY: "share used",
    LOAD: "processes per core",
    DISK: "share used",
    STORE: "share used",
    DISK_FREE: "GB free",
    DISK_FILL: "s",
    BACKLOG: "s",
    QUEUE: "jobs",
}
"""The signals, and what their values are."""
SINKING = frozenset({DISK_FREE, DISK_FILL})
"""Signals that are worse the smaller they are."""
MARGINS: Mapping[str, float] = {
    MEMORY: 0.05,
    LOAD: 0.2,
    DISK: 0.03,
    STORE: 0.03,
    DISK_FREE: 0.2,
    DISK_FILL: 0.5,
    BACKLOG: 0.2,
    QUEUE: 0.1,
}
"""How much better than its limit a signal must be to leave its level, as a share of the limit."""

LIMITS: Mapping[str, Callable[[Targets], float]] = {
    MEMORY: attrgetter("memory_max"),
    LOAD: attrgetter("load_max"),
    DISK_FREE: attrgetter("disk_free_gb"),
    DISK_FILL: attrgetter("disk_full_within_s"),
    BACKLOG: attrgetter("backlog_max_s"),
    QUEUE: attrgetter("queue_max"),
}
"""From where on those are critical that have no other level."""

TREND_READINGS = 16
TREND_LEAST = 4
TREND_SPAN_S = 120.0
"""A forecast needs so many readings, over so long at least; more than the most are not kept."""

EVERYTHING = frozenset(WorkKind)
HELD_BACK: Mapping[str, frozenset[WorkKind]] = {
    MEMORY: EVERYTHING,
    LOAD: frozenset({WorkKind.SCRIPT}),
    DISK: frozenset({WorkKind.TRAINING, WorkKind.EXPORT}),
    STORE: frozenset(),
    DISK_FREE: EVERYTHING,
    DISK_FILL: frozenset({WorkKind.TRAINING, WorkKind.EXPORT}),
    BACKLOG: frozenset({WorkKind.SELFPLAY}),
    QUEUE: frozenset({WorkKind.SELFPLAY}),
}
"""Work that is not started on a node where a signal is critical; for the queue, that is not put into it unasked."""

Rung: TypeAlias = tuple[Level, float]
Point: TypeAlias = tuple[float, float]
"""Time in seconds, and what was measured then."""


class Reading(NamedTuple):
    """What is known of a signal: its newest known value, and how long ago that was."""

    name: str
    value: float | None
    """`None`: it was never known."""
    age_s: float = 0.0
    most: Level = Level.CRITICAL
    """The highest level that its value may mean."""


def judge(readings: Iterable[Reading], previous: Mapping[str, Level], targets: Targets) -> tuple[Signal, ...]:
    """A signal for each reading, at the level it has now; `previous` gives the levels it had, `none` where it is out.

    Values have the units of `UNITS`. A reading that is too old to count keeps the signal where it was, and says for how
    long it has been unknown; after `unknown_hold_s` of that the level is `none`. Raises `KeyError` for a name that
    is no signal's.
    """
    return tuple(_judged(reading, previous.get(reading.name, Level.NONE), targets) for reading in readings)


def is_calm(readings: Iterable[Reading], targets: Targets) -> bool:
    """Whether nothing presses, if nothing did before: as `judge` would say, for those who ask often."""
    return not any(
        reading.value is not None
        and reading.age_s <= targets.telemetry_max_age_s
        and _reaches(reading.name, reading.value, _ladder(reading.name, targets)[0][1])
        for reading in readings
    )


def worst(signals: Iterable[Signal]) -> Signal | None:
    """The signal of the highest level, and of these the one farthest beyond its limit; `None` where none presses."""
    pressing = [each for each in signals if each.level > Level.NONE]
    return max(pressing, key=_badness, default=None)


def pressing(signals: Iterable[Signal]) -> tuple[Signal, ...]:
    """Those that press, the worst first."""
    return tuple(sorted((each for each in signals if each.level > Level.NONE), key=_badness, reverse=True))


def holds_back(signals: Iterable[Signal], work: WorkKind) -> Signal | None:
    """The worst signal that keeps this kind of work from being started, or queued; `None` where it may be."""
    return worst(each for each in signals if each.level is Level.CRITICAL and work in HELD_BACK[each.name])


def used_share(total_gb: float | None, free_gb: float | None) -> float | None:
    """The share of something that is taken, 0..1; `None` where either is unknown or they contradict each other."""
    if total_gb is None or free_gb is None or not 0 <= free_gb <= total_gb or total_gb == 0:
        return None
    return 1 - free_gb / total_gb


def most_of_share(free_gb: float | None, targets: Targets) -> Level:
    """The highest level that the share taken of a disk may mean, with so much left."""
    return Level.WARNING if free_gb is not None and free_gb >= targets.disk_roomy_gb else Level.CRITICAL


def full_in_s(free_gb: Sequence[Point]) -> float | None:
    """Seconds until nothing is free, if it goes on as in these readings, oldest first; `None`: they are too few.

    The pace is the median of the slopes between all pairs (Theil, 1950; Sen, 1968), the slower one of the older and
    the newer half: a large file that was written at once does not go on. What does not fill up is full in
    `SECONDS_MAX`.
    """
    if len(free_gb) < TREND_LEAST or free_gb[-1][0] - free_gb[0][0] < TREND_SPAN_S:
        return None
    middle, left = len(free_gb) // 2, free_gb[-1][1]
    filling_per_s = min(_pace(free_gb[:middle]), _pace(free_gb[middle:]))
    return left / filling_per_s if filling_per_s * SECONDS_MAX > left else float(SECONDS_MAX)


def with_reading(free_gb: Sequence[Point], at: float, value: float, targets: Targets) -> tuple[Point, ...]:
    """The readings that a forecast goes by, after one more: so far apart that they cover a quarter of its horizon.

    Readings after a gap begin anew: what happened meanwhile is no pace.
    """
    apart_s = max(targets.disk_full_within_s / 4 / TREND_READINGS, 1.0)
    if not free_gb or at - free_gb[-1][0] > targets.telemetry_max_age_s + apart_s:
        return ((at, value),)
    if at - free_gb[-1][0] < apart_s:
        return tuple(free_gb)
    return (*free_gb[1 - TREND_READINGS :], (at, value))


def words(signal: Signal) -> str:
    """A signal for people: `disk 0.71 share used, critical from 0.7`."""
    value = "unknown" if signal.value is None else _figure(signal.value)
    bound = "below" if signal.name in SINKING else "from"
    stale = "" if signal.stale_s is None else f"; unknown for {signal.stale_s:.0f} s"
    limit = f"{signal.level.name.lower()} {bound} {_figure(signal.limit)}" if signal.level else "no pressure"
    return f"{signal.name} {value} {UNITS[signal.name]}, {limit}{stale}"


def _pace(free_gb: Sequence[Point]) -> float:
    """GB that are used up per second."""
    return -median((after[1] - before[1]) / (after[0] - before[0]) for before, after in combinations(free_gb, 2))


def _judged(reading: Reading, previous: Level, targets: Targets) -> Signal:
    rungs = _ladder(reading.name, targets)
    unknown_s = reading.age_s - targets.telemetry_max_age_s
    if reading.value is None:
        return Signal(name=reading.name, value=None, limit=rungs[0][1], level=Level.NONE)
    if unknown_s > 0:
        level = previous if unknown_s < targets.unknown_hold_s else Level.NONE
        stale_s: float | None = unknown_s
    else:
        level, stale_s = min(_level(reading.name, reading.value, rungs, previous), reading.most), None
    limit = dict(rungs).get(level, rungs[0][1])
    return Signal(name=reading.name, value=reading.value, limit=limit, level=level, stale_s=stale_s)


def _ladder(name: str, targets: Targets) -> tuple[Rung, ...]:
    """The levels of a signal and their limits, the lowest level first."""
    if name == DISK:
        steps = (targets.disk_warning, targets.disk_clean, targets.disk_critical)
        return tuple(zip((Level.WARNING, Level.CLEAN, Level.CRITICAL), steps, strict=True))
    if name == STORE:
        return (Level.CLEAN, min(targets.disk_store, targets.disk_critical)), (Level.CRITICAL, targets.disk_critical)
    return ((Level.CRITICAL, float(LIMITS[name](targets))),)


def _level(name: str, value: float, rungs: Iterable[Rung], previous: Level) -> Level:
    """The highest level whose limit is reached, or was and has not been left yet."""
    found = Level.NONE
    for level, limit in rungs:
        if _reaches(name, value, limit) or (level <= previous and not _leaves(name, value, limit)):
            found = level
    return found


def _reaches(name: str, value: float, limit: float) -> bool:
    return value <= limit if name in SINKING else value >= limit


def _leaves(name: str, value: float, limit: float) -> bool:
    margin = MARGINS[name]
    return value > limit * (1 + margin) if name in SINKING else value < limit * (1 - margin)


def _figure(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def _badness(signal: Signal) -> tuple[Level, float]:
    """How bad a signal is, to be compared with others': its level, and how many times beyond its limit it is."""
    if signal.value is None:
        return signal.level, 0.0
    over, under = (signal.limit, signal.value) if signal.name in SINKING else (signal.value, signal.limit)
    return signal.level, over / under if under > 0 else float("inf")
