"""What was played of a config is told in full, whatever of it has left the state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hostler.core import listed, shown
from hostler.core.loop import leaving, played, stages
from hostler.core.loop.state import RECORDED, Segment
from hostler.core.loop.views import config_view, history_view
from hostler.model import events, inputs
from hostler.model.learning import Goal
from hostler.model.rules import PastRules, Rules
from hostler.model.views import HourView
from hostler.model.work import WorkKind
from tests.core.builders import replayed, snapshot
from tests.core.loop.builders import Loop, loop, small

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


class Seen:
    """What the journal says of games, in numbers."""

    def __init__(self, keep_finished_s: float = HOUR_S, step_s: float = HOUR_S / 4) -> None:
        self.world = loop(small(goal=Goal(promotions=1000)), devices=2)
        past = PastRules(keep_finished=0, keep_finished_s=keep_finished_s)
        self.world.tell(inputs.Configure(rules=Rules(past=past)))
        self.world.step_s = step_s
        self.made: list[tuple[float, int]] = []

    def step(self) -> Loop:
        """Go on, and note which games came: when, how many."""
        self.world.step()
        told = (segment for each in self.world.of(events.SegmentsMade) for segment in each.segments)
        self.made += [(self.world.state.at, segment.games) for segment in told]
        return self.world

    def games(self, since: float = 0.0) -> int:
        """Those that came after that time."""
        return sum(games for at, games in self.made if at > since)

    def by_hour(self) -> dict[float, int]:
        """All of them."""
        made: Counter[float] = Counter()
        for at, games in self.made:
            made[at // HOUR_S * HOUR_S] += games
        return dict(made)


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows hold eight segments, so that nearly all of them leave soon."""
    monkeypatch.setattr(leaving, "WINDOW_SEGMENTS", 8)
    monkeypatch.setattr(stages, "WINDOW_SEGMENTS", 8)


def test_games_never_fall() -> None:
    seen, before = Seen(), 0
    for _ in range(130):
        world = seen.step()
        view = config_view(world.config(), world.now)
        assert view.games == seen.games() >= before
        before = view.games
    assert len(world.config().segments) < len(seen.made) / 2
    (row,) = [each for each in shown.costs(world.state).rows if each.work is WorkKind.SELFPLAY]
    assert [(each.unit, each.count) for each in row.units] == [("game", seen.games())]
    assert snapshot(replayed(world.entries).state) == snapshot(world.state)


def test_hours_are_told_in_full() -> None:
    seen = Seen()
    other = loop(small(goal=Goal(promotions=1000)), devices=2)
    other.step_s = seen.world.step_s
    for _ in range(100):
        seen.step()
        other.step()
    hours, all_ = (history_view(each.config(), each.now).hours for each in (seen.world, other))
    assert {hour.at: hour.games for hour in hours} == seen.by_hour()
    assert [replace(each, cpu_s=None) for each in hours] == [replace(each, cpu_s=None) for each in all_]
    assert [each.cpu_s for each in hours] == [pytest.approx(each.cpu_s) for each in all_]


def test_only_so_many_hours_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(played, "HOURS_KEPT", 6)
    seen = Seen(step_s=HOUR_S / 2)
    for _ in range(70):
        world = seen.step()
        hours = history_view(world.config(), world.now).hours
        newest = sorted(seen.by_hour().items())[-6:]
        assert [(hour.at, hour.games) for hour in hours] == newest
    assert len(world.config().past_hours) == 6
    assert len(seen.by_hour()) > 20


def segment(at: float, player: str = "a", cpu_s: float | None = None) -> Segment:
    return Segment(sha256=f"{at}", games=3, positions=30, player=player, job="j1", at=at, cpu_s=cpu_s)


def test_games_that_evaluations_recorded_count_as_games_but_not_as_self_play() -> None:
    config = loop(small()).config()
    some = [segment(1.0), segment(2.0, RECORDED), segment(3.0), segment(4.0, RECORDED)]
    config.segments = {each.sha256: each for each in some}
    for each in some:
        del config.segments[each.sha256]
        played.keep_sums(config, [each])
        assert (played.games(config), played.selfplay_games(config)) == (12, 6)
    assert [hour.games for hour in played.hours(config)] == [12]


def test_processor_time_of_an_hour_is_unknown_where_that_of_a_part_is() -> None:
    config = loop(small()).config()
    told = {10.0: 2.0, 20.0: 0.5, HOUR_S: 2.0, HOUR_S + 1: None, HOUR_S + 2: 2.0}
    played.keep_sums(config, [segment(at, cpu_s=cpu_s) for at, cpu_s in told.items()])
    assert list(played.hours(config)) == [
        HourView(at=0.0, games=6, positions=60, cpu_s=2.5),
        HourView(at=HOUR_S, games=9, positions=90, cpu_s=None),
    ]


def test_the_last_hour_is_exact_where_jobs_leave_sooner() -> None:
    seen = Seen(keep_finished_s=60.0, step_s=120.0)
    for nth in range(115):
        world = seen.step()
        if world.now > 3 * HOUR_S and nth % 10 == 0:
            assert played.games_per_h(world.config(), world.now) == seen.games(world.now - HOUR_S)
    assert world.config().past_games


def test_the_last_day_is_told_to_the_hour_where_jobs_leave_sooner() -> None:
    seen = Seen(step_s=HOUR_S / 2)
    for _ in range(110):
        world = seen.step()
        (pace,) = listed.fleet_view(world.state, world.core.index, world.now).configs
        assert seen.games(world.now - DAY_S + HOUR_S) <= pace.day <= seen.games(world.now - DAY_S)
    assert world.now > 2 * DAY_S
    assert world.config().past_games


def test_what_rests_for_an_hour_plays_nothing() -> None:
    seen = Seen()
    for _ in range(50):
        world = seen.step()
    config = world.config()
    played.keep_sums(config, list(config.segments.values()))
    config.segments.clear()
    assert played.games_per_h(config, world.now) == 0.0
