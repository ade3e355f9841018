from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.model.work import WorkKind
from hostler.policy.population import (
    EXPLORATION_SHARE,
    Standing,
    is_stuck,
    mix,
    target_reached,
    top_up,
    trickle_due,
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


def test_exploration_gets_its_share_of_a_device() -> None:
    assert trickle_due(None, EXPLORATION_SHARE, 600.0)
    assert not trickle_due(11_999.0, EXPLORATION_SHARE, 600.0)
    assert trickle_due(12_001.0, EXPLORATION_SHARE, 600.0)
    assert not trickle_due(None, 0.0, 600.0)
    assert not trickle_due(1e9, 0.0, 600.0)


# --- the mix of the queue ---------------------------------------------------------------------------------------------

USUAL = {WorkKind.SELFPLAY: 0.6, WorkKind.TRAINING: 0.3, WorkKind.EVALUATION: 0.1}
weights = st.dictionaries(st.sampled_from(WorkKind), st.integers(1, 50), min_size=1)


def test_the_usual_mix_from_an_empty_queue() -> None:
    found = top_up({}, USUAL, 10)
    assert {kind: found.count(kind) for kind in USUAL} == {
        WorkKind.SELFPLAY: 6,
        WorkKind.TRAINING: 3,
        WorkKind.EVALUATION: 1,
    }
    assert found[:3] == [WorkKind.SELFPLAY, WorkKind.TRAINING, WorkKind.SELFPLAY]


@given(weights, st.integers(1, 60))
def test_for_every_length_the_counts_are_within_one_of_the_shares(shares: dict[WorkKind, int], depth: int) -> None:
    found, whole = top_up({}, shares, depth), sum(shares.values())
    for length in range(1, depth + 1):
        for kind, share in shares.items():
            assert abs(found[:length].count(kind) * whole - share * length) < whole


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_short_queue_is_refilled_with_the_same_mix_as_a_long_one(depth: int) -> None:
    """A queue that is kept at one, two or three jobs: what runs counts, so that no kind takes all its places."""
    done = dict.fromkeys(USUAL, 0)
    for _ in range(20):
        for kind in top_up(done, USUAL, sum(done.values()) + depth):
            done[kind] += 1
    length = sum(done.values())
    assert all(abs(count - USUAL[kind] * length) < 1 for kind, count in done.items())


@given(st.dictionaries(st.sampled_from(WorkKind), st.integers(0, 100)), weights)
def test_the_next_job_is_always_of_a_kind_below_its_share(
    counts: dict[WorkKind, int], shares: dict[WorkKind, int]
) -> None:
    kind = mix(counts, shares)
    after = 1 + sum(counts.get(each, 0) for each in shares)
    assert counts.get(kind, 0) * sum(shares.values()) < shares[kind] * after
    assert mix(dict(reversed(counts.items())), dict(reversed(shares.items()))) == kind


def test_the_true_queue_counts_and_other_kinds_do_not() -> None:
    full = {WorkKind.SELFPLAY: 100, WorkKind.SCRIPT: 1000}
    assert mix(full, USUAL) is WorkKind.TRAINING
    assert top_up({WorkKind.SCRIPT: 1000}, USUAL, 1) == [WorkKind.SELFPLAY]
    assert top_up(full, USUAL, 50) == []


def test_who_has_no_share_is_never_queued() -> None:
    assert mix({}, {WorkKind.TRAINING: 0.0, WorkKind.EVALUATION: 0.1}) is WorkKind.EVALUATION
    with pytest.raises(ValueError, match="no kind of work has a share"):
        mix({}, {WorkKind.TRAINING: 0.0})
