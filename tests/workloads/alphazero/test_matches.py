from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hostler.workloads.alphazero.game import Game, States
from hostler.workloads.alphazero.matches import AT_ONCE, Match, Record, openings, play
from hostler.workloads.alphazero.players import GreedyPlayer, Player, RandomPlayer
from hostler.workloads.beacons.game import make as beacons
from tests.workloads.alphazero.trivial import make as spacing

GAMES: list[Any] = [spacing(9, 2), spacing(9, 3), beacons("hex4", 2), beacons("square5", 4)]


def players_of(game: Game) -> dict[str, Player]:
    return {"random": RandomPlayer(game), "greedy": GreedyPlayer(game)}


def replayed(game: Game, record: Record) -> States:
    states = game.initial(1)
    for action in record.actions:
        assert game.legal(states)[0, action]
        states = game.apply(states, np.array([action], np.int32))
    return states


class Watched:
    """Plays what another does, and notes whom it was asked to move for."""

    def __init__(self, game: Game, player: Player) -> None:
        self.game, self.player = game, player
        self.seats: Counter[int] = Counter()
        self.calls: list[int] = []

    def choose(self, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
        self.seats.update(self.game.to_move(states).tolist())
        self.calls.append(len(states))
        assert not self.game.terminal(states).any()
        return self.player.choose(states, seeds)


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_every_game_replays_to_its_ranking(game: Game) -> None:
    records = play(game, [Match("random", "greedy", 3)], players_of(game), 2, 7)
    for record in records:
        states = replayed(game, record)
        assert game.terminal(states)[0]
        assert record.ranking.tolist() == game.ranking(states)[0].tolist()


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.name)
def test_a_group_is_one_opening_with_a_in_every_seat(game: Game) -> None:
    records = play(game, [Match("random", "greedy", 4), Match("greedy", "random", 2)], players_of(game), 2, 7)
    told = [(record.match, record.group, record.seat) for record in records]
    assert told == [(match, group, seat) for match, groups in ((0, 4), (1, 2)) for group in range(groups)
                    for seat in range(game.players)]  # fmt: skip
    for record in records:
        first = next(each for each in records if (each.match, each.group) == (record.match, record.group))
        assert record.actions[:2] == first.actions[:2]


def test_openings_are_different_where_they_can_be() -> None:
    game = beacons("hex4", 2)
    states, actions = openings(game, 60, 2, np.arange(480, dtype=np.uint64))
    assert len(np.unique(states, axis=0)) == 60
    assert actions.shape == (60, 2)
    states, _ = openings(game, 60, 1, np.arange(480, dtype=np.uint64))
    _, counts = np.unique(states, axis=0, return_counts=True)
    assert len(counts) == 19
    assert set(counts) <= {3, 4}


def test_openings_are_on_cells_and_a_swap_is_possible_after_one_ply_but_not_after_two() -> None:
    game = beacons("hex4", 2)
    states, actions = openings(game, 400, 2, np.arange(3200, dtype=np.uint64))
    assert actions.max() < 19
    assert actions.min() == 0
    assert not game.legal(states)[:, 19].any()
    after_one, _ = openings(game, 400, 1, np.arange(3200, dtype=np.uint64))
    assert game.legal(after_one)[:, 19].all()


def test_an_opening_stops_short_of_the_end_of_the_game() -> None:
    game = spacing(4, 2)
    states, actions = openings(game, 50, 5, np.arange(400, dtype=np.uint64))
    assert not game.terminal(states).any()
    for row in actions:
        played = (row >= 0).sum()
        assert (row[:played] >= 0).all()
    records = play(game, [Match("random", "greedy", 20)], players_of(game), 5, 1)
    for record in records:
        assert game.terminal(replayed(game, record))[0]


def test_without_an_opening_the_players_play_from_the_start() -> None:
    game = beacons("hex4", 2)
    records = play(game, [Match("greedy", "random", 6)], players_of(game), 0, 3)
    assert {len(record.actions) for record in records} <= {19, 20}


@pytest.mark.parametrize("players", [2, 3, 4])
def test_a_sits_where_the_record_says(players: int) -> None:
    """Greedy against random: the seat of greedy is best far more often than chance, whichever it is."""
    game = beacons("hex4", players)
    records = play(game, [Match("greedy", "random", 60)], players_of(game), 2, 5)
    for seat in range(players):
        won = [record.ranking[seat] == 0 for record in records if record.seat == seat]
        assert np.mean(won) > 1.5 / players


def test_each_player_is_asked_for_all_its_games_at_once_and_only_in_its_turn() -> None:
    game = beacons("hex4", 3)
    a, b = Watched(game, RandomPlayer(game)), Watched(game, GreedyPlayer(game))
    play(game, [Match("a", "b", 5)], {"a": a, "b": b}, 0, 5)
    assert sum(a.calls) == 5 * 19
    assert sum(b.calls) == 2 * 5 * 19
    assert set(a.seats) == set(b.seats) == {0, 1, 2}
    assert len(a.calls) == len(b.calls) == 19
    assert a.calls[0] == 5


def test_no_player_is_asked_about_too_many_positions_at_once() -> None:
    game = spacing(5, 2)
    a = Watched(game, RandomPlayer(game))
    play(game, [Match("a", "a", AT_ONCE)], {"a": a}, 0, 5)
    assert max(a.calls) == AT_ONCE


def test_a_player_can_meet_itself() -> None:
    game = beacons("hex4", 2)
    records = play(game, [Match("greedy", "greedy", 2)], players_of(game), 2, 5)
    assert len(records) == 4


def test_all_comes_from_the_seed() -> None:
    game = beacons("hex4", 2)
    matches = [Match("random", "greedy", 5), Match("random", "greedy", 5)]

    def actions(seed: int) -> list[tuple[int, ...]]:
        return [record.actions for record in play(game, matches, players_of(game), 2, seed)]

    assert actions(1) == actions(1)
    assert not set(actions(1)) & set(actions(2))
    assert len(set(actions(1))) == 20
