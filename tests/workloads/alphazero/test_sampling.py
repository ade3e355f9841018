from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.alphazero.dataset import Dataset
from hostler.workloads.alphazero.game import Game
from hostler.workloads.alphazero.sampling import (
    Examples,
    Visits,
    dense_policy,
    drawn_symmetries,
    held_out,
    inverse_action_maps,
)
from hostler.workloads.beacons.game import make as beacons
from tests.workloads.alphazero.datasets import heuristic_dataset
from tests.workloads.alphazero.trivial import make as spacing

GAMES: list[Any] = [spacing(7, 2), spacing(9, 3), beacons("hex4", 2), beacons("square5", 3)]


def data(game: Game, games: int = 6, seed: int = 1) -> Dataset:
    return heuristic_dataset(game, "c", games, seed)


def all_rows(dataset: Dataset) -> np.ndarray:
    return np.arange(len(dataset.states))


# ---- visits ------------------------------------------------------------------------------------------------------


@given(count=st.integers(1, 40), batch=st.integers(1, 100), seed=st.integers(0, 2**64 - 1))
@settings(max_examples=40, deadline=None)
def test_every_epoch_visits_every_row_once(count: int, batch: int, seed: int) -> None:
    rows = np.arange(count) * 3
    visits = Visits(rows, seed)
    seen = np.concatenate([visits.rows(step * batch, batch) for step in range(-(-3 * count // batch))])
    for epoch in range(3):
        assert sorted(seen[epoch * count : (epoch + 1) * count]) == list(rows)


@given(first=st.integers(0, 200), count=st.integers(1, 90))
@settings(max_examples=40, deadline=None)
def test_a_visit_depends_on_its_number_alone(first: int, count: int) -> None:
    whole = Visits(np.arange(50), 5).rows(0, 300)
    assert np.array_equal(Visits(np.arange(50), 5).rows(first, count), whole[first : first + count])


def test_epochs_and_seeds_differ() -> None:
    visits = Visits(np.arange(50), 5)
    assert not np.array_equal(visits.rows(0, 50), visits.rows(50, 50))
    assert not np.array_equal(visits.rows(0, 50), Visits(np.arange(50), 6).rows(0, 50))


def test_symmetries_are_drawn_evenly_and_from_the_step_alone() -> None:
    drawn = drawn_symmetries(3, 7, 12_000, 12)
    assert np.array_equal(drawn, drawn_symmetries(3, 7, 12_000, 12))
    assert not np.array_equal(drawn, drawn_symmetries(3, 8, 12_000, 12))
    assert (abs(np.bincount(drawn, minlength=12) - 1000) < 6 * 31).all()  # six standard deviations


# ---- what is held out --------------------------------------------------------------------------------------------


def test_games_are_held_out_as_a_whole_and_about_as_many_as_ordered() -> None:
    dataset = data(beacons("hex4", 2), games=400)
    out = held_out(dataset, 0.25)
    games_out = {game for game in range(400) if out[dataset.game == game].any()}
    assert all(out[dataset.game == game].all() for game in games_out)
    assert abs(len(games_out) - 100) < 6 * 9  # six standard deviations of the binomial distribution


def test_the_same_game_is_held_out_in_any_dataset_that_it_enters() -> None:
    dataset = data(beacons("hex4", 2), games=60)
    out = held_out(dataset, 0.3)
    later = dataset.game >= 20
    window = replace(dataset, **{name: getattr(dataset, name)[later] for name in ("states", "game", "ply")})
    window = replace(window, game=(59 - window.game).astype(np.int32))
    assert np.array_equal(held_out(window, 0.3), out[later])


@pytest.mark.parametrize("share", [1e-6, 0.5])
@pytest.mark.parametrize("games", [2, 3])
def test_few_games_leave_something_on_both_sides(share: float, games: int) -> None:
    for seed in range(12):
        out = held_out(data(spacing(9, 2), games, seed), share)
        assert 0 < out.sum() < len(out)


def test_copies_of_a_game_are_on_the_same_side() -> None:
    dataset = data(beacons("hex4", 2), games=50)
    twice = replace(
        dataset,
        states=np.concatenate([dataset.states, dataset.states]),
        game=np.concatenate([dataset.game, dataset.game + 50]),
    )
    first, second = np.split(held_out(twice, 0.3), 2)
    assert np.array_equal(first, second)


# ---- batches -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_a_batch_holds_what_the_dataset_holds(game: Game) -> None:
    dataset = data(game)
    rows = np.random.default_rng(0).permutation(len(dataset.states))[:20]
    batch = Examples(game, dataset).batch(rows)
    assert np.array_equal(batch.planes, game.encode(dataset.states[rows]))
    for at, row in enumerate(rows):
        entries = slice(dataset.policy_offsets[row], dataset.policy_offsets[row + 1])
        assert batch.policy[at, dataset.policy_action[entries]] == pytest.approx(dataset.policy_probability[entries])
        assert batch.policy[at].sum() == pytest.approx(1.0, abs=1e-5)
        mover = int(game.to_move(dataset.states[rows])[at])
        for after in range(game.players):
            assert batch.places[at, after] == dataset.places[row, (mover + after) % game.players]


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_a_turned_example_is_the_example_of_the_turned_position(game: Any) -> None:
    """Turned by hand: on both test games a row of states begins with one byte for every cell."""
    dataset = data(game)
    cells = len(game.graph)
    turned = dataset.states.copy()
    for symmetry in range(len(game.symmetries)):
        turned[:, game.symmetries[symmetry]] = dataset.states[:, :cells]
        rows = all_rows(dataset)
        batch = Examples(game, dataset).batch(rows, np.full(len(rows), symmetry))
        assert np.array_equal(batch.planes, game.encode(turned))
        assert np.array_equal(batch.legal, game.legal(turned))
        plain = dense_policy(dataset, rows, game.actions)
        assert np.array_equal(batch.policy[:, game.symmetries[symmetry]], plain[:, :cells])
        assert np.array_equal(batch.policy[:, cells:], plain[:, cells:])


def test_each_example_has_its_own_symmetry() -> None:
    game = beacons("hex4", 2)
    dataset = data(game)
    rows = np.full(12, 5)
    mixed = Examples(game, dataset).batch(rows, np.arange(12))
    for symmetry in range(12):
        alone = Examples(game, dataset).batch(rows[:1], np.array([symmetry]))
        assert np.array_equal(mixed.planes[symmetry], alone.planes[0])
        assert np.array_equal(mixed.policy[symmetry], alone.policy[0])


def test_root_values_are_turned_to_the_seat_to_move() -> None:
    game = spacing(9, 3)
    dataset = data(game)
    values = np.tile(np.array([0.1, 0.2, 0.3], np.float32), (len(dataset.states), 1))
    batch = Examples(game, replace(dataset, root_value=values)).batch(all_rows(dataset))
    mover = game.to_move(dataset.states)
    expected = np.array([[0.1, 0.2, 0.3], [0.2, 0.3, 0.1], [0.3, 0.1, 0.2]], np.float32)[mover]
    assert np.array_equal(batch.root_value, expected)


def test_actions_off_the_board_stay_under_every_symmetry() -> None:
    maps = inverse_action_maps(beacons("hex4", 2))
    assert (maps[:, 19] == 19).all()
    assert (np.sort(maps, axis=1) == np.arange(20)).all()
