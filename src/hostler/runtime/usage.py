"""How devices were used, for whoever asks: hours from the store, and those that are not written from the core."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from hostler.core import Core
from hostler.core.metering.rows import present
from hostler.model.errors import UsageError
from hostler.model.inputs import EndHour, Input
from hostler.model.usage import (
    HOUR_S,
    USUAL_S,
    HourRow,
    Period,
    Totals,
    UsageAsked,
    UsageView,
    first_hour,
    group_of,
    hour_of,
    is_meant,
    period_of,
    totals_of,
    view_of,
)
from hostler.runtime.clock import Clock
from hostler.runtime.loops import every
from hostler.runtime.past import PastJobs
from hostler.store import Journal
from hostler.store.usage import Found, drop_oldest, newest_hour, next_hour, sums

Group: TypeAlias = tuple[str | None, ...]
Place: TypeAlias = tuple[int, tuple[str, ...]]
"""Where a group of a period stands in the list: what has no name, first."""

WINDOW = 64
"""Periods that are summed up at once, where each may have many groups, or is a case of its own."""
STEPS = 48
"""Hours that are dropped at one look, each in a transaction of its own: the writer waits for none of them long."""
LOOK_S, TURN_S = 60.0, 60.0
YEAR_S = 366 * 86_400.0


class Hours:
    """Ends hours, so that they are written though nothing happens; drops those too old by the newest of them."""

    def __init__(self, core: Core, journal: Journal, now: Callable[[], float], tell: Any, keep_s: float) -> None:
        self._core = core
        self._journal = journal
        self._now = now
        self._tell: Callable[[Input], Any] = tell
        self._keep_s = keep_s

    async def run(self, clock: Clock, on_failure: Callable[[str, str], None]) -> None:
        """Look now and then, until cancelled."""
        await every(LOOK_S, "hours", self.look, clock=clock, timeout_s=TURN_S, on_failure=on_failure)

    async def look(self) -> None:
        """One turn of it."""
        now, hour = self._now(), self._core.state.metering.hour
        if hour is not None and hour < hour_of(now):
            await self._tell(EndHour())
        for _ in range(STEPS):
            if not await asyncio.to_thread(self._drop, now):
                return

    def _drop(self, now: float) -> bool:
        with self._journal.catalogue() as connection:
            newest = newest_hour(connection)
            if newest is None:
                return False
            # A clock that is far ahead would have all of it dropped: what was written says how far time has come.
            before = hour_of(min(now, (newest + 1) * HOUR_S) - self._keep_s)
            if next_hour(connection, range(before)) is None:
                return False
        with self._journal.marking() as connection:
            return drop_oldest(connection, before)


class Usage:
    """Answers how devices were used, whether this controller leads or follows."""

    def __init__(self, core: Core, journal: Journal, past: PastJobs, clock: Clock) -> None:
        self._core = core
        self._journal = journal
        self._past = past
        self._clock = clock

    async def page(self, asked: UsageAsked, limit: int, after: Sequence[str] = ()) -> Sequence[UsageView]:
        """Groups of periods, the oldest first, at most `limit`, behind the last of the rows that are called `after`.

        Raises `UsageError`, `StoreError`.
        """
        state, index = self._core.state, self._core.index
        hours = hours_of(asked, max(self._clock.now(), index.now))
        # What is in memory now is not in the store, and what is not in memory is there, once this entry is written.
        first, unwritten = present(state, index, self._clock.now())
        await self._past.settled(state.metering.seq)
        stored = range(hours.start, min(hours.stop, first))

        def found(window: range) -> list[Found]:
            with self._journal.catalogue() as connection:
                return sums(connection, asked.per, asked.by, window, asked.only)

        def following(window: range) -> int | None:
            with self._journal.catalogue() as connection:
                return next_hour(connection, window)

        rows = [row for row in unwritten if row.hour in hours]
        return await asyncio.to_thread(gathered, asked, hours, rows, limit, after, (stored, found, following))


Stored: TypeAlias = tuple[range, Callable[[range], list[Found]], Callable[[range], int | None]]
"""Hours that the store has; sums of some of them; the first of some that it has rows of."""


def gathered(
    asked: UsageAsked, hours: range, unwritten: Sequence[HourRow], limit: int, after: Sequence[str], stored: Stored
) -> list[UsageView]:
    """A page of what is asked for, of rows at hand and of those that are stored."""
    behind = _place_of(asked, after)
    here = hours if behind is None else range(max(hours.start, first_hour(asked.per, behind[0])), hours.stop)
    made: list[tuple[Place, UsageView]] = []
    size = 1 if asked.by or asked.per is Period.MONTH else limit
    while here and len(made) < limit:
        here = _from_first(here, unwritten, stored)
        window = _window(asked, here, size)
        some = _views(asked, window, unwritten, stored)
        made += sorted((each for each in some if behind is None or each[0] > behind), key=lambda each: each[0])
        here, size = range(window.stop, here.stop), min(size * 2, WINDOW)
    return [view for _, view in made[:limit]]


def hours_of(asked: UsageAsked, now: float) -> range:
    """The hours of the periods that are asked for, whole ones all. Raises `UsageError`."""
    until = now if asked.until is None else asked.until
    since = min(until, now) - USUAL_S[asked.per] if asked.since is None else asked.since
    if not since < until:
        raise UsageError(f"`since` ({_time(since)}) is not before `until` ({_time(until)})")
    # A time that a period begins with is the end of the one before.
    first, last = period_of(asked.per, hour_of(max(since, 0.0))), period_of(asked.per, math.ceil(until / HOUR_S) - 1)
    return range(max(first_hour(asked.per, first), 0), first_hour(asked.per, last + 1))


def _place_of(asked: UsageAsked, after: Sequence[str]) -> Place | None:
    """Where a page begins: behind what `model.usage.name_of` called so."""
    if not after:
        return None
    try:
        begins, *group = json.loads(after[-1])
        number = period_of(asked.per, hour_of(begins))
    except (ValueError, TypeError, OverflowError, OSError, RecursionError) as error:
        raise UsageError("`after` is no cursor of this list; begin again without it") from error
    if len(group) != len(asked.by) or not all(each is None or isinstance(each, str) for each in group):
        raise UsageError("`after` is a cursor of another list; begin again without it")
    return number, _sortable(tuple(group))


def _sortable(group: Group) -> tuple[str, ...]:
    return tuple("" if each is None else f"={each}" for each in group)


def _from_first(here: range, unwritten: Sequence[HourRow], stored: Stored) -> range:
    """The same without what nothing is known of at its begin."""
    kept, _, following = stored
    some = range(max(here.start, kept.start), min(here.stop, kept.stop))
    known = [row.hour for row in unwritten if row.hour in here]
    first = following(some) if some else None
    known += [] if first is None else [first]
    return range(min(known, default=here.stop), here.stop)


def _window(asked: UsageAsked, here: range, size: int) -> range:
    """So many periods of it, the first of them from its begin."""
    if not here:
        return here
    first = period_of(asked.per, here.start)
    begin = max(first_hour(asked.per, first), 0)
    return range(begin, min(first_hour(asked.per, first + size), here.stop))


def _views(
    asked: UsageAsked, window: range, unwritten: Sequence[HourRow], stored: Stored
) -> Iterator[tuple[Place, UsageView]]:
    kept, found, _ = stored
    made: dict[tuple[int, Group], Totals] = {}
    some = range(max(window.start, kept.start), min(window.stop, kept.stop))
    for period, group, each in found(some) if some else ():
        made[period, group] = each
    for row in unwritten:
        if row.hour in window and is_meant(asked.only, row):
            key = period_of(asked.per, row.hour), group_of(asked.by, row)
            made[key] = made.get(key, Totals()).plus(totals_of(row))
    for (period, group), each in made.items():
        of: dict[str, str | None] = dict(zip(asked.by, group, strict=True))
        yield (period, _sortable(group)), view_of(asked.per, period, of, each)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
