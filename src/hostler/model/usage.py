"""How devices were used, hour by hour: rows as the core hands them out, and what is asked of and told from them.

Hours, days, weeks (from Monday on) and months are those of UTC. Unknown is `None`, never 0.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

from hostler.model.record import record
from hostler.model.work import DeviceKind, WorkKind

HOUR_S = 3600
DAY_S = 24 * HOUR_S
IDLE = "idle"
"""What is told in the place of a kind of work where a device had none."""
MONDAY_H = 72
"""Hours by which the week of Unix time 0, a Thursday, had begun."""
DAY_H, WEEK_H = 24, 168
MARCH_OF_YEAR_0 = 719_468
"""Days from 1 March of the year 0 to 1970."""
MONTH_DAYS = 30.436875
"""The mean over 400 years."""


class Period(StrEnum):
    """What hours are summed up to."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


USUAL_S: Mapping[Period, int] = {
    Period.HOUR: DAY_S,
    Period.DAY: 30 * DAY_S,
    Period.WEEK: 26 * 7 * DAY_S,
    Period.MONTH: 365 * DAY_S,
}
"""How far back is looked where nobody says."""

Dimension: TypeAlias = Literal["node", "device", "model", "pool", "provider", "work"]
DIMENSIONS: tuple[Dimension, ...] = ("node", "device", "model", "pool", "provider", "work")
"""What rows are told apart by."""


@record
class HourRow:
    """One device in one hour, as far as it had work of one kind, or none. Written once, when the hour is over."""

    hour: int
    """Unix time // 3600."""
    node: str
    device: str
    kind: DeviceKind
    model: str | None
    pool: str | None
    """The node, where that is a part of a cluster."""
    provider: str | None
    price_per_h: float | None
    """Of the device, in the currency of the fleet file, as it was at the end of the hour; `None`: unknown."""
    work: WorkKind | None
    """`None`: it had nothing, and its node was linked."""
    device_s: float
    """Device seconds; of a device that is shared, each has its part."""
    up_s: float
    """Those of them in which the node was linked."""
    measured_s: float = 0.0
    """Those in which its utilisation was told."""
    busy_s: float = 0.0
    """The integral of that: the mean is `busy_s / measured_s`."""
    done: int = 0
    """Jobs done there; of sweeps, chunks."""
    failed: int = 0
    """Attempts and chunks that failed there."""


@record
class UsageAsked:
    """What somebody wants to know."""

    per: Period = Period.DAY
    by: tuple[Dimension, ...] = ()
    since: float | None = None
    """The first period is the one that this is in; `None`: as long ago as is usual."""
    until: float | None = None
    """Periods that begin before this; `None`: up to the present one."""
    only: Mapping[Dimension, str] = field(default_factory=dict)
    """Only what is called so; of `work`, `idle` is one, too."""


@record
class UsageView:
    """How devices were used in one period: all of them, or those of one group. Device seconds are of all together."""

    begins: float
    ends: float
    """Of the present period, too, when it will be over."""
    of: Mapping[str, str | None]
    """What the group is called, by what was asked to be told apart; `None`: it is unknown, or there is none."""
    held_s: float
    """Device seconds with work on them, from when it was put there until the device was given back."""
    idle_s: float
    """Those with nothing on them, while their nodes were linked; of parts of clusters, none are told."""
    up_s: float
    """Those of both in which their nodes were linked: what is above that was held out of reach."""
    utilization: float | None
    """Mean of what drivers told, 0..1; `None`: they told nothing."""
    measured_s: float
    """Of how much time that is the mean."""
    cost: float | None
    """Of what was held, as far as its price is known; `None`: of none of it."""
    unpriced_s: float
    """The part of `held_s` whose price is unknown."""
    idle_cost: float | None
    """The same of `idle_s`."""
    done: int
    """Jobs done; of sweeps, chunks."""
    failed: int
    """Attempts and chunks that failed."""


class Totals(NamedTuple):
    """Sums of rows, in whole milliseconds as they are kept, so that they are the same in whatever order."""

    held_ms: int = 0
    idle_ms: int = 0
    up_ms: int = 0
    measured_ms: int = 0
    busy_ms: int = 0
    unpriced_ms: int = 0
    idle_unpriced_ms: int = 0
    cost: float = 0.0
    idle_cost: float = 0.0
    done: int = 0
    failed: int = 0

    def plus(self, other: Totals) -> Totals:
        """Both together."""
        return Totals._make(one + two for one, two in zip(self, other, strict=True))


def milliseconds(seconds: float) -> int:
    """Seconds as they are kept."""
    return round(seconds * 1000)


def totals_of(row: HourRow) -> Totals:
    """One row as sums."""
    device_ms, priced = milliseconds(row.device_s), row.price_per_h is not None
    cost = device_ms * (row.price_per_h or 0.0) / (1000 * HOUR_S)
    held = row.work is not None
    return Totals(
        held_ms=device_ms if held else 0,
        idle_ms=0 if held else device_ms,
        up_ms=milliseconds(row.up_s),
        measured_ms=milliseconds(row.measured_s),
        busy_ms=milliseconds(row.busy_s),
        unpriced_ms=device_ms if held and not priced else 0,
        idle_unpriced_ms=0 if held or priced else device_ms,
        cost=cost if held else 0.0,
        idle_cost=0.0 if held else cost,
        done=row.done,
        failed=row.failed,
    )


def view_of(per: Period, number: int, of: Mapping[str, str | None], sums: Totals) -> UsageView:
    """Sums of a period as people see them."""
    return UsageView(
        begins=begin_of(per, number),
        ends=begin_of(per, number + 1),
        of=of,
        held_s=sums.held_ms / 1000,
        idle_s=sums.idle_ms / 1000,
        up_s=sums.up_ms / 1000,
        utilization=sums.busy_ms / sums.measured_ms if sums.measured_ms else None,
        measured_s=sums.measured_ms / 1000,
        cost=None if sums.unpriced_ms and sums.unpriced_ms == sums.held_ms else sums.cost,
        unpriced_s=sums.unpriced_ms / 1000,
        idle_cost=None if sums.idle_unpriced_ms and sums.idle_unpriced_ms == sums.idle_ms else sums.idle_cost,
        done=sums.done,
        failed=sums.failed,
    )


def name_of(view: UsageView) -> str:
    """What a row is called, so that a page can begin behind it."""
    return json.dumps([view.begins, *view.of.values()])


def hour_of(at: float) -> int:
    """The hour that a time is in."""
    return int(at // HOUR_S)


def period_of(per: Period, hour: int) -> int:
    """The number of the period that an hour is in; later ones have greater numbers, without gaps."""
    match per:
        case Period.HOUR:
            return hour
        case Period.DAY:
            return hour // DAY_H
        case Period.WEEK:
            return (hour + MONDAY_H) // WEEK_H
    return _month_of(hour // DAY_H)


def first_hour(per: Period, number: int) -> int:
    """The hour that a period begins with."""
    match per:
        case Period.HOUR:
            return number
        case Period.DAY:
            return number * DAY_H
        case Period.WEEK:
            return number * WEEK_H - MONDAY_H
    return _first_day(number) * DAY_H


def begin_of(per: Period, number: int) -> float:
    """When a period begins, in Unix seconds."""
    return float(first_hour(per, number) * HOUR_S)


def _first_day(month: int) -> int:
    """Days from 1970 to the first of a month, `12 * year + month - 1`, of the Gregorian calendar.

    Years are taken from March on, so that a leap day is the last of its year and months have the same lengths in all.
    """
    year, since_march = divmod(month - 2, 12)
    leap_days = year // 4 - year // 100 + year // 400
    return 365 * year + leap_days + (153 * since_march + 2) // 5 - MARCH_OF_YEAR_0


def _month_of(day: int) -> int:
    """The month that a day is in: one that is guessed from the mean length of months is at most one off."""
    guess = int((day + MARCH_OF_YEAR_0) / MONTH_DAYS) + 2
    return max(month for month in range(guess - 1, guess + 2) if _first_day(month) <= day)


def group_of(by: tuple[Dimension, ...], row: HourRow) -> tuple[str | None, ...]:
    """What the group of a row is called."""
    named = (row.work or IDLE if each == "work" else getattr(row, each) for each in by)
    return tuple(None if each is None else str(each) for each in named)


def is_meant(only: Mapping[Dimension, str], row: HourRow) -> bool:
    """Whether a row is among those that are asked for."""
    return all(group_of((name,), row) == (value,) for name, value in only.items())
