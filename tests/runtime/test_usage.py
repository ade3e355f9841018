"""How devices were used, asked of a controller: the hours of its store, and the one that is not over; nothing twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from sqlalchemy import func, select

from hostler.model.errors import UsageError
from hostler.model.inputs import Trouble
from hostler.model.usage import (
    DIMENSIONS,
    HOUR_S,
    Dimension,
    HourRow,
    Period,
    UsageAsked,
    UsageView,
    begin_of,
    first_hour,
    hour_of,
    name_of,
    period_of,
    totals_of,
)
from hostler.model.work import JobState
from hostler.runtime import usage
from hostler.runtime.clock import SteadyClock
from hostler.runtime.controller import USUAL, Controller
from hostler.runtime.places import located
from hostler.runtime.standby import Standby
from hostler.runtime.statedir import StateDir
from hostler.runtime.term import adopt_identity
from hostler.runtime.usage import Stored, gathered, hours_of
from hostler.store import read_journal
from hostler.store.tables import usage_hours
from tests import postgres
from tests.backends.fake import FakeNode
from tests.patience import PATIENCE_S
from tests.runtime.conftest import script, submit, until, until_state
from tests.store.test_usage import BASE, many, row

pytestmark = pytest.mark.anyio

DAY_S = 86_400.0


class Moved(SteadyClock):
    """A clock that only a test sets forward, from the middle of an hour: no hour ends by itself meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_s = 0.0
        self._at = hour_of(super().now()) * HOUR_S + HOUR_S / 2

    def now(self) -> float:
        return self._at + self.ahead_s


@asynccontextmanager
async def keeping(
    directory: StateDir, node: FakeNode, clock: SteadyClock, keep_usage_s: float = 366 * DAY_S
) -> AsyncIterator[Controller]:
    async with Controller(directory, "test", {node.name: node}, clock, 10**9, keep_usage_s=keep_usage_s) as controller:
        yield controller


def held(views: Sequence[UsageView]) -> float:
    return sum(view.held_s for view in views)


def stored(directory: StateDir) -> list[tuple[int, int]]:
    """Hours in the store, and how many rows each has."""
    journal = read_journal(directory.place)
    with journal.catalogue() as connection:
        query = select(usage_hours.c.hour, func.count()).group_by(usage_hours.c.hour).order_by(usage_hours.c.hour)
        found = [(hour, count) for hour, count in connection.execute(query)]
    journal.close()
    return found


PER_HOUR = UsageAsked(per=Period.HOUR, by=("device", "work"))


async def test_hours_are_written_as_they_end_and_the_present_one_is_told(anywhere: StateDir) -> None:
    clock = Moved()
    async with keeping(anywhere, FakeNode(behave=lambda _: None), clock) as controller:
        await submit(controller, script("a"))
        await until_state(controller, "a", JobState.RUNNING)
        begun = clock.now()
        for _ in range(3):
            clock.ahead_s += HOUR_S
            await controller._hours.look()
        assert [hour for hour, _ in stored(anywhere)] == [hour_of(begun) + each for each in range(3)]
        views = await controller.usage(PER_HOUR, 100)
        assert held(views) == pytest.approx(clock.now() - begun, abs=5.0)
        assert views[-1].begins <= clock.now() < views[-1].ends
        (day,) = await controller.usage(replace(PER_HOUR, per=Period.MONTH, by=(), since=begun - 1), 1)
        assert day.held_s == pytest.approx(held(views), abs=5.0)
        assert await controller.usage(replace(PER_HOUR, only={"work": "rl"}), 100) == []
        with pytest.raises(UsageError, match="is not before"):
            await controller.usage(replace(PER_HOUR, since=clock.now() + DAY_S), 100)


async def test_after_a_restart_no_hour_is_there_twice_and_none_is_lost(anywhere: StateDir) -> None:
    clock = Moved()
    node = FakeNode(behave=lambda _: None)
    async with keeping(anywhere, node, clock) as controller:
        await submit(controller, script("a"))
        await until_state(controller, "a", JobState.RUNNING)
        begun = clock.now()
        clock.ahead_s += HOUR_S
        await controller._hours.look()
        clock.ahead_s += 2 * HOUR_S
    before = stored(anywhere)
    for _ in range(2):
        async with keeping(anywhere, node, clock) as controller:
            await controller._hours.look()
            assert held(await controller.usage(PER_HOUR, 100)) == pytest.approx(clock.now() - begun, abs=5.0)
            await controller.tell(Trouble(where="here", what="nothing"))
    assert [hour for hour, _ in stored(anywhere)] == [hour_of(begun) + each for each in range(3)]
    assert stored(anywhere)[: len(before)] == before


async def test_what_is_too_old_is_dropped_some_at_a_time(anywhere: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "STEPS", 2)
    clock = Moved()
    async with keeping(anywhere, FakeNode(behave=lambda _: None), clock, keep_usage_s=2 * HOUR_S) as controller:
        await submit(controller, script("a"))
        await until_state(controller, "a", JobState.RUNNING)
        first = hour_of(clock.now())
        clock.ahead_s += 6 * HOUR_S
        await controller._hours.look()
        assert [hour - first for hour, _ in stored(anywhere)] == [2, 3, 4, 5]
        await controller._hours.look()
        assert [hour - first for hour, _ in stored(anywhere)] == [4, 5]
        await controller._hours.look()
        assert [hour - first for hour, _ in stored(anywhere)] == [4, 5]


async def test_a_clock_that_jumps_far_ahead_drops_nothing(anywhere: StateDir) -> None:
    clock = Moved()
    async with keeping(anywhere, FakeNode(behave=lambda _: None), clock, keep_usage_s=100 * HOUR_S) as controller:
        await submit(controller, script("a"))
        await until_state(controller, "a", JobState.RUNNING)
        first = hour_of(clock.now())
        for _ in range(3):
            clock.ahead_s += HOUR_S
            await controller._hours.look()
        before = stored(anywhere)
        assert [hour - first for hour, _ in before] == [0, 1, 2]
        clock.ahead_s += 10 * 366 * DAY_S
        for _ in range(3):
            await controller._hours.look()
        assert stored(anywhere)[:3] == before


async def test_a_standby_tells_the_same_and_goes_on_with_it(
    tmp_path: Path, server: postgres.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.runtime.standby.monotonic", lambda: 0.0)  # no lease runs out on a busy machine
    address, clock = server.database(), Moved()
    one, other = StateDir(tmp_path / "a"), StateDir(tmp_path / "b")
    for each in (one, other):
        each.take()
        each.set_store(address)
        adopt_identity(each)
    node = FakeNode(behave=lambda _: None)
    places = located((), other.artifacts, "here")
    async with Standby(other, "test", clock, places=places, copies=USUAL, alert_origins={}) as waits:
        async with keeping(one, node, clock) as leads:
            await submit(leads, script("a"))
            await until_state(leads, "a", JobState.RUNNING)
            begun = clock.now()
            clock.ahead_s += 2 * HOUR_S
            await leads._hours.look()
            async with asyncio.timeout(PATIENCE_S):
                while waits.status().seq < leads.status().seq:
                    assert await waits.look() is None
                    await asyncio.sleep(0.01)
            theirs = [view for view in await waits.usage(PER_HOUR, 100) if view.ends <= clock.now()]
            assert theirs == [view for view in await leads.usage(PER_HOUR, 100) if view.ends <= clock.now()]
            assert len({view.begins for view in theirs}) == 2
        term = None
        async with asyncio.timeout(PATIENCE_S):
            while term is None:
                term = await waits.look()
    async with Controller(other, "test", {node.name: node}, clock, 10**9, term=term) as follows:
        clock.ahead_s += HOUR_S
        await follows._hours.look()
        assert held(await follows.usage(PER_HOUR, 100)) == pytest.approx(clock.now() - begun, abs=10.0)
    assert [hour - hour_of(begun) for hour, _ in stored(other)] == [0, 1, 2]


async def test_an_hour_ends_although_nothing_happens(directory: StateDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostler.runtime.usage.LOOK_S", 0.01)
    clock = Moved()
    async with keeping(directory, FakeNode(), clock) as controller:
        clock.ahead_s += HOUR_S
        await until(lambda: controller._core.state.metering.hour == hour_of(clock.now()))
        await until(lambda: len(stored(directory)) == 1)


# Pages.


NOTHING: Stored = (range(0), lambda _: [], lambda _: None)


def paged(asked: UsageAsked, rows: Sequence[HourRow], limit: int) -> list[UsageView]:
    made: list[UsageView] = []
    hours = range(BASE, BASE + 4000)
    while True:
        after = [name_of(made[-1])] if made else []
        page = gathered(asked, hours, rows, limit, after, NOTHING)
        made += page
        if len(page) < limit:
            return made


@settings(deadline=None, max_examples=30)
@given(
    st.sampled_from(list(Period)),
    st.lists(st.sampled_from(DIMENSIONS), unique=True, max_size=3),
    st.integers(1, 60),
    st.integers(0, 5),
)
def test_pages_hold_every_row_once_and_in_order(per: Period, by: list[Dimension], limit: int, gap: int) -> None:
    rows = [replace(each, hour=BASE + (each.hour - BASE) * (1 + 37 * gap)) for each in many(2, 20)]
    asked = UsageAsked(per=per, by=tuple(by))
    whole = paged(asked, rows, 1000)
    assert paged(asked, rows, limit) == whole
    assert [view.begins for view in whole] == sorted(view.begins for view in whole)
    assert len({name_of(view) for view in whole}) == len(whole)
    assert held(whole) == pytest.approx(sum(totals_of(each).held_ms for each in rows) / 1000)
    assert sum(view.done for view in whole) == sum(each.done for each in rows)


@pytest.mark.parametrize("cursor", ["", "7", "[]", '["x"]', "[null]", "[1e999]", "[1e30]", "[0, 1]", "[0, 0, 0]", "{}"])
def test_a_cursor_of_something_else_is_refused(cursor: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        gathered(UsageAsked(per=Period.MONTH, by=("node",)), range(10), [], 10, [cursor], NOTHING)


@given(st.sampled_from(list(Period)), st.integers(0, 10**7))
def test_periods_follow_each_other_without_gaps(per: Period, hour: int) -> None:
    number = period_of(per, hour)
    assert first_hour(per, number) <= hour < first_hour(per, number + 1)
    assert period_of(per, first_hour(per, number)) == number
    assert period_of(per, first_hour(per, number) - 1) == number - 1 or first_hour(per, number) <= 0


def test_periods_are_those_of_calendars() -> None:
    at = 1_764_028_800.0  # Tuesday, 25 November 2025, midnight
    assert begin_of(Period.WEEK, period_of(Period.WEEK, hour_of(at))) == at - DAY_S
    assert begin_of(Period.MONTH, period_of(Period.MONTH, hour_of(at))) == at - 24 * DAY_S
    assert begin_of(Period.DAY, period_of(Period.DAY, hour_of(at + 5.0))) == at


def test_whole_periods_are_told() -> None:
    at = 1_764_028_800.0
    whole = hours_of(UsageAsked(per=Period.DAY, since=at + 7200.0, until=at + 2 * DAY_S), at + 9 * DAY_S)
    assert whole == range(hour_of(at), hour_of(at) + 48)
    assert hours_of(UsageAsked(per=Period.DAY), at + 1.0) == range(hour_of(at) - 30 * 24, hour_of(at) + 24)
    assert hours_of(UsageAsked(per=Period.WEEK, until=1.0, since=0.0), at).start == 0
    with pytest.raises(UsageError, match=r"`since` .* is not before `until`"):
        hours_of(UsageAsked(since=at, until=at), at)


def test_what_is_unknown_is_told_as_unknown() -> None:
    rows = [row(price_per_h=None), row(device="b/cuda0", work=None, measured_s=100.0, busy_s=25.0)]
    (view,) = gathered(UsageAsked(), range(BASE, BASE + 1), rows, 10, (), NOTHING)
    assert (view.cost, view.unpriced_s, view.idle_cost, view.utilization) == (None, 3600.0, 0.5, 0.25)
    (known,) = gathered(UsageAsked(), range(BASE, BASE + 1), [row()], 10, (), NOTHING)
    assert (known.cost, known.utilization, known.idle_cost) == (0.5, None, 0.0)
    assert json.loads(name_of(known)) == [known.begins]
