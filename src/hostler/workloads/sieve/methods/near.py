"""Small numbers whose product is small too: all ``x`` with ``x`` and ``factor * x + y`` modulo 2^64 below a bound.

The pairs of ``x`` and ``factor * x`` are the points of a lattice in the plane. A reduced basis of it is nearly
orthogonal: its coordinates of a point in a small square are whole numbers close to those of the square's centre, one
choice for each or none, unless the square is large against the lattice.
"""

from collections.abc import Sequence
from math import floor

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.methods.choices import U64
from hostler.workloads.sieve.methods.reduction import reduced

I64 = npt.NDArray[np.int64]
WORD = 1 << 64
ROUNDED = 2.0**-50
"""More than what rounding takes from a coordinate, over its size."""


class Near:
    """For one odd ``factor``, and the bound ``2^bits``."""

    def __init__(self, factor: int, bits: int) -> None:
        self._factor, self._bound = factor, 1 << bits
        one, other = reduced([[1, factor], [0, WORD]])
        determinant = one[0] * other[1] - one[1] * other[0]
        self._basis = one[0] % WORD, other[0] % WORD
        half = ((1 << bits) - 1) / 2
        # By Cramer's rule: how much of each row there is in a point.
        self._axes = (
            _Axis([other[1] / determinant, -other[0] / determinant], half),
            _Axis([-one[1] / determinant, one[0] / determinant], half),
        )

    def found(self, y: U64) -> tuple[npt.NDArray[np.intp], U64]:
        """All solutions for all ``y``: the places in ``y`` that they belong to, and ``x``."""
        signed = y.view(np.int64).astype(np.float64)
        found = self._tried(y, signed)
        if len(found) == 1:
            return found[0]
        # A lattice with a very short vector has the same x, modulo 2^64, in several points that are tried.
        pairs = {pair for places, x in found for pair in zip(places.tolist(), x.tolist(), strict=True)}
        ordered = sorted(pairs)
        return np.array([place for place, _ in ordered], np.intp), np.array([x for _, x in ordered], np.uint64)

    def _tried(self, y: U64, signed: npt.NDArray[np.float64]) -> list[tuple[npt.NDArray[np.intp], U64]]:
        made = []
        for places, first in self._axes[0].whole(signed):
            for among, second in self._axes[1].whole(signed[places]):
                there = places[among]
                x = _times(first[among], self._basis[0]) + _times(second, self._basis[1])
                kept = (x < self._bound) & (x * np.uint64(self._factor) + y[there] < self._bound)
                made.append((there[kept], x[kept]))
        return made


class _Axis:
    """A coordinate of the points of the square around ``(half, half - y)``, by its ``shares`` of both axes."""

    def __init__(self, shares: Sequence[float], half: float) -> None:
        self._slope, centre = -shares[1], half * (shares[0] + shares[1])
        reach = half * (abs(shares[0]) + abs(shares[1]))
        reach += ROUNDED * (1 + abs(centre) + abs(self._slope) * 2**63)
        self._low, self._reach = centre - reach, reach
        self._choices = floor(2 * reach) + 1

    def whole(self, y: npt.NDArray[np.float64]) -> list[tuple[npt.NDArray[np.intp], I64]]:
        """The whole numbers that the coordinate may be: places in ``y``, and the numbers, one choice after another."""
        low = y * self._slope
        low += self._low
        first = np.ceil(low)
        above = first - low
        made = []
        for more in range(self._choices):
            places = np.flatnonzero(above <= 2 * self._reach - more)
            made.append((places, first[places].astype(np.int64) + more))
        return made


def _times(numbers: I64, factor: int) -> U64:
    return numbers.view(np.uint64) * np.uint64(factor)
