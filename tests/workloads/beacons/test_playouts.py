"""Random games to the end: from the seed alone, and with the probabilities that uniform play has."""

from collections import Counter
from collections.abc import Callable
from math import sqrt

import numba
import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from hostler.workloads.beacons import rules
from hostler.workloads.beacons.game import Beacons, make

from . import oracle
from .support import few, games, midgame, random_game, seeds

SIGMAS = 5.0


def chances(position: oracle.Position) -> Counter[tuple[int, ...]]:
    """The probability of every ranking under uniform play, by following all actions."""
    if not position.empty:
        return Counter({tuple(position.ranking()): 1.0})
    total: Counter[tuple[int, ...]] = Counter()
    for action in position.legal():
        for ranking, chance in chances(position.play(action)).items():
            total[ranking] += chance / len(position.legal())
    return total


@few
@given(games, seeds)
def test_a_playout_depends_on_its_position_and_seed_alone(game: Beacons, seed: int) -> None:
    rng = np.random.default_rng(seed)
    states = midgame(game, 12, int(rng.integers(game.cells)), rng)
    numbers = rng.integers(0, 2**64, 12, np.uint64)
    rankings = game.playouts(states, numbers)
    assert (np.sort(rankings, axis=1) == np.arange(game.players)).all()
    assert (game.playouts(states[::-1], numbers[::-1])[::-1] == rankings).all()
    assert (game.playouts(states[4:5], numbers[4:5]) == rankings[4]).all()


@few
@given(games, seeds)
def test_a_game_that_is_over_stays_as_it_is(game: Beacons, seed: int) -> None:
    *_, (states, _) = random_game(game, 2, np.random.default_rng(seed))
    assert (game.playouts(states, np.arange(2, dtype=np.uint64)) == game.ranking(states)).all()


@pytest.mark.parametrize("players", [2, pytest.param(3, marks=pytest.mark.long), 4])
@pytest.mark.parametrize("name", ["hex4", "square5"])
@pytest.mark.parametrize("seed", [1, *(pytest.param(each, marks=pytest.mark.long) for each in (2, 3))])
def test_rankings_come_as_often_as_uniform_play_makes_them(name: str, players: int, seed: int) -> None:
    game, count = make(name, players), 20_000
    rng = np.random.default_rng(seed)
    state = midgame(game, 1, game.cells - 5, rng)
    expected = chances(oracle.from_state(name, players, state[0]))
    rankings = game.playouts(np.repeat(state, count, axis=0), rng.integers(0, 2**64, count, np.uint64))
    seen = Counter(map(tuple, rankings.tolist()))
    assert set(seen) <= set(expected)
    for ranking, chance in expected.items():
        assert abs(seen[ranking] / count - chance) <= SIGMAS * sqrt(chance * (1 - chance) / count) + 1e-9


@pytest.mark.parametrize(
    ("players", "stones", "swapped", "chance"),
    [(2, 0, 0, 1 / 19), (2, 1, 0, 1 / 19), (2, 1, 1, 1.0), (2, 2, 0, 0.0), (3, 1, 0, 0.0), (4, 0, 0, 0.0)],
)
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_swap_is_as_likely_as_any_other_action(
    players: int, stones: int, swapped: int, chance: float, compiled: bool
) -> None:
    """In few games as plain Python, for which next to nothing is compiled, and in many as numba compiles them."""
    game, count = make("hex4", players), 500_000 if compiled else 2000
    state = game.initial(1)[0]
    state[:stones], state[game.cells] = np.arange(1, stones + 1), swapped
    ends = fast(state, players, count, rules._fill) if compiled else filled(state, players, count, plain)
    assert abs(ends[:, game.cells].mean() - chance) <= SIGMAS * sqrt(chance * (1 - chance) / count)
    assert (ends[:, :stones] == state[:stones]).all()
    for side in range(players):
        share = len(range(side, game.cells, players)) - (side < stones)
        of_side = (ends[:, stones : game.cells] == side + 1).mean(axis=0)
        expected = share / (game.cells - stones)
        assert np.abs(of_side - expected).max() <= SIGMAS * sqrt(expected * (1 - expected) / count)


def filled(state: NDArray[np.int8], players: int, count: int, fill: Callable[..., None]) -> NDArray[np.int8]:
    """The last positions of random games from `state`, with the seeds from 0 on."""
    ends = np.empty((count, len(state)), np.int8)
    empty, chance = np.empty(len(state) - 1, np.int32), np.empty(1, np.uint64)
    for seed in range(count):
        ends[seed], chance[0] = state, seed
        fill(ends[seed], players, empty, chance)
    return ends


plain, fast = getattr(rules._fill, "py_func"), numba.njit(filled)  # noqa: B009 - of numba, which types know nothing of


def test_a_seed_for_every_position_is_wanted() -> None:
    game = make("hex4", 2)
    with pytest.raises(ValueError, match="3 positions, but seeds of shape"):
        game.playouts(game.initial(3), np.arange(2, dtype=np.uint64))
