"""Cholesky's method against what it must give back."""

from __future__ import annotations

from random import Random

import pytest

from hostler.learning.linear import factor, inverse, solution


@pytest.mark.parametrize("size", [0, 1, 2, 7, 30])
def test_the_inverse_and_the_solution_undo_the_matrix(size: int) -> None:
    random = Random(size)
    half = [[random.gauss(0, 1) for _ in range(size)] for _ in range(size)]
    matrix = [[sum(a * b for a, b in zip(one, other, strict=True)) + (one is other) for other in half] for one in half]
    inverted = inverse(factor(matrix))
    wanted = [random.gauss(0, 1) for _ in range(size)]
    right = [sum(a * x for a, x in zip(row, wanted, strict=True)) for row in matrix]
    assert solution(factor(matrix), right) == pytest.approx(wanted)
    for number, row in enumerate(matrix):
        product = [sum(a * b for a, b in zip(row, column, strict=True)) for column in inverted]
        assert product == pytest.approx([float(number == at) for at in range(size)], abs=1e-9)
