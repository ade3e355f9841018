"""Lattices in exact integers: a reduced basis, and all points of a lattice in a box.

Reference: A. K. Lenstra, H. W. Lenstra and L. Lovász, 1982; H. Cohen, A Course in Computational Algebraic Number
Theory, algorithm 2.6.7 (the integral form); U. Fincke and M. Pohst, 1985 (enumeration).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor, gamma, pi, sqrt

Row = list[int]


def reduced(rows: Sequence[Sequence[int]]) -> list[Row]:
    """An LLL-reduced basis (factor 3/4) of the lattice that the independent ``rows`` generate."""
    work = _Reduction([list(row) for row in rows])
    work.run()
    return work.rows


def points(
    basis: Sequence[Sequence[int]], origin: Sequence[int], low: Sequence[int], high: Sequence[int]
) -> Iterator[Row]:
    """All points ``origin + z basis``, ``z`` integers, with coordinates within ``low..high``, both included.

    The directions of the basis made orthogonal bound ``z`` from the last on: a point of the box lies within the box's
    shadow on each, and within the ball around it on all together. None is lost, because all of it is computed exactly.
    """
    return _Box(basis, origin, low, high).points()


def work(basis: Sequence[Sequence[int]], low: Sequence[int], high: Sequence[int]) -> float:
    """How many choices :func:`points` makes, to expect: the points of the lattice's shadows in balls and in boxes."""
    box = _Box(basis, [0] * len(basis), low, high)
    return box.work()


def _dot(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(x * y for x, y in zip(a, b, strict=True))


@dataclass
class _Reduction:
    """Cohen's integral LLL: ``minors`` are the leading minors of the Gram matrix, ``scaled`` the multiples of
    Gram-Schmidt's coefficients by them."""

    rows: list[Row]
    minors: list[int] = field(default_factory=lambda: [1])
    scaled: list[Row] = field(default_factory=list)

    def run(self) -> None:
        at, known = 1, 0
        self.scaled = [[0] * len(self.rows) for _ in self.rows]
        self._orthogonalise(0)
        while at < len(self.rows):
            if at > known:
                known = at
                self._orthogonalise(at)
            self._shorten(at, at - 1)
            minors, last = self.minors, self.scaled[at][at - 1]
            if 4 * minors[at + 1] * minors[at - 1] < 3 * minors[at] ** 2 - 4 * last * last:
                self._swap(at, known)
                at = max(1, at - 1)
            else:
                for other in range(at - 2, -1, -1):
                    self._shorten(at, other)
                at += 1

    def _orthogonalise(self, at: int) -> None:
        for j in range(at + 1):
            value = _dot(self.rows[at], self.rows[j])
            for i in range(j):
                value = (self.minors[i + 1] * value - self.scaled[at][i] * self.scaled[j][i]) // self.minors[i]
            if j < at:
                self.scaled[at][j] = value
            else:
                self.minors.append(value)

    def _shorten(self, at: int, other: int) -> None:
        value, minor = self.scaled[at][other], self.minors[other + 1]
        if 2 * abs(value) <= minor:
            return
        times = (2 * value + minor) // (2 * minor)
        self.rows[at] = [a - times * b for a, b in zip(self.rows[at], self.rows[other], strict=True)]
        self.scaled[at][other] -= times * minor
        for i in range(other):
            self.scaled[at][i] -= times * self.scaled[other][i]

    def _swap(self, at: int, known: int) -> None:
        rows, scaled, minors = self.rows, self.scaled, self.minors
        rows[at], rows[at - 1] = rows[at - 1], rows[at]
        for j in range(at - 1):
            scaled[at][j], scaled[at - 1][j] = scaled[at - 1][j], scaled[at][j]
        last = scaled[at][at - 1]
        made = (minors[at - 1] * minors[at + 1] + last * last) // minors[at]
        for i in range(at + 1, known + 1):
            value = scaled[i][at]
            scaled[i][at] = (minors[at + 1] * scaled[i][at - 1] - last * value) // minors[at]
            scaled[i][at - 1] = (made * value + last * scaled[i][at]) // minors[at + 1]
        minors[at] = made


class _Box:
    """The search of :func:`points`; coordinates are taken from the box's centre, twice as large, to stay whole."""

    def __init__(
        self, basis: Sequence[Sequence[int]], origin: Sequence[int], low: Sequence[int], high: Sequence[int]
    ) -> None:
        self._basis, self._low, self._high, self._origin = basis, low, high, origin
        self._count = len(basis)
        self._axes, self._squares, self._shares = _orthogonal(basis)
        half = [Fraction(b - a, 2) for a, b in zip(low, high, strict=True)]
        centre = [Fraction(a + b, 2) for a, b in zip(low, high, strict=True)]
        offset = [o - c for o, c in zip(origin, centre, strict=True)]
        # How far a point of the box can be from its centre along an axis, in units of the axis; and the origin's place.
        self._reach = [
            sum((abs(a) * h for a, h in zip(axis, half, strict=True)), Fraction(0)) / square
            for axis, square in zip(self._axes, self._squares, strict=True)
        ]
        self._place = [
            sum((a * o for a, o in zip(axis, offset, strict=True)), Fraction(0)) / square
            for axis, square in zip(self._axes, self._squares, strict=True)
        ]
        self._radius = sum((h * h for h in half), Fraction(0))

    def work(self) -> float:
        total, in_box, in_ball, radius = 0.0, 1.0, 1.0, sqrt(self._radius)
        for depth, axis in enumerate(reversed(range(self._count)), start=1):
            in_box *= max(1.0, 2 * float(self._reach[axis]))
            in_ball *= radius / sqrt(self._squares[axis])
            total += max(1.0, min(in_box, in_ball * pi ** (depth / 2) / gamma(depth / 2 + 1)))
        return total

    def points(self) -> Iterator[Row]:
        if all(a <= b for a, b in zip(self._low, self._high, strict=True)):
            yield from self._from(self._count - 1, list(self._origin), list(self._place), self._radius)

    def _from(self, axis: int, point: Row, places: list[Fraction], left: Fraction) -> Iterator[Row]:
        """The points with the steps chosen above ``axis``; ``left`` is what remains of the squared radius."""
        if axis < 0:
            if all(a <= x <= b for a, x, b in zip(self._low, point, self._high, strict=True)):
                yield point
            return
        place, reach, square = places[axis], self._reach[axis], self._squares[axis]
        for steps in range(ceil(-reach - place), floor(reach - place) + 1):
            rest = left - (place + steps) ** 2 * square
            if rest >= 0:
                shares = self._shares[axis]
                moved = [place + steps * share for place, share in zip(places[:axis], shares, strict=True)]
                further = [x + steps * y for x, y in zip(point, self._basis[axis], strict=True)]
                yield from self._from(axis - 1, further, moved, rest)


def _orthogonal(basis: Sequence[Sequence[int]]) -> tuple[list[list[Fraction]], list[Fraction], list[list[Fraction]]]:
    """Gram and Schmidt: the axes, their squared lengths, and each row's shares of the axes before its own."""
    axes: list[list[Fraction]] = []
    squares: list[Fraction] = []
    shares: list[list[Fraction]] = []
    for row in basis:
        axis = [Fraction(x) for x in row]
        of_row = [
            sum((x * y for x, y in zip(row, other, strict=True)), Fraction(0)) / square
            for other, square in zip(axes, squares, strict=True)
        ]
        for share, other in zip(of_row, axes, strict=True):
            axis = [x - share * y for x, y in zip(axis, other, strict=True)]
        axes.append(axis)
        squares.append(sum((x * x for x in axis), Fraction(0)))
        shares.append(of_row)
    return axes, squares, shares
