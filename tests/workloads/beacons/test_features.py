"""What a network is shown, and what the fast engine thinks."""

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from hostler.workloads.beacons.configs import BOARDS, PLAYERS
from hostler.workloads.beacons.game import Beacons, make

from . import oracle
from .support import few, games, midgame, random_actions, random_game, seeds, small_games, transformed


def described(game: Beacons, state: NDArray[np.int8]) -> dict[str, NDArray[np.float64]]:
    """The planes of a position by name, worked out by the plain rules."""
    position = oracle.from_state(game.board.name, game.players, state)
    moving = position.side_to_move
    beacons, size = game.board.beacons.sum() / 2, game.cells / 2
    planes = {name: np.zeros(game.cells) for name in game.plane_names}
    planes["empty cells"][list(position.empty)] = 1
    planes["beacons"][:] = game.board.beacons
    planes["share of cells taken"][:] = position.stones / game.cells
    planes["whether the sides may be swapped"][:] = game.cells in position.legal()
    for turn in range(game.players):
        side, seat = (moving + turn) % game.players, f"seat {turn}"
        planes[f"stones of {seat}"][list(position.sides[side])] = 1
        best = max(position.value(side), default=(0, 0))
        planes[f"beacons of the greatest group of {seat}"][:] = best[0] / beacons
        planes[f"size of the greatest group of {seat}"][:] = best[1] / size
        for cell in position.empty:
            held, stones = position.group_with(cell, side)
            planes[f"beacons of the group {seat} would have here"][cell] = held / beacons
            planes[f"size of the group {seat} would have here"][cell] = stones / size
        for cell in position.sides[side]:
            held, stones = position.group_with(cell, side)
            planes["beacons of the stone's group"][cell] = held / beacons
            planes["size of the stone's group"][cell] = stones / size
    return planes


@few
@given(games, seeds)
def test_planes_are_what_their_names_say(game: Beacons, seed: int) -> None:
    rng = np.random.default_rng(seed)
    states = midgame(game, 2, int(rng.integers(game.cells)), rng)
    planes = game.encode(states)
    assert planes.dtype == np.float32
    for state, shown in zip(states, planes, strict=True):
        for at, (name, plane) in enumerate(described(game, state).items()):
            np.testing.assert_allclose(shown[at], plane, rtol=1e-6, err_msg=name)


def test_early_positions_are_described_too_with_the_swap_and_without() -> None:
    for players in PLAYERS:
        game = make("hex4", players)
        for states, _ in random_game(game, 6, np.random.default_rng(7)):
            for state, shown in zip(states, game.encode(states), strict=True):
                np.testing.assert_allclose(shown, list(described(game, state).values()), rtol=1e-6)


@few
@given(games, seeds)
def test_planes_and_scores_turn_with_the_board(game: Beacons, seed: int) -> None:
    rng = np.random.default_rng(seed)
    states = midgame(game, 3, int(rng.integers(game.cells)), rng)
    planes, scores = game.encode(states), game.heuristic(states)
    for symmetry, moved in enumerate(game.symmetries):
        turned = transformed(game, states, symmetry)
        assert (game.encode(turned)[:, :, moved] == planes).all()
        np.testing.assert_allclose(game.heuristic(turned)[:, moved], scores[:, : game.cells], rtol=1e-5)


@few
@given(games, seeds)
def test_scores_are_finite_exactly_where_an_action_is_legal(game: Beacons, seed: int) -> None:
    for states, _ in random_game(game, 2, np.random.default_rng(seed)):
        scores = game.heuristic(states)
        assert scores.dtype == np.float32
        assert (np.isfinite(scores) == game.legal(states)).all()
        assert not np.isnan(scores).any()


@few
@given(small_games, seeds)
def test_scores_know_no_seats_but_turn_order(game: Beacons, seed: int) -> None:
    """Sides that were swapped have other owners: what is good for the side to move stays good."""
    if game.players > 2:
        return
    states = midgame(game, 4, 9, np.random.default_rng(seed))
    other = states.copy()
    other[:, game.cells] ^= 1
    assert (game.heuristic(other) == game.heuristic(states)).all()
    assert (game.encode(other) == game.encode(states)).all()


def test_joining_groups_beats_anything_else_and_so_does_keeping_others_apart() -> None:
    game = make("hex6", 2)
    row = np.zeros((1, game.cells + 1), np.int8)
    row[0, [15, 16, 18]] = 1  # a corner and the middle, held by side 0, with one cell between
    row[0, [36, 29, 21]] = 2
    assert game.heuristic(row).argmax() == 17
    row[0, 35] = 1  # and now it is side 1 that moves, and is to deny it
    assert game.to_move(row).tolist() == [1]
    assert game.heuristic(row).argmax() == 17


@pytest.mark.parametrize("name", BOARDS)
def test_a_strong_first_stone_is_swapped_and_a_weak_one_is_not(name: str) -> None:
    game = make(name, 2)
    middle = int(np.argmin([sum(d) for d in _centrality(game)]))
    weak = next(cell for cell in range(game.cells) if (game.graph[cell] < 0).any() and not game.board.beacons[cell])
    after = game.apply(game.initial(2), np.array([middle, weak], np.int32))
    scores = game.heuristic(after)
    assert scores[0].argmax() == game.cells
    assert scores[1].argmax() != game.cells
    assert scores[0, game.cells] > np.log(np.exp(scores[0, : game.cells].astype(float)).sum())
    opening = game.heuristic(game.initial(1))[0]
    assert opening[weak] == opening.max() > opening[middle]


def _centrality(game: Beacons) -> list[tuple[float, float]]:
    at = np.array(oracle.places(game.board.name))
    return [tuple(np.abs(place - at.mean(axis=0))) for place in at]


@pytest.mark.parametrize(("players", "share"), [(2, 0.99), (3, 0.9), (4, 0.85)])
def test_greedy_beats_random(players: int, share: float) -> None:
    """One greedy seat, by turns, against random ones."""
    game, count, rng = make("hex8", players), 240, np.random.default_rng(0)
    states, greedy = game.initial(count), np.arange(count) % players
    while not (over := game.terminal(states)).all():
        going = np.flatnonzero(~over)
        chosen = random_actions(game, states[going], rng)
        mine = game.to_move(states[going]) == greedy[going]
        chosen[mine] = game.heuristic(states[going][mine]).argmax(axis=1)
        states[going] = game.apply(states[going], chosen)
    assert (game.ranking(states)[np.arange(count), greedy] == 0).mean() >= share
