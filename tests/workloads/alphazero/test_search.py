"""The search against its slow reference, against exact solutions, and what it promises of batches and budgets."""

from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from hostler.workloads.alphazero import chance, tree
from hostler.workloads.alphazero.game import Game, States, values_of
from hostler.workloads.alphazero.search import GumbelSearch, Searched, schedule
from hostler.workloads.beacons.game import make as beacons
from tests.workloads.alphazero import trivial
from tests.workloads.alphazero.fakes import HashEvaluator, IgnorantEvaluator
from tests.workloads.alphazero.reference import Reference


def positions(game: Game, count: int, plies: int, seed: int = 0) -> States:
    """Positions some random plies into games, of which those that ended on the way are left out."""
    states = game.initial(count)
    for ply in range(plies):
        seeds = chance.derive(np.arange(count, dtype=np.uint64) + np.uint64(seed), ply)
        noise = chance.gumbel(seeds, game.actions)
        actions = np.argmax(np.where(game.legal(states), noise, -np.inf), axis=1).astype(np.int32)
        states = np.where(game.terminal(states)[:, None], states, game.apply(states, actions))
    return states[~game.terminal(states)]


def seeds_of(states: States, seed: int = 0) -> NDArray[np.uint64]:
    return chance.derive(np.arange(len(states), dtype=np.uint64), seed)


def root_visits(search: GumbelSearch, game: int) -> dict[int, int]:
    """How often each action of the root was visited, read from the tree of the last search."""
    links, visits = search.trees.links[game], {}
    child = links[0, tree.CHILD]
    while child != tree.NONE:
        visits[int(links[child, tree.ACTION])] = int(links[child, tree.VISITS])
        child = links[child, tree.SIBLING]
    return visits


@dataclass(frozen=True)
class Case:
    """One search to compare, of positions `plies` into a game."""

    cells: int
    players: int
    plies: int
    simulations: int
    considered: int
    gumbel_scale: float
    seed: int


CASES = st.builds(
    Case,
    cells=st.integers(1, 9),
    players=st.integers(2, 4),
    plies=st.integers(0, 3),
    simulations=st.integers(1, 90),
    considered=st.integers(1, 12),
    gumbel_scale=st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 2**32),
)


class TestAgainstReference:
    @settings(max_examples=20, deadline=None)
    @given(CASES)
    def test_same_visits_q_policy_value_and_action(self, case: Case) -> None:
        game = trivial.make(case.cells, case.players)
        states = positions(game, 3, case.plies, case.seed)
        self.compare(game, states, case)

    @pytest.mark.parametrize("players", [2, 3])
    def test_beacons(self, players: int) -> None:
        game = beacons("hex4", players)
        case = Case(19, players, 9, 100, 16, 1.0, players)
        self.compare(game, positions(game, 2, case.plies), case)

    def compare(self, game: Game, states: States, case: Case) -> None:
        evaluator = HashEvaluator(game, case.seed)
        search = GumbelSearch(game, evaluator, case.simulations, case.considered, case.gumbel_scale)
        seeds = seeds_of(states, case.seed)
        found = search.search(states, seeds)
        noise = case.gumbel_scale * chance.gumbel(seeds, game.actions)
        for row in range(len(states)):
            self.compare_row(game, evaluator, states, noise, row, search, found, case)

    def compare_row(
        self, game: Game, evaluator: HashEvaluator, states: States, noise: NDArray[np.float64], row: int,
        search: GumbelSearch, found: Searched, case: Case,
    ) -> None:  # fmt: skip
        expected = Reference(game, evaluator).search(states[[row]], noise[row], case.simulations, case.considered)
        visits = root_visits(search, row)
        assert visits == {action: count for action, count in expected.visits.items() if count}
        assert found.action[row] == expected.action
        policy = np.zeros(game.actions)
        policy[list(expected.policy)] = list(expected.policy.values())
        np.testing.assert_allclose(found.policy[row], policy, rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(found.value[row], expected.value, atol=1e-5)
        np.testing.assert_array_equal(found.network_value[row], evaluator.evaluate(states[[row]])[1][0])
        for child, q in self.child_means(search, row).items():
            for seat in range(game.players):
                assert q[seat] == pytest.approx(expected.completed_q[seat][child], abs=1e-9)

    def child_means(self, search: GumbelSearch, row: int) -> dict[int, NDArray[np.float64]]:
        links, values = search.trees.links[row], search.trees.values[row]
        means, child = {}, links[0, tree.CHILD]
        while child != tree.NONE:
            means[int(links[child, tree.ACTION])] = values[child] / links[child, tree.VISITS]
            child = links[child, tree.SIBLING]
        return means

    def test_a_policy_beyond_the_range_of_32_bits(self) -> None:
        """Priors of legal actions never become 0, so that nothing is divided by it."""
        game = trivial.make(5, 2)
        evaluator = HashEvaluator(game, seed=3, spread=200.0)
        search = GumbelSearch(game, evaluator, 40)
        found = search.search(game.initial(4), seeds_of(game.initial(4)))
        assert np.isfinite(found.policy).all()
        assert np.isfinite(found.value).all()
        np.testing.assert_allclose(found.policy.sum(axis=1), 1.0, atol=1e-5)


class TestAgainstExactSolutions:
    @pytest.mark.parametrize("players", [2, 3])
    @pytest.mark.parametrize("cells", [4, *(pytest.param(each, marks=pytest.mark.long) for each in (6, 8))])
    @pytest.mark.parametrize("spread", [pytest.param(0.0, marks=pytest.mark.long), 2.0])
    def test_spacing(self, cells: int, players: int, spread: float) -> None:
        """From every seat's point of view, whatever the policy to begin with."""
        game = trivial.make(cells, players)
        states = np.concatenate([game.initial(1), positions(game, 8, 1), positions(game, 8, 2)])
        evaluator = IgnorantEvaluator(game, spread)
        found = GumbelSearch(game, evaluator, 10_000, gumbel_scale=0.0).search(states, seeds_of(states))
        for row in range(len(states)):
            best, value = trivial.solve(game, states[[row]])
            assert found.action[row] in best
            np.testing.assert_allclose(found.value[row], value, atol=0.1)

    @pytest.mark.long
    def test_beacons_with_five_cells_left(self) -> None:
        """Two players only: with more, a seat may be indifferent, and then there are several solutions."""
        game = beacons("hex4", 2)
        states = positions(game, 12, 14)
        exact = minimax(game)
        found = GumbelSearch(game, IgnorantEvaluator(game), 10_000, gumbel_scale=0.0).search(states, seeds_of(states))
        for row in range(len(states)):
            seat = game.to_move(states)[row]
            after = game.apply(states[[row]], found.action[[row]])
            assert exact(after.tobytes())[seat] == exact(states[[row]].tobytes())[seat]
            # In a lost position the action explored least looks best: its mean has not fallen all the way yet.
            np.testing.assert_allclose(found.value[row], exact(states[[row]].tobytes()), atol=0.5)


def minimax(game: Game):
    @cache
    def values(row: bytes) -> tuple[float, ...]:
        state = np.frombuffer(row, np.int8)[None]
        if game.terminal(state)[0]:
            return tuple(values_of(game.ranking(state))[0])
        actions = np.flatnonzero(game.legal(state)[0]).astype(np.int32)
        outcomes = [values(game.apply(state, actions[[each]]).tobytes()) for each in range(len(actions))]
        return max(outcomes, key=lambda outcome: outcome[game.to_move(state)[0]])

    return values


class TestSchedule:
    @given(st.integers(1, 40), st.integers(1, 900))
    def test_spends_exactly_the_budget_on_halves(self, actions: int, simulations: int) -> None:
        counts = schedule(actions, simulations)
        assert len(counts) == simulations
        visited = [counts.count(visits) for visits in range(max(counts) + 1)]
        # How many actions have reached each number of visits: never more than before, and at least a half, down to two.
        assert visited[0] == min(actions, simulations)
        for more, fewer in pairwise(visited[:-1]):
            assert fewer in {more, max(2, more // 2)}

    def test_known_schedules(self) -> None:
        assert schedule(1, 3) == [0, 1, 2]
        assert schedule(2, 5) == [0, 0, 1, 1, 2]
        assert schedule(4, 16) == [0] * 4 + [1] * 4 + [2] * 2 + [3] * 2 + [4] * 2 + [5] * 2
        assert schedule(16, 5) == [0] * 5

    @pytest.mark.parametrize("simulations", [1, 2, 3, 7, 16, 17, 50])
    @pytest.mark.parametrize("considered", [1, 3, 16])
    def test_a_search_visits_the_root_as_often_as_it_may(self, simulations: int, considered: int) -> None:
        game = trivial.make(9, 2)
        evaluator = HashEvaluator(game)
        search = GumbelSearch(game, evaluator, simulations, considered)
        states = positions(game, 6, 2)
        search.search(states, seeds_of(states))
        assert evaluator.asked <= len(states) * (1 + simulations)
        for row in range(len(states)):
            visits = root_visits(search, row)
            assert sum(visits.values()) == simulations
            assert len(visits) <= min(considered, simulations)

    @pytest.mark.parametrize(("simulations", "considered"), [(0, 16), (8, 0)])
    def test_nothing_to_do_is_refused(self, simulations: int, considered: int) -> None:
        game = trivial.make()
        with pytest.raises(ValueError, match="at least one"):
            GumbelSearch(game, IgnorantEvaluator(game), simulations, considered)


class TestBatches:
    @settings(max_examples=8, deadline=None)
    @given(st.integers(2, 4), st.integers(1, 60), st.integers(0, 2**32))
    def test_a_row_does_not_depend_on_its_company(self, players: int, simulations: int, seed: int) -> None:
        game = trivial.make(8, players)
        states = positions(game, 7, 2, seed)
        seeds = seeds_of(states, seed)
        search = GumbelSearch(game, HashEvaluator(game, seed), simulations)
        together = search.search(states, seeds)
        for row in range(len(states)):
            # The same search again: what is left in its memory makes no difference either.
            alone = search.search(states[[row]], seeds[[row]])
            assert alone.action[0] == together.action[row]
            np.testing.assert_array_equal(alone.policy[0], together.policy[row])
            np.testing.assert_array_equal(alone.value[0], together.value[row])

    def test_policies_are_distributions_over_the_legal_actions(self) -> None:
        game = trivial.make(9, 3)
        states = positions(game, 40, 2)
        found = GumbelSearch(game, HashEvaluator(game), 30).search(states, seeds_of(states))
        legal = game.legal(states)
        np.testing.assert_allclose(found.policy.sum(axis=1), 1.0, atol=1e-5)
        assert (found.policy[~legal] == 0.0).all()
        assert legal[np.arange(len(states)), found.action].all()
        assert (np.abs(found.value) <= 1.0).all()

    def test_memory_is_kept_between_moves(self) -> None:
        game = trivial.make(9, 2)
        search = GumbelSearch(game, HashEvaluator(game), 20)
        states = game.initial(8)
        search.search(states, seeds_of(states))
        before = search.trees
        search.search(states[:5], seeds_of(states[:5]))
        assert search.trees is before

    def test_a_batch_of_none(self) -> None:
        game = trivial.make(9, 2)
        found = GumbelSearch(game, HashEvaluator(game), 20).search(game.initial(0), np.empty(0, np.uint64))
        assert found.policy.shape == (0, game.actions)

    def test_a_game_that_is_over_is_refused(self) -> None:
        game = trivial.make(1, 2)
        over = game.apply(game.initial(1), np.zeros(1, np.int32))
        with pytest.raises(ValueError, match="over"):
            GumbelSearch(game, HashEvaluator(game), 4).search(over, seeds_of(over))

    def test_the_noise_is_what_makes_games_differ(self) -> None:
        game = trivial.make(9, 2)
        states = game.initial(200)
        chosen = {
            scale: set(GumbelSearch(game, IgnorantEvaluator(game), 4, 4, scale).search(states, seeds_of(states)).action)
            for scale in (0.0, 1.0)
        }
        assert len(chosen[0.0]) == 1
        assert len(chosen[1.0]) > 5


def test_seconds_count_the_time_of_the_searches() -> None:
    game = trivial.make(5, 2)
    ticks = iter([10.0, 13.0, 20.0, 24.0])
    search = GumbelSearch(game, IgnorantEvaluator(game), 2, clock=lambda: next(ticks))
    search.search(game.initial(1), seeds_of(game.initial(1)))
    search.search(game.initial(1), seeds_of(game.initial(1)))
    assert search.seconds == 7.0
