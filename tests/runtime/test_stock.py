"""What is told of replication: counted anew when something was told of artifacts, and never that which is unknown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from hostler.model.artifacts import HUB, ReplicationRules
from hostler.model.errors import LinkLost
from hostler.runtime import places
from hostler.runtime.stock import REST_S, REST_SHARE, STALE_S, Stock
from tests.web.core_desk import CoreDesk
from tests.web.kept import SHELF, made


class Over(Exception):
    """The clock has been asked often enough."""


@dataclass
class Clock:
    """Time that passes as it is slept away, so many times."""

    left: int
    at: float = 1000.0
    slept: list[float] = field(default_factory=list)
    between: Any = None

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at += seconds
        self.left -= 1
        if not self.left:
            raise Over
        if self.between is not None:
            self.between()


def stock(desk: CoreDesk, clock: Clock, troubles: list[str], took_s: float = 0.0) -> Stock:
    ticks = iter(range(10_000))
    kept = desk.kept
    return Stock(kept.journal, kept.located, ReplicationRules(), clock, troubles.append, lambda: next(ticks) * took_s)


def test_before_it_looked_it_knows_nothing() -> None:
    told = CoreDesk().replication()
    assert (told.backlog, told.stock) == (None, None)
    assert [(each.name, each.copies, each.free_bytes, each.looked_at) for each in told.places] == [
        (HUB, None, None, None),
        (SHELF, None, None, None),
    ]


def test_artifacts_are_counted_with_what_is_wanted_of_them() -> None:
    desk = CoreDesk()
    made(desk.driver, b"one", b"three")
    asyncio.run(desk.kept.stock.count())
    told = desk.replication()
    assert told.stock is not None
    (row,) = told.stock.rows
    assert (row.artifacts, row.bytes, row.copies, row.wanted, row.possible) == (2, 8, 2, 4, 4)
    assert (row.short, row.at_risk) == (2, 0)
    assert {each.name: (each.copies, each.damaged) for each in told.places} == {HUB: (2, 0), SHELF: (0, 0)}


def test_the_backlog_comes_with_its_time_and_places_with_their_trouble() -> None:
    desk = CoreDesk()
    made(desk.driver, b"one")
    kept = desk.kept
    kept.put(b"one")
    places.failed(kept.located[SHELF], LinkLost("nobody answers"), desk.driver.now)
    asyncio.run(kept.replicator.turn())
    told = desk.replication()
    assert told.backlog is not None
    assert (told.backlog.at, told.backlog.artifacts, told.backlog.at_risk) == (desk.driver.now, 1, 0)
    assert told.backlog.shortfalls == ("no other place can be reached and has room for it",)
    shelf = next(each for each in told.places if each.name == SHELF)
    assert (shelf.reachable, shelf.trouble) == (False, "nobody answers")
    assert (shelf.again_at or 0) > desk.driver.now
    assert shelf.looked_at == desk.driver.now


def test_a_place_is_out_of_reach_until_it_answers_and_not_until_it_is_asked_again() -> None:
    desk = CoreDesk()
    located = desk.kept.located[SHELF]
    places.failed(located, LinkLost("nobody answers"), desk.driver.now)
    located.away_until = desk.driver.now - 1
    (shelf,) = (each for each in desk.replication().places if each.name == SHELF)
    assert (shelf.reachable, shelf.again_at) == (False, None)
    places.answered(located, desk.driver.now)
    (shelf,) = (each for each in desk.replication().places if each.name == SHELF)
    assert shelf.reachable


def counts(clock: Clock, of: Stock) -> list[float]:
    """When it counted, within so many rests."""
    times: list[float] = []
    count = of.count

    async def noted() -> None:
        times.append(clock.at)
        await count()

    of.count = noted  # type: ignore[method-assign]
    with pytest.raises(Over):
        asyncio.run(of.run())
    return times


def test_it_counts_when_something_was_told_and_now_and_then() -> None:
    clock, troubles = Clock(left=200), list[str]()
    of = stock(CoreDesk(), clock, troubles)
    clock.between = lambda: of.wake() if clock.at in (1010.0, 1015.0) else None
    times = counts(clock, of)
    assert times[:3] == [1000.0, 1010.0, 1015.0]
    assert times[3] == pytest.approx(1015.0 + STALE_S, abs=2 * REST_S)
    assert set(clock.slept) == {REST_S}


def test_the_longer_a_count_takes_the_rarer_it_is() -> None:
    clock = Clock(left=3)
    of = stock(CoreDesk(), clock, [], took_s=2.0)
    clock.between = of.wake
    counts(clock, of)
    assert max(clock.slept) == REST_SHARE * 2.0


def test_what_fails_is_said_once_and_tried_again() -> None:
    clock, troubles = Clock(left=4), list[str]()
    desk = CoreDesk()
    of = stock(desk, clock, troubles)
    desk.kept.journal._engine.dispose()
    (desk.kept.path / "journal.sqlite").write_bytes(b"not a database" * 1000)
    clock.between = of.wake
    with pytest.raises(Over):
        asyncio.run(of.run())
    assert len(troubles) == 1
    assert "artifacts cannot be counted" in troubles[0]
