import itertools

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hostler.workloads.alphazero.canonical import canonical, keys_of, openings_possible, sequences_of
from hostler.workloads.alphazero.game import Game
from hostler.workloads.beacons.game import make as beacons
from tests.workloads.alphazero.stages import played, segment_of
from tests.workloads.alphazero.trivial import make

PATH = make(5)
BOARD = beacons("hex8", 2)


def images(game: Game, actions: list[int]) -> list[list[int]]:
    cells = game.symmetries.shape[1]
    return [[int(image[a]) if 0 <= a < cells else a for a in actions] for image in game.symmetries]


def form(game: Game, actions: list[int]) -> list[int]:
    found: list[int] = canonical(game, np.array([actions], np.int32))[0].tolist()
    return found


def test_a_pass_and_the_filling_stay_and_cells_are_mirrored() -> None:
    assert form(PATH, [4, 5, 1, -1]) == [0, 5, 3, -1]
    assert form(PATH, [2, 0, 4]) == [2, 0, 4]
    assert form(PATH, [2, 4, 0]) == [2, 0, 4]


@given(st.lists(st.integers(0, BOARD.actions - 1), min_size=1, max_size=6), st.integers(0, 11))
def test_all_images_have_one_form_which_is_the_least_and_so_are_its_beginnings(actions: list[int], which: int) -> None:
    least = min(images(BOARD, actions))
    assert form(BOARD, actions) == least
    assert form(BOARD, images(BOARD, actions)[which]) == least
    assert form(BOARD, actions[:2]) == least[:2]


def test_sequences_are_filled_up_and_keys_do_not_depend_on_the_filling() -> None:
    segment = segment_of([played(PATH, [1, 3]), played(PATH, [0, 2, 4]), played(PATH, [3, 1])], PATH)
    assert sequences_of(segment, np.array([0, 1])).tolist() == [[1, 3, -1], [0, 2, 4]]
    assert sequences_of(segment, np.array([2])).tolist() == [[3, 1]]
    keys = [keys_of(sequences_of(segment, np.array(games))) for games in ([0, 1], [0], [1])]
    assert keys[0] == keys[1] + keys[2]
    assert len(set(keys[0])) == 2


def test_nothing_has_no_keys() -> None:
    segment = segment_of([played(PATH, [1, 3])], PATH)
    assert keys_of(canonical(PATH, sequences_of(segment, np.empty(0, np.int64)))) == []


def by_hand(game: Game, plies: int) -> int:
    forms = set()
    for actions in itertools.product(range(-1, game.actions), repeat=plies):
        states, legal = game.initial(1), True
        for action in actions:
            over = game.terminal(states)[0]
            legal = legal and (action == -1 if over else action >= 0 and bool(game.legal(states)[0, action]))
            if legal and not over:
                states = game.apply(states, np.array([action], np.int32))
        if legal:
            forms.add(min(tuple(image) for image in images(game, list(actions))))
    return len(forms)


@pytest.mark.parametrize("plies", [0, 1, 2, 3, pytest.param(4, marks=pytest.mark.long)])
def test_the_number_of_openings_is_that_of_all_legal_ones_up_to_symmetry(plies: int) -> None:
    assert openings_possible(PATH, plies) == by_hand(PATH, plies)


def test_of_a_real_board_there_are_as_many_first_moves_as_kinds_of_cells_and_then_no_end() -> None:
    kinds = len({min(BOARD.symmetries[:, cell]) for cell in range(61)})
    assert openings_possible(BOARD, 1) == kinds
    assert openings_possible(BOARD, 2) == float("inf")
