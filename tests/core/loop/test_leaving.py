"""Segments leave with the jobs that made them; nothing that a stage could still look at does."""

from __future__ import annotations

import pytest

from hostler.core import shown
from hostler.core.loop import leaving, stages
from hostler.core.loop.stages import window
from hostler.core.loop.state import RECORDED
from hostler.model import events, inputs
from hostler.model.learning import Goal
from hostler.model.rules import PastRules, Rules
from hostler.model.work import WorkKind
from tests.core.builders import replayed, snapshot
from tests.core.loop.builders import Loop, loop, order_of, small

HOUR_S = 3600.0


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Loop:
    """A loop whose jobs are long over after an hour, and whose windows hold eight segments at most."""
    monkeypatch.setattr(leaving, "WINDOW_SEGMENTS", 8)
    monkeypatch.setattr(stages, "WINDOW_SEGMENTS", 8)
    made = loop(small(goal=Goal(promotions=1000)), devices=2)
    made.tell(inputs.Configure(rules=Rules(past=PastRules(keep_finished=0, keep_finished_s=HOUR_S))))
    made.step_s = HOUR_S / 4
    return made


@pytest.mark.parametrize(("steps", "part"), [(160, 2), pytest.param(360, 4, marks=pytest.mark.long)])
def test_what_no_stage_can_look_at_any_more_leaves(world: Loop, steps: int, part: int) -> None:
    made, there = 0, []
    for _ in range(steps):
        world.step()
        made += sum(len(each.segments) for each in world.of(events.SegmentsMade))
        there.append(len(world.config().segments))
    assert made > 2.25 * steps
    before, after = max(there[: steps // 2]), max(there[steps // 2 :])
    assert after <= 1.2 * before < made / part, "what there is does not grow with what there was"
    assert len(world.config().segments) >= 8
    assert snapshot(replayed(world.entries).state) == snapshot(world.state)
    world.core.validate()


def test_sums_stay(world: Loop) -> None:
    games = 0
    for _ in range(80):
        world.step()
        told = (each for each in world.of(events.SegmentsMade) if each.player != RECORDED)
        games += sum(segment.games for each in told for segment in each.segments)
    assert world.config().past_games > 0
    (row,) = [each for each in shown.costs(world.state).rows if each.work is WorkKind.SELFPLAY]
    assert [(each.unit, each.count) for each in row.units] == [("game", games)]


def test_the_window_and_what_is_untrained_are_as_if_nothing_had_left(world: Loop) -> None:
    """Beside one in which all stays, step by step."""
    other = loop(small(goal=Goal(promotions=1000)), devices=2)
    other.step_s = world.step_s
    for _ in range(80):
        world.step()
        other.step()
        here, there = world.config(), other.config()
        assert [each.sha256 for each in window(here)] == [each.sha256 for each in window(there)]
        assert stages.untrained_positions(here) == stages.untrained_positions(there)
        assert here.fresh_games == there.fresh_games
    assert here.past_games
    assert not there.past_games


def test_what_an_export_was_told_to_choose_from_stays_until_it_is_over(world: Loop) -> None:
    world.until(lambda: world.config().past_games)
    export = world.until_running(WorkKind.EXPORT)
    named = {each["sha256"] for each in order_of(export)["segments"]}
    for _ in range(12):
        for job in world.running(WorkKind.SELFPLAY):
            world.end(job)
    assert named <= world.config().segments.keys()
    world.end(export)
    assert world.of(events.DatasetMade)


def test_of_what_never_is_trained_only_so_much_stays(world: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "UNTRAINED", 20)
    world.tell(inputs.Declare(configs=(small(goal=Goal(promotions=1000), export__min_games=10_000),)))
    for _ in range(80):
        world.step()
    assert 20 <= len(world.config().segments) < 60
    assert world.config().past_games
    world.core.validate()
