"""The compiled rules against the plain ones, in random games on all boards for two, three and four players."""

import numpy as np
import pytest
from hypothesis import example, given

from hostler.workloads.alphazero.game import Game, PlaysOut, load
from hostler.workloads.beacons.configs import BOARDS, PLAYERS
from hostler.workloads.beacons.game import Beacons, make

from . import oracle
from .support import few, games, midgame, random_game, seeds, small_games, transformed


@pytest.mark.parametrize("players", PLAYERS)
@pytest.mark.parametrize("name", BOARDS)
def test_every_game_is_a_game_of_the_loop(name: str, players: int) -> None:
    game = load({"factory": "hostler.workloads.beacons.game:make", "params": {"board": name, "players": players}})
    assert isinstance(game, Game)
    assert isinstance(game, PlaysOut)
    assert game.name == f"beacons {name} {players}p"
    assert game.actions == game.max_plies == len(game.graph) + (players == 2)
    assert game.encode(game.initial(2)).shape == (2, game.planes, len(game.graph))


@few
@given(games, seeds)
@example(Beacons("hexagonal", 2), 0)
@example(Beacons("square19", 4), 0)
def test_a_random_game_is_the_same_by_the_plain_rules(game: Beacons, seed: int) -> None:
    position = oracle.start(game.board.name, game.players)
    plies = 0
    for states, actions in random_game(game, 1, np.random.default_rng(seed)):
        assert set(np.flatnonzero(game.legal(states)[0]).tolist()) == position.legal()
        assert oracle.from_state(game.board.name, game.players, states[0]) == position
        assert bool(game.terminal(states)[0]) == (not position.empty)
        if position.empty:
            assert game.to_move(states)[0] == position.seat_of(position.side_to_move)
            position, plies = position.play(int(actions[0])), plies + 1
    assert game.ranking(states)[0].tolist() == position.ranking()
    assert plies == game.cells + position.swapped <= game.max_plies


@few
@given(small_games, seeds)
def test_games_side_by_side_rank_as_by_the_plain_rules(game: Beacons, seed: int) -> None:
    *_, (states, _) = random_game(game, 40, np.random.default_rng(seed))
    wanted = [oracle.from_state(game.board.name, game.players, state).ranking() for state in states]
    assert game.ranking(states).tolist() == wanted


@few
@given(games, seeds)
def test_a_game_turned_round_ranks_the_same(game: Beacons, seed: int) -> None:
    *_, (states, _) = random_game(game, 3, np.random.default_rng(seed))
    for symmetry in range(len(game.symmetries)):
        assert (game.ranking(transformed(game, states, symmetry)) == game.ranking(states)).all()


def test_players_swap_sides_and_stones_stay() -> None:
    game = make("square5", 2)
    first = game.apply(game.initial(1), np.array([7], np.int32))
    assert game.to_move(first).tolist() == [1]
    swapped = game.apply(first, np.array([game.cells], np.int32))
    assert game.to_move(swapped).tolist() == [0]
    assert not game.legal(swapped)[0, game.cells]
    assert (swapped[0, : game.cells] == first[0, : game.cells]).all()
    assert game.ranking(first).tolist() == [[0, 1]]
    assert game.ranking(swapped).tolist() == [[1, 0]]


@pytest.mark.parametrize("swapped", [0, 1])
def test_of_equal_sides_the_later_one_ranks_higher(swapped: int) -> None:
    game = make("hex4", 2)
    row = np.zeros((1, game.cells + 1), np.int8)
    row[0, [0, 2]], row[0, game.cells] = [1, 2], swapped  # two corners, a beacon each
    assert game.ranking(row).tolist() == [[0, 1] if swapped else [1, 0]]


@pytest.mark.parametrize("players", [3, 4])
def test_of_equal_sides_the_last_is_first(players: int) -> None:
    game = make("hex4", players)
    row = np.zeros((1, game.cells + 1), np.int8)
    row[0, [0, 2, 16, 18][:players]] = np.arange(1, players + 1)
    assert game.ranking(row).tolist() == [list(range(players))[::-1]]


def test_beacons_count_before_size_and_the_greatest_groups_first() -> None:
    game = make("hex6", 2)
    corners, middle = [0, 3, 15, 21, 33, 36], 18
    assert set(np.flatnonzero(game.board.beacons).tolist()) == {*corners, middle}
    row = np.zeros((1, game.cells + 1), np.int8)
    row[0, : game.cells] = 2
    row[0, [15, 16, 17, 18]] = 1  # a corner joined to the middle: two beacons, against five in the rest of the board
    assert game.ranking(row).tolist() == [[1, 0]]
    ring = [at for at in range(game.cells) if at in oracle.neighbours("hex6")[middle]]
    row[0, : game.cells] = 0
    row[0, ring], row[0, 0] = 2, 1  # six stones around the middle hold nothing, one in the corner a beacon
    assert game.ranking(row).tolist() == [[0, 1]]


def test_a_list_that_ends_first_is_the_lower() -> None:
    game = make("hex6", 3)
    row = np.zeros((1, game.cells + 1), np.int8)
    row[0, [0, 10, 3]] = [1, 1, 2]
    assert game.ranking(row).tolist() == [[0, 1, 2]]


def test_methods_leave_their_arguments_alone() -> None:
    game = make("hex8", 2)
    states = midgame(game, 5, 20, np.random.default_rng(0))
    kept = states.copy()
    states.setflags(write=False)
    action = np.argmax(game.legal(states), axis=1).astype(np.int32)
    game.apply(states, action)
    game.playouts(states, np.arange(5, dtype=np.uint64))
    for method in (game.to_move, game.legal, game.terminal, game.ranking, game.encode, game.heuristic):
        method(states)
    assert (states == kept).all()


def test_any_layout_of_the_arrays_will_do() -> None:
    game = make("hex8", 3)
    states = midgame(game, 8, 20, np.random.default_rng(0))
    assert (game.encode(np.asfortranarray(states)) == game.encode(states)).all()
    assert (game.ranking(states[::2]) == game.ranking(states)[::2]).all()
    assert game.ranking(states[:0]).shape == (0, 3)


def test_positions_of_another_game_are_refused() -> None:
    game, other = make("hex8", 2), make("square8", 2)
    with pytest.raises(ValueError, match="beacons hex8 2p: positions have 62 bytes each, not shape"):
        game.legal(other.initial(3))


@pytest.mark.parametrize(("at", "value"), [(3, 3), (3, -1), (61, 2), (61, -1)])
def test_damaged_positions_are_refused(at: int, value: int) -> None:
    game = make("hex8", 2)
    states = game.initial(4)
    states[2, at] = value
    with pytest.raises(ValueError, match="1 bytes of these 4 positions stand for nothing"):
        game.ranking(states)


def test_nobody_swaps_among_three() -> None:
    states = make("hex8", 3).initial(1)
    states[0, 61] = 1
    with pytest.raises(ValueError, match="stand for nothing"):
        make("hex8", 3).encode(states)


@pytest.mark.parametrize("actions", [[62], [-1], [0, 0]])
def test_actions_that_are_none_are_refused(actions: list[int]) -> None:
    game = make("hex8", 2)
    with pytest.raises(ValueError, match="one action of 0 to 61 for each of 1 positions"):
        game.apply(game.initial(1), np.array(actions, np.int32))


@pytest.mark.parametrize(
    ("board", "players", "message"),
    [("hex9", 2, "board: there is no board 'hex9'"), ("hex8", 5, "players: 5"), ("hex8", True, "players: True")],
)
def test_games_that_are_not_there_are_refused(board: str, players: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(board, players)
