"""Boards against plain geometry, and their beacons against the rule by which they are said to be chosen."""

import numpy as np
import pytest

from hostler.workloads.beacons.boards import board
from hostler.workloads.beacons.configs import BOARDS

from .oracle import ROWS, neighbours, places
from .spread import chosen, distances

BEACONS = {"hex4": 7, "hex6": 7, "hex8": 13, "hexagonal": 37, "square5": 5, "square8": 13, "square19": 37}
SYMMETRIES = {"hex4": 12, "hex6": 12, "hex8": 12, "hexagonal": 12, "square5": 8, "square8": 2, "square19": 8}


@pytest.mark.parametrize("name", BOARDS)
def test_neighbours_are_the_cells_one_step_away(name: str) -> None:
    graph = board(name).graph
    assert graph.dtype == np.int32
    assert [set(row[row >= 0].tolist()) for row in graph] == neighbours(name)


@pytest.mark.parametrize("name", BOARDS)
def test_a_direction_leads_the_same_way_from_everywhere(name: str) -> None:
    graph, at = board(name).graph, np.array(places(name))
    for direction in range(graph.shape[1]):
        there = graph[:, direction]
        ways = at[there[there >= 0]] - at[there >= 0]
        assert np.allclose(ways, ways[0])


@pytest.mark.parametrize("name", BOARDS)
def test_rows_are_those_of_the_picture(name: str) -> None:
    assert [len(row) for row in board(name).rows] == ROWS[name]
    assert [cell for row in board(name).rows for cell in row] == list(range(sum(ROWS[name])))


@pytest.mark.parametrize("name", BOARDS)
def test_symmetries_are_a_group_that_keeps_neighbours_and_beacons(name: str) -> None:
    shown = board(name)
    known = {tuple(row) for row in shown.symmetries.tolist()}
    assert len(known) == len(shown.symmetries) == SYMMETRIES[name]
    assert shown.symmetries[0].tolist() == list(range(len(shown.graph)))
    for moved in shown.symmetries:
        assert (shown.beacons[moved] == shown.beacons).all()
        assert [{int(moved[c]) for c in near} for near in neighbours(name)] == [neighbours(name)[int(c)] for c in moved]
        assert {tuple(moved[other].tolist()) for other in shown.symmetries} == known


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=pytest.mark.long if BEACONS[each] > 13 else ()) for each in BOARDS]
)
def test_beacons_are_what_the_rule_gives(name: str) -> None:
    shown = board(name)
    assert shown.beacons.sum() == BEACONS[name]
    assert set(np.flatnonzero(shown.beacons).tolist()) == chosen(name, shown.symmetries, BEACONS[name])


def test_no_more_symmetries_of_the_even_square_leave_an_odd_number_of_beacons() -> None:
    """Orbits under any group that is larger than one diagonal reflection, or other than it, are all even."""
    side = 8
    cells = np.arange(side * side).reshape(side, side)
    turns = [np.rot90(cells, k) for k in range(4)] + [np.rot90(cells, k).T for k in range(4)]
    fixing = [turn for turn in turns[1:] if (turn == cells).any()]
    assert len(fixing) == 2  # the two diagonals: an odd orbit has one cell, which every symmetry of the group must fix
    assert not ((fixing[0] == cells) & (fixing[1] == cells)).any()


def test_hexagons_are_named_after_twice_their_radius() -> None:
    for name in ("hex4", "hex6", "hex8"):
        assert distances(name).max() == int(name.removeprefix("hex"))


def test_boards_cannot_be_written_to_because_games_share_them() -> None:
    shown = board("hex4")
    for array in (shown.graph, shown.beacons, shown.symmetries):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_an_unknown_board_is_named() -> None:
    with pytest.raises(ValueError, match="no board 'hex5'; choose one of hex4"):
        board("hex5")
