"""The boards: cells, neighbours, beacons, symmetries. All are worked out from a size and a few beacons.

A *hexagon* of radius `r` has cells at axial coordinates `(q, r)` (Red Blob Games, "Hexagonal Grids"). Hexagons are
named after twice their radius, as `hex8` (radius 4) is, but for the largest, which is just `hexagonal` (radius 12).
A *square* of side `n` has cells at coordinates `-(n - 1), -(n - 3), ..., n - 1`, so that its middle is the origin too.
Cells are numbered row by row from the top, in a row from the left.

Beacons are given by one cell of every orbit under the board's symmetries. They are, of all sets of that number which
keep those symmetries, the ones whose two closest beacons are farthest apart; then the farthest cell from a beacon is
nearest; then cells are nearest to beacons on average; then their orbits come first. `hexagonal` and `square19`
have 37, `hex8` and `square8` 13, `hex4` and `hex6` 7, `square5` 5. An odd number that keeps all symmetries needs a
cell in the middle. A square of even side has none, and under each group of its symmetries all orbits are even, but
for a single diagonal reflection: that is what `square8` keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from string import ascii_lowercase
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.beacons.configs import BOARDS

Cell: TypeAlias = tuple[int, int]
Turn: TypeAlias = Callable[[Cell], Cell]
T = TypeVar("T", bound=np.generic)

HEXAGON_STEPS: tuple[Cell, ...] = ((1, 0), (1, -1), (0, -1), (-1, 0), (-1, 1), (0, 1))
SQUARE_STEPS: tuple[Cell, ...] = ((2, 0), (0, -2), (-2, 0), (0, 2))


def _mirror(cell: Cell) -> Cell:
    return cell[1], cell[0]


def _turn_hexagon(cell: Cell) -> Cell:
    return -cell[1], cell[0] + cell[1]


def _turn_square(cell: Cell) -> Cell:
    return -cell[1], cell[0]


@dataclass(frozen=True)
class Shape:
    """Cells in the order of their numbers, the step to the neighbour in each direction, what generates symmetries."""

    cells: tuple[Cell, ...]
    steps: tuple[Cell, ...]
    turns: tuple[Turn, ...]


@dataclass(frozen=True)
class Board:
    """A board: `turns` generate the symmetries that keep the beacons, of which `seeds` names one for every orbit."""

    name: str
    shape: Shape
    turns: tuple[Turn, ...]
    seeds: tuple[Cell, ...]

    @cached_property
    def graph(self) -> NDArray[np.int32]:
        """`(cells, directions)`: the neighbour of each cell in each direction, -1 where there is none."""
        number = {cell: at for at, cell in enumerate(self.shape.cells)}
        rows = [[number.get((q + dq, r + dr), -1) for dq, dr in self.shape.steps] for q, r in self.shape.cells]
        return _frozen(np.array(rows, np.int32))

    @cached_property
    def beacons(self) -> NDArray[np.bool_]:
        """`(cells,)`: which cells are beacons."""
        held = {cell for seed in self.seeds for cell in orbit(seed, self.turns)}
        return _frozen(np.array([cell in held for cell in self.shape.cells]))

    @cached_property
    def symmetries(self) -> NDArray[np.int32]:
        """`(symmetries, cells)`: where each cell goes under each symmetry that is kept, the identity first."""
        generators = [self._permutation(turn) for turn in self.turns]
        known = [tuple(range(len(self.shape.cells)))]
        for permutation in known:  # grows while it is walked, until products give nothing new
            products = [tuple(generator[cell] for cell in permutation) for generator in generators]
            known += [product for product in products if product not in known]
        return _frozen(np.array(known, np.int32))

    @cached_property
    def rows(self) -> tuple[range, ...]:
        """The cells of each row, from the top."""
        rows = [r for _, r in self.shape.cells]
        starts = [at for at, row in enumerate(rows) if at == 0 or rows[at - 1] != row]
        return tuple(range(*pair) for pair in zip(starts, [*starts[1:], len(rows)], strict=True))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Such as `d5`: the letter of the row, from the top, and the number of the column, which slants on hexagons."""
        columns = sorted({q for q, _ in self.shape.cells})
        letters = [letter for letter, row in zip(ascii_lowercase, self.rows, strict=False) for _ in row]
        return tuple(f"{letters[at]}{columns.index(q) + 1}" for at, (q, _) in enumerate(self.shape.cells))

    def _permutation(self, turn: Turn) -> tuple[int, ...]:
        number = {cell: at for at, cell in enumerate(self.shape.cells)}
        return tuple(number[turn(cell)] for cell in self.shape.cells)


def hexagon(radius: int) -> Shape:
    """A hexagon with `radius` cells from its middle to an edge; its symmetries are the twelve of D6."""
    span = range(-radius, radius + 1)
    cells = tuple((q, r) for r in span for q in span if abs(q + r) <= radius)
    return Shape(cells, HEXAGON_STEPS, (_turn_hexagon, _mirror))


def square(side: int) -> Shape:
    """A square whose cells have four neighbours; its symmetries are the eight of D4."""
    span = range(1 - side, side, 2)
    return Shape(tuple((q, r) for r in span for q in span), SQUARE_STEPS, (_turn_square, _mirror))


def orbit(cell: Cell, turns: Iterable[Turn]) -> set[Cell]:
    """All cells that `turns` can bring `cell` to."""
    found, todo = {cell}, [cell]
    for at in todo:
        new = {turn(at) for turn in turns} - found
        found |= new
        todo += sorted(new)
    return found


@cache
def board(name: str) -> Board:
    """The board of this name; raises `ValueError` if there is none."""
    if name not in _BUILDERS:
        raise ValueError(f"there is no board {name!r}; choose one of {', '.join(BOARDS)}")
    return _BUILDERS[name]()


def _hexagon(name: str, radius: int, *seeds: Cell) -> Callable[[], Board]:
    return lambda: Board(name, shape := hexagon(radius), shape.turns, seeds)


def _square(name: str, side: int, *seeds: Cell) -> Callable[[], Board]:
    return lambda: Board(name, shape := square(side), shape.turns, seeds)


_BUILDERS: dict[str, Callable[[], Board]] = {
    "hex4": _hexagon("hex4", 2, (-2, 0), (0, 0)),
    "hex6": _hexagon("hex6", 3, (-3, 0), (0, 0)),
    "hex8": _hexagon("hex8", 4, (-4, 0), (-2, 0), (0, 0)),
    "hexagonal": _hexagon("hexagonal", 12, (-12, 4), (-11, 0), (-8, 4), (-7, 0), (-4, 2), (0, 0)),
    "square5": _square("square5", 5, (-4, -4), (0, 0)),
    "square8": lambda: Board(
        "square8",
        square(8),
        (_mirror,),
        ((-7, -7), (-7, -1), (-7, 7), (-5, 3), (-3, -3), (-1, 5), (1, 1), (3, 7)),
    ),
    "square19": _square(
        "square19", 19, (-18, -18), (-18, -8), (-16, 0), (-14, -14), (-12, -6), (-8, 0), (-4, -4), (0, 0)
    ),
}


def _frozen(array: NDArray[T]) -> NDArray[T]:
    array.setflags(write=False)
    return array
