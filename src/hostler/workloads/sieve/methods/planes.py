"""All points of a lattice in a box, for a kernel: from which step to which along each row of a basis.

A point is ``origin + sum(steps[k] * basis[k])``. If the steps along the rows after row ``k`` are chosen, those along
row ``k`` are bounded by planes: linear functions that are 0 on all rows before, 1 on row ``k``, and have a smallest and
a largest value in the box. Those of as few coordinates as possible bound the box's shadow exactly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, prod

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.methods.reduction import reduced

MOST_PLANES = 12
SLACK, SLACK_SHARE = 0.5, 2.0**-40
"""So much, and such a part of its coordinates, a box is taken wider on each side: more than floats lose."""


@dataclass(frozen=True, slots=True)
class Plane:
    """A function of points, with its smallest and its largest value in the box."""

    factors: tuple[float, ...]
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Grid:
    """A lattice by a basis that suits a box ``0..sizes-1``, and how many points a box of these sizes holds.

    ``levels[k]`` are the planes that bound the steps along row ``k``. ``nodes[k]`` is how many choices of steps along
    rows ``k`` and later there are, to expect, for any origin: ``nodes[0]`` points in all.
    """

    basis: list[list[int]]
    levels: list[list[Plane]]
    nodes: list[float]
    inverse: npt.NDArray[np.float64]
    """Of the basis: from a point, as a row, to its steps."""


def grid(rows: Sequence[Sequence[int]], sizes: Sequence[int]) -> Grid:
    """The lattice that ``rows`` generate, for boxes of these sizes and origins near them."""
    units = [max(1, 16 * max(sizes) // size) for size in sizes]
    scaled = reduced([[x * unit for x, unit in zip(row, units, strict=True)] for row in rows])
    basis = [[x // unit for x, unit in zip(row, units, strict=True)] for row in scaled]
    minors = [_minors(basis[:count]) for count in range(len(basis) + 1)]
    (volume,) = minors[-1].values()
    reaches = [size + sum(map(abs, column)) for size, column in zip(sizes, zip(*basis, strict=True), strict=True)]
    box = [
        (-(slack := SLACK + reach * SLACK_SHARE), size - 1 + slack) for size, reach in zip(sizes, reaches, strict=True)
    ]
    levels = [_level(basis[k], minors[k], box) for k in range(len(basis))]
    nodes = [_shadow(minors[k], sizes) / abs(volume) for k in range(len(basis))]
    inverse = np.array(units, np.float64)[:, None] * np.linalg.inv(np.array(scaled, np.float64))
    return Grid(basis, levels, nodes, inverse)


Minors = dict[tuple[int, ...], int]
Box = Sequence[tuple[float, float]]


def _minors(rows: list[list[int]]) -> Minors:
    """The determinants of the rows cut to each choice of as many columns."""
    if not rows:
        return {(): 1}
    *before, last = rows
    smaller, columns = _minors(before), range(len(last))
    return {
        chosen: sum(
            (-1) ** (len(before) + i) * last[column] * smaller[chosen[:i] + chosen[i + 1 :]]
            for i, column in enumerate(chosen)
        )
        for chosen in combinations(columns, len(rows))
    }


def _level(row: list[int], minors: Minors, box: Box) -> list[Plane]:
    """The planes for a row, from the minors of the rows before: the narrowest; for the first row one a coordinate."""
    made = list(_planes(row, minors, box))
    return made if () in minors else sorted(made, key=_width)[:MOST_PLANES]


def _planes(row: list[int], minors: Minors, box: Box) -> Iterator[Plane]:
    count = len(next(iter(minors))) + 1
    for chosen in combinations(range(len(row)), count):
        normal = {column: (-1) ** i * minors[chosen[:i] + chosen[i + 1 :]] for i, column in enumerate(chosen)}
        whole = sum(x * row[column] for column, x in normal.items())
        if not whole:
            yield Plane((0.0,) * len(row), -inf, inf)
            continue
        factors = tuple(normal.get(column, 0) / whole for column in range(len(row)))
        ends = [(x * low, x * high) for x, (low, high) in zip(factors, box, strict=True)]
        yield Plane(factors, sum(map(min, ends)), sum(map(max, ends)))


def _width(plane: Plane) -> float:
    return plane.high - plane.low


def _shadow(minors: Minors, sizes: Sequence[int]) -> float:
    """The volume that the box sweeps along the rows of the minors."""
    sides = range(len(sizes))
    return float(sum(abs(x) * prod(sizes[i] for i in sides if i not in chosen) for chosen, x in minors.items()))
