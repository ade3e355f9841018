"""What the tests of Beacons share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hypothesis import HealthCheck, settings, strategies as st
from numpy.typing import NDArray

from hostler.workloads.beacons.configs import BOARDS, PLAYERS
from hostler.workloads.beacons.game import Beacons

games = st.builds(Beacons, st.sampled_from(BOARDS), st.sampled_from(PLAYERS))
small_games = st.builds(Beacons, st.sampled_from(["hex4", "hex6", "square5"]), st.sampled_from(PLAYERS))
seeds = st.integers(0, 2**32)
few = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def random_actions(game: Beacons, states: NDArray[np.int8], rng: np.random.Generator) -> NDArray[np.int32]:
    """A uniformly random legal action in each position."""
    legal = game.legal(states)
    return np.argmax(rng.random(legal.shape) * legal, axis=1).astype(np.int32)


def random_game(
    game: Beacons, count: int, rng: np.random.Generator
) -> Iterator[tuple[NDArray[np.int8], NDArray[np.int32]]]:
    """Positions of `count` random games side by side with the actions played in them; last, those of full boards."""
    states = game.initial(count)
    while not game.terminal(states).all():
        actions = np.where(game.terminal(states), -1, 0).astype(np.int32)
        going = np.flatnonzero(actions == 0)
        actions[going] = random_actions(game, states[going], rng)
        yield states, actions
        states = states.copy()
        states[going] = game.apply(states[going], actions[going])
    yield states, np.full(count, -1, np.int32)


def midgame(game: Beacons, count: int, plies: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Positions after that many random plies, fewer than the cells."""
    states = game.initial(count)
    for _ in range(plies):
        states = game.apply(states, random_actions(game, states, rng))
    return states


def transformed(game: Beacons, states: NDArray[np.int8], symmetry: int) -> NDArray[np.int8]:
    """The positions with every stone where the symmetry takes it."""
    moved = states.copy()
    moved[:, game.symmetries[symmetry]] = states[:, : game.cells]
    return moved
