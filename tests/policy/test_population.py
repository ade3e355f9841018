from dataclasses import replace
from typing import Any

import pytest

from hostler.model.work import WorkKind
from hostler.policy.population import (
    Standing,
    is_stuck,
    target_reached,
    waits,
    wanted,
)

FRESH = Standing(
    has_model=True,
    candidate=None,
    test_groups=0,
    dataset_waits=False,
    steps=0,
    fresh_games=0,
    promising_games=0,
    fresh_needed=100,
    min_games=200,
    rating=None,
    ahead=None,
    finishing=False,
    refused_generator=None,
    jobs={},
    resting={},
)


def stages(standing: Standing) -> list[WorkKind]:
    return [want.stage for want in wanted(standing)]


def test_without_a_model_nothing_but_the_first_model_is_wanted() -> None:
    assert stages(replace(FRESH, has_model=False, fresh_games=500, promising_games=500)) == [WorkKind.TRAINING]


def test_with_a_model_games_are_wanted_and_the_lack_is_told() -> None:
    (want,) = wanted(replace(FRESH, fresh_games=40, promising_games=40))
    assert want.stage is WorkKind.SELFPLAY
    assert "160 games" in want.why


def test_a_dataset_is_made_once_there_are_enough_games_and_enough_new_ones() -> None:
    enough = replace(FRESH, fresh_games=100, promising_games=200)
    assert stages(enough) == [WorkKind.EXPORT, WorkKind.SELFPLAY]
    assert WorkKind.EXPORT not in stages(replace(enough, fresh_games=99))
    assert WorkKind.EXPORT not in stages(replace(enough, promising_games=199))


def test_a_dataset_that_waits_is_trained_on_and_no_other_is_made() -> None:
    waiting = replace(FRESH, dataset_waits=True, steps=10, fresh_games=1000, promising_games=1000)
    assert stages(waiting) == [WorkKind.TRAINING, WorkKind.SELFPLAY]


def test_no_training_without_steps() -> None:
    assert WorkKind.TRAINING not in stages(replace(FRESH, dataset_waits=True, steps=0))


def test_a_candidate_is_tested_before_anything_is_trained() -> None:
    tested = replace(FRESH, candidate="ab" * 32, dataset_waits=True, steps=10, rating="unknown")
    assert stages(tested) == [WorkKind.EVALUATION, WorkKind.SELFPLAY]


@pytest.mark.parametrize("stage", [WorkKind.TRAINING, WorkKind.EXPORT, WorkKind.EVALUATION])
def test_one_job_of_a_stage_at_a_time(stage: WorkKind) -> None:
    busy = {
        WorkKind.TRAINING: replace(FRESH, dataset_waits=True, steps=10),
        WorkKind.EXPORT: replace(FRESH, fresh_games=500, promising_games=500),
        WorkKind.EVALUATION: replace(FRESH, rating="not rated yet"),
    }[stage]
    assert stage in stages(busy)
    assert stage not in stages(replace(busy, jobs={stage: 1}))


@pytest.mark.parametrize(
    "trains",
    [
        {"candidate": "ab" * 32},
        {"dataset_waits": True, "steps": 10, "jobs": {WorkKind.TRAINING: 1}},
        {"fresh_games": 500, "promising_games": 500, "jobs": {WorkKind.EXPORT: 1}},
    ],
    ids=str,
)
def test_selfplay_waits_when_it_is_ahead(trains: dict[str, Any]) -> None:
    ahead = replace(FRESH, ahead="too many positions", **trains)
    assert WorkKind.SELFPLAY not in stages(ahead)
    assert WorkKind.SELFPLAY in stages(replace(ahead, ahead=None))


@pytest.mark.parametrize(
    "short", [{}, {"dataset_waits": True}, {"fresh_games": 500}, {"promising_games": 500}], ids=str
)
def test_it_does_not_wait_where_only_games_help(short: dict[str, Any]) -> None:
    """No training will come of waiting: too few games for a dataset, or one that allows no steps."""
    assert stages(replace(FRESH, ahead="too many positions", **short)) == [WorkKind.SELFPLAY]


def test_a_dataset_that_allows_no_steps_is_followed_by_another() -> None:
    waiting = replace(FRESH, dataset_waits=True, steps=0, fresh_games=500, promising_games=500)
    assert stages(waiting) == [WorkKind.EXPORT, WorkKind.SELFPLAY]


def test_what_it_waits_for_is_told() -> None:
    assert waits(replace(FRESH, has_model=False)).startswith("training: there is no model yet")
    assert waits(FRESH) == "selfplay: 200 games to the next dataset"
    running = replace(FRESH, fresh_games=500, promising_games=500, ahead="too far", jobs={WorkKind.EXPORT: 1})
    assert waits(running) == "export: 500 games since the last export"


def test_a_stage_that_rests_is_passed_over_and_the_rest_goes_on() -> None:
    resting = replace(FRESH, fresh_games=500, promising_games=500, resting={WorkKind.EXPORT: "disk full"})
    assert stages(resting) == [WorkKind.SELFPLAY]
    assert "disk full" in waits(resting)


REFUSED = replace(FRESH, refused_generator="heuristic is too weak")


def test_games_that_would_be_refused_are_not_wanted_and_that_is_told() -> None:
    assert stages(REFUSED) == []
    assert waits(REFUSED) == "heuristic is too weak"
    assert stages(replace(REFUSED, ahead="too many positions")) == []
    enough = replace(REFUSED, fresh_games=500, promising_games=500)
    assert stages(enough) == [WorkKind.EXPORT]
    assert waits(enough) == "export: 500 games since the last export"


@pytest.mark.parametrize(
    "hope",
    [
        {"jobs": {WorkKind.SELFPLAY: 1}},
        {"candidate": "ab" * 32},
        {"dataset_waits": True, "steps": 10},
        {"fresh_games": 500, "promising_games": 500},
        {"rating": "not rated yet"},
        {"has_model": False},
        {"refused_generator": None},
    ],
    ids=str,
)
def test_a_config_is_stuck_only_where_nothing_runs_and_nothing_will(hope: dict[str, Any]) -> None:
    assert is_stuck(REFUSED)
    assert not is_stuck(replace(REFUSED, **hope))


def test_once_the_goal_needs_no_more_promotions_only_the_rating_is_wanted() -> None:
    done = replace(FRESH, finishing=True, dataset_waits=True, steps=10, fresh_games=500, promising_games=500)
    assert stages(done) == []
    assert stages(replace(done, rating="not rated yet")) == [WorkKind.EVALUATION]
    assert stages(replace(done, candidate="ab" * 32)) == [WorkKind.EVALUATION]


# --- the Elo target ---------------------------------------------------------------------------------------------------

MET = replace(FRESH, target_met=True)


def test_once_the_target_is_met_nothing_more_is_wanted_until_a_job_of_exploration_is_due() -> None:
    ripe = replace(MET, dataset_waits=True, steps=10, fresh_games=500, promising_games=500)
    assert stages(ripe) == []
    assert waits(ripe) == "the Elo target is met: the next job of exploration is not due yet"
    assert stages(replace(ripe, trickle=True)) == [WorkKind.TRAINING]
    assert stages(replace(MET, trickle=True)) == [WorkKind.SELFPLAY]
    assert waits(replace(MET, trickle=True)) == "selfplay: 200 games to the next dataset"


@pytest.mark.parametrize("stage", [WorkKind.TRAINING, WorkKind.EXPORT, WorkKind.SELFPLAY])
def test_one_job_of_exploration_at_a_time(stage: WorkKind) -> None:
    assert stages(replace(MET, trickle=True, jobs={stage: 1})) == []


def test_exploration_passes_over_a_stage_that_rests() -> None:
    resting = replace(MET, trickle=True, fresh_games=500, promising_games=500, resting={WorkKind.EXPORT: "disk full"})
    assert stages(resting) == [WorkKind.SELFPLAY]


def test_verdicts_and_ratings_go_on_when_the_target_is_met() -> None:
    assert stages(replace(MET, candidate="ab" * 32)) == [WorkKind.EVALUATION]
    assert stages(replace(MET, rating="not rated yet")) == [WorkKind.EVALUATION]
    assert stages(replace(MET, has_model=False)) == [WorkKind.TRAINING]


def test_a_config_whose_target_is_met_is_not_stuck() -> None:
    assert is_stuck(REFUSED)
    assert not is_stuck(replace(REFUSED, target_met=True))


def test_a_target_is_met_by_what_is_certain() -> None:
    assert target_reached(2000.0, 2000.0)
    assert not target_reached(1999.0, 2000.0)
    assert not target_reached(None, 2000.0)
    assert not target_reached(3000.0, None)
