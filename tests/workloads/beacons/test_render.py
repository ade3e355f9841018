"""Boards as people see them."""

import subprocess
import sys

import numpy as np
import pytest

from hostler.workloads.beacons.boards import board
from hostler.workloads.beacons.configs import BOARDS
from hostler.workloads.beacons.game import make
from hostler.workloads.beacons.render import board_text, cell_of

from .support import midgame

HEX4 = """\
      3 4 5
a3    * . *
b2   o x . .
c1  * . X . *
d1   . . . .
e1    * . *"""


def test_a_board_is_drawn() -> None:
    row = np.zeros(20, np.int8)
    row[[3, 4, 9]] = [2, 1, 1]
    assert board_text(board("hex4"), row) == HEX4


@pytest.mark.parametrize("name", BOARDS)
def test_boards_fit_a_terminal_and_show_every_cell(name: str) -> None:
    shown = board(name)
    lines = board_text(shown, np.zeros(len(shown.graph) + 1, np.int8)).splitlines()
    assert max(map(len, lines)) <= 80
    drawn = "".join(line[4:] for line in lines[-len(shown.rows) :])
    assert drawn.count("*") == shown.beacons.sum()
    assert drawn.count("*") + drawn.count(".") == len(shown.graph)


@pytest.mark.parametrize("name", BOARDS)
def test_cells_are_known_by_their_names(name: str) -> None:
    shown = board(name)
    assert len(set(shown.names)) == len(shown.names) == len(shown.graph)
    assert [cell_of(shown, each.upper()) for each in shown.names] == list(range(len(shown.graph)))


def test_columns_are_straight_lines() -> None:
    shown = board("hexagonal")
    for cell, near in enumerate(shown.graph[:, 5]):  # down to the right
        if near >= 0:
            assert shown.names[near][1:] == shown.names[cell][1:]


@pytest.mark.parametrize("name", ["z1", "a99", "", "5", "swap"])
def test_what_names_no_cell_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"there is no cell .* on hex8; cells are a5 to i5"):
        cell_of(board("hex8"), name)


def test_actions_have_names_and_the_swap_too() -> None:
    two, three = make("hex8", 2), make("hex8", 3)
    assert [two.action_of(two.action_name(action)) for action in range(two.actions)] == list(range(two.actions))
    assert two.action_name(61) == "swap"
    assert two.action_of(" Swap ") == 61
    with pytest.raises(ValueError, match="no cell 'swap'"):
        three.action_of("swap")


def test_a_position_tells_who_is_to_move_and_who_holds_what() -> None:
    game = make("hex4", 2)
    states = game.apply(game.initial(1), np.array([9], np.int32))
    assert game.text(states[0]).splitlines()[-3:] == [
        "groups of each seat, as beacons:stones; > is to move",
        "  seat 0 (x)  1:1",
        "> seat 1 (o)  no groups yet",
    ]
    swapped = game.apply(states, np.array([19], np.int32))
    assert game.text(swapped[0]).splitlines()[-2:] == ["> seat 0 (o)  no groups yet", "  seat 1 (x)  1:1"]


@pytest.mark.parametrize("players", [2, 3, 4])
def test_long_positions_fit_a_terminal_too(players: int) -> None:
    game = make("hexagonal", players)
    text = game.text(midgame(game, 1, 300, np.random.default_rng(0))[0])
    assert max(map(len, text.splitlines())) <= 80


def test_a_board_is_shown_on_the_command_line() -> None:
    command = [sys.executable, "-m", "hostler.workloads.beacons", "hex8"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("hex8: 61 cells, 13 beacons (*), 12 symmetries\n")
    assert len(ran.stdout.splitlines()) == 12
