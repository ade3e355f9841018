"""Symmetric positive definite systems of a few hundred unknowns, without numpy: the controller does not load it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul

Vector = list[float]


def factor(matrix: list[Vector]) -> list[Vector]:
    """Cholesky's lower triangle, row by row, of a symmetric positive definite matrix."""
    rows: list[Vector] = []
    for number, given in enumerate(matrix):
        row: Vector = []
        for column in range(number):
            row.append((given[column] - sum(map(mul, row, rows[column]))) / rows[column][column])
        row.append(math.sqrt(given[number] - sum(map(mul, row, row))))
        rows.append(row)
    return rows


def solution(triangle: list[Vector], right: Sequence[float]) -> Vector:
    """The vector that the factored matrix turns into `right`."""
    forward: Vector = []
    for row, value in zip(triangle, right, strict=True):
        forward.append((value - sum(map(mul, row, forward))) / row[-1])
    for number in range(len(triangle) - 1, -1, -1):
        forward[number] /= triangle[number][number]
        for column in range(number):
            forward[column] -= triangle[number][column] * forward[number]
    return forward


def inverse(triangle: list[Vector]) -> list[Vector]:
    """The inverse of the factored matrix."""
    size = len(triangle)
    return [solution(triangle, [float(row == column) for row in range(size)]) for column in range(size)]
