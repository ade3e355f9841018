"""Boards for people: text, and names of cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.beacons.boards import Board

STONES = "xoav"
EMPTY, BEACON = ".", "*"


def cell_of(board: Board, name: str) -> int:
    """The cell of that name, in small letters or capitals; raises `ValueError` if there is none."""
    wanted = name.strip().lower()
    if wanted not in board.names:
        raise ValueError(f"there is no cell {name!r} on {board.name}; cells are {board.names[0]} to {board.names[-1]}")
    return board.names.index(wanted)


def board_text(board: Board, row: NDArray[np.int8]) -> str:
    """The stones of a state; capitals and `*` are beacons. A row begins with the name of its first cell."""
    lines = [_line(board, cells, row) for cells in board.rows]
    return "\n".join([*_header(board), *lines])


def groups(board: Board, row: NDArray[np.int8], side: int) -> list[tuple[int, int]]:
    """The groups of a side as (beacons, size), the greatest first."""
    left = {cell for cell in range(len(board.graph)) if row[cell] == side + 1}
    found = []
    while left:
        group = _group(board, left.pop(), left)
        found.append((int(board.beacons[group].sum()), len(group)))
    return sorted(found, reverse=True)


def _group(board: Board, first: int, left: set[int]) -> list[int]:
    """The group of `first`, whose other cells are taken out of `left`."""
    group = [first]
    for cell in group:
        near = left.intersection(board.graph[cell].tolist())
        left -= near
        group += near
    return group


def _line(board: Board, cells: range, row: NDArray[np.int8]) -> str:
    marks = " ".join(_mark(int(row[cell]), bool(board.beacons[cell])) for cell in cells)
    return f"{board.names[cells[0]]:4}{' ' * _indent(board, cells)}{marks}"


def _indent(board: Board, cells: range) -> int:
    """Half a cell, one character, for every cell that the row is shorter than the longest."""
    return max(map(len, board.rows)) - len(cells)


def _mark(stone: int, beacon: bool) -> str:
    if stone == 0:
        return BEACON if beacon else EMPTY
    mark = STONES[stone - 1]
    return mark.upper() if beacon else mark


def _header(board: Board) -> Iterator[str]:
    """The columns of the top row, a digit in a line."""
    top = board.rows[0]
    numbers = [board.names[cell][1:] for cell in top]
    width = max(map(len, numbers))
    for digit in range(width):
        yield f"{'':4}{' ' * _indent(board, top)}{_digits(numbers, width, digit)}".rstrip()


def _digits(numbers: Sequence[str], width: int, digit: int) -> str:
    return " ".join(number.rjust(width)[digit] for number in numbers)
