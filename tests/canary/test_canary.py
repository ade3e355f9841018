"""The loop learns from random weights; and does not, and says so, with a defect that others never noticed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from hostler.model.learning import ModelStatus
from hostler.model.work import WorkKind
from tests.canary.loop import Run, play, run_loop

pytestmark = pytest.mark.long
SIGNIFICANT = 0.01
GROUPS = 120


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The loop as it is."""
    return run_loop(tmp_path_factory.mktemp("whole"))


def test_from_random_weights_it_comes_to_its_promotions(whole: Run) -> None:
    assert whole.status == 0, whole.said
    assert whole.config.promotions >= 2
    for model in whole.config.models.values():
        if model.number and model.status is ModelStatus.PROMOTED:
            assert model.training.base is not None
            assert model.training.after is not None
            assert model.why is not None
            assert "better by more than 0 Elo" in model.why


def test_the_promoted_model_beats_the_untrained_one_and_greedy(whole: Run) -> None:
    config = whole.config
    assert config.current is not None
    untrained = next(name for name, model in config.models.items() if model.number == 0)
    opponents = (config.evaluated_as(untrained), "greedy")
    scores = play(whole, config.evaluated_as(config.current), opponents, GROUPS)
    for opponent in opponents:
        p = chance_of(scores[opponent])
        print(f"{opponent[:40]}: score {sum(scores[opponent]) / GROUPS:.3f}, p = {p:.2g}")
        assert p < SIGNIFICANT


def test_its_policy_alone_has_learnt(whole: Run) -> None:
    assert whole.config.current is not None
    untrained = next(name for name, model in whole.config.models.items() if model.number == 0)
    scores = play(whole, f"policy@{whole.config.current}", (f"policy@{untrained}",), GROUPS)
    assert chance_of(scores[f"policy@{untrained}"]) < SIGNIFICANT


def test_shuffled_policy_targets_are_found_out(tmp_path) -> None:
    run = run_loop(tmp_path, {"training": "shuffled_policies.py"})
    assert run.status == 1, run.said
    assert "nothing was learnt" in run.config.rests[WorkKind.TRAINING].why
    assert run.config.promotions < 2


def test_games_of_other_weights_than_they_name_are_found_out(tmp_path) -> None:
    run = run_loop(tmp_path, {"selfplay": "wrong_weights.py"})
    assert run.status == 1, run.said
    assert "provenance" in run.config.rests[WorkKind.EXPORT].why
    assert run.config.promotions < 2


def test_an_empty_dataset_is_found_out(tmp_path) -> None:
    run = run_loop(tmp_path, {"export": "empty_dataset.py"})
    assert run.status == 1, run.said
    assert "header tells of 0, its arrays hold 0" in run.config.rests[WorkKind.TRAINING].why
    assert run.config.candidates == 0


def chance_of(scores: Sequence[float]) -> float:
    """Probability that equals score at least so much: the sign test over groups, drawn ones left out."""
    won, lost = sum(score > 0.5 for score in scores), sum(score < 0.5 for score in scores)
    decided = won + lost
    return sum(math.comb(decided, wins) for wins in range(won, decided + 1)) / 2**decided
