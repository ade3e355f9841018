import numpy as np
import pytest

from hostler.workloads.alphazero.engines import HeuristicEngine, SearchEngine, drawn
from hostler.workloads.alphazero.search import GumbelSearch
from tests.workloads.alphazero.fakes import HashEvaluator
from tests.workloads.alphazero.trivial import make

GAME = make(9)
SEEDS = np.arange(4000, dtype=np.uint64)


class Timed(HashEvaluator):
    """An evaluator that says what it has spent."""

    seconds = 0.25


def test_actions_are_drawn_by_their_probabilities_and_impossible_ones_never() -> None:
    policy = np.tile(np.array([0, 0.7, 0, 0.3, 0], np.float32), (4000, 1))
    counts = np.bincount(drawn(policy, SEEDS), minlength=5)
    assert counts.tolist() == [0, pytest.approx(2800, abs=120), 0, pytest.approx(1200, abs=120), 0]


def test_the_heuristic_engine_draws_from_the_softmax_of_the_heuristic() -> None:
    states = GAME.initial(4000)
    decided = HeuristicEngine(GAME).decide(states, SEEDS, np.zeros(4000, np.int64))
    scores = np.exp(GAME.heuristic(states[:1])[0].astype(np.float64))
    assert np.allclose(decided.policy[0], scores / scores.sum(), atol=1e-6)
    frequency = np.bincount(decided.action, minlength=GAME.actions) / 4000
    assert np.abs(frequency - decided.policy[0]).max() < 0.03
    assert np.isnan(decided.root_value).all()
    assert np.isnan(decided.network_value).all()


def test_illegal_actions_have_no_probability() -> None:
    states = GAME.apply(GAME.initial(1), np.array([4], np.int32))
    policy = HeuristicEngine(GAME).decide(states, SEEDS[:1], np.ones(1, np.int64)).policy
    assert (policy[~GAME.legal(states)] == 0).all()


def test_the_search_engine_draws_in_the_first_plies_and_plays_the_search_s_action_after_them() -> None:
    evaluator = Timed(GAME)
    search = GumbelSearch(GAME, evaluator, 8, 4)
    engine = SearchEngine(search, evaluator, 3)  # type: ignore[arg-type]  # it only asks for seconds
    states, seeds = GAME.initial(2000), SEEDS[:2000]
    early, late = (engine.decide(states, seeds, np.full(2000, ply)) for ply in (2, 3))
    found = GumbelSearch(GAME, HashEvaluator(GAME), 8, 4).search(states, seeds)
    assert (late.action == found.action).all()
    assert (early.action != found.action).any()
    assert (early.policy == found.policy).all()
    assert (early.root_value == found.value).all()
    assert (early.network_value == found.network_value).all()
    chosen = np.take_along_axis(found.policy, early.action[:, None], axis=1)
    assert (chosen > 0).all()
    assert engine.network_s == 0.25
    assert engine.search_s == pytest.approx(search.seconds - 0.25)
