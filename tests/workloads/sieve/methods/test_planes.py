"""Planes bound the points of a lattice in a box, none left out; and how many there are is foretold."""

from itertools import product
from math import ceil, floor, isinf

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.sieve.methods.planes import Grid, grid


@given(st.data(), st.integers(2, 4))
@settings(max_examples=60, deadline=None)
def test_stepping_within_the_planes_meets_every_point_of_the_box(data: st.DataObject, size: int) -> None:
    modulus = data.draw(st.integers(3, 40))
    rows = [[modulus * (i == j) for j in range(size)] for i in range(size)]
    rows[0] = [1, *data.draw(st.lists(st.integers(0, modulus - 1), min_size=size - 1, max_size=size - 1))]
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=size, max_size=size))
    origin = [0, *data.draw(st.lists(st.integers(0, modulus - 1), min_size=size - 1, max_size=size - 1))]
    made = grid(rows, sizes)
    expected = {
        tuple(point)
        for point in product(*map(range, sizes))
        if all(
            (y - o - point[0] * x) % modulus == 0 for x, y, o in zip(rows[0][1:], point[1:], origin[1:], strict=True)
        )
    }
    assert expected <= set(_met(made, origin, size - 1))


def test_how_many_points_there_are_is_the_mean_over_origins() -> None:
    made = grid([[1, 5, 12], [0, 31, 0], [0, 0, 31]], [9, 7, 11])
    assert made.nodes[0] == pytest.approx(9 * 7 * 11 / 31**2)
    assert len(made.levels[0]) == 3
    assert len(made.levels[2]) == 1


def _met(made: Grid, place: list[int], at: int) -> list[tuple[int, ...]]:
    if at < 0:
        return [tuple(place)]
    values = [sum(x * y for x, y in zip(plane.factors, place, strict=True)) for plane in made.levels[at]]
    low = max(plane.low - value for plane, value in zip(made.levels[at], values, strict=True))
    high = min(plane.high - value for plane, value in zip(made.levels[at], values, strict=True))
    assert not isinf(low)
    assert not isinf(high)
    steps = range(ceil(low), floor(high) + 1)
    moved = ([x + step * y for x, y in zip(place, made.basis[at], strict=True)] for step in steps)
    return [point for each in moved for point in _met(made, each, at - 1)]
