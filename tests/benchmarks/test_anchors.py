"""How the benchmark of the anchors rates players."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from anchors import Ladder, Study, fit, measure
from hostler.workloads.alphazero.players import GreedyPlayer
from hostler.workloads.beacons.game import make


def outcomes(gap: float, count: int) -> np.ndarray:
    above = 1 / (1 + 10 ** (-gap / 400))
    return np.array([above, 1 - above]) * count


def test_ratings_along_a_ladder_are_the_sum_of_its_gaps() -> None:
    matches = [(("b", "a"), outcomes(300, 10**6)), (("b", "c"), outcomes(-200, 10**6))]
    assert fit(matches, "a") == pytest.approx({"a": 0.0, "b": 300.0, "c": 500.0}, abs=0.1)


def test_who_never_loses_still_has_a_finite_rating() -> None:
    rating = fit([(("b", "a"), np.array([20.0, 0.0]))], "a")
    assert rating["b"] == pytest.approx(400 * np.log10(20.5 / 0.5))


def test_a_rung_of_rate_0_is_greedy() -> None:
    game, seeds = make("hex4", 2), np.arange(50, dtype=np.uint64)
    states = game.initial(50)
    assert (Ladder(game, 0.0).choose(states, seeds) == GreedyPlayer(game).choose(states, seeds)).all()
    assert (Ladder(game, 1.0).choose(states, seeds) != GreedyPlayer(game).choose(states, seeds)).any()


@pytest.mark.long
def test_a_small_board_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anchors.RESAMPLES", 40)
    figures = measure(Study(make("hex4", 2), 0.05))
    assert figures["random"] == (0.0, 0.0, 0.0)
    for player in ("greedy", "mc-200"):
        rating, low, high = figures[player]
        assert 200 < low <= rating <= high < 1500
