"""Rotations, lattices and linear systems, against what counting says."""

from itertools import product
from math import gcd

import pytest
from hypothesis import assume, given, settings, strategies as st

from hostler.workloads.sieve.methods.matrices import Matrix, System
from hostler.workloads.sieve.methods.reduction import points, reduced, work
from hostler.workloads.sieve.methods.rotations import first, gaps

vectors = st.integers(0, 255)


@given(st.integers(3, 400), st.data())
@settings(max_examples=40)
def test_windows_are_walked_through_without_missing_a_number(modulus: int, data: st.DataObject) -> None:
    factor, size = data.draw(st.integers(1, modulus - 1)), data.draw(st.integers(1, modulus - 1))
    begin = data.draw(st.integers(0, modulus - 1))
    assume(gcd(factor, modulus) == 1)
    expected = [s for s in range(3 * modulus) if (begin + factor * s) % modulus < size]
    s, each = first(factor, modulus, size, begin), gaps(factor, modulus, size)
    place, walked = (begin + factor * s) % modulus, []
    while s < 3 * modulus:
        walked.append(s)
        rises, falls = place + each.up < size, place >= each.down
        if rises or not falls:
            place, s = place + each.up, s + each.up_steps
        if falls or not rises:
            place, s = place - each.down, s + each.down_steps
    assert walked == expected


@given(st.lists(st.lists(st.integers(-30, 30), min_size=3, max_size=3), min_size=3, max_size=3), st.data())
@settings(deadline=None)
def test_all_points_of_a_lattice_in_a_box_are_found(rows: list[list[int]], data: st.DataObject) -> None:
    a, b, c = rows
    determinant = (
        a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0])
    )
    assume(determinant)
    origin = data.draw(st.lists(st.integers(-9, 9), min_size=3, max_size=3))
    low = data.draw(st.lists(st.integers(-9, 9), min_size=3, max_size=3))
    high = [x + data.draw(st.integers(-1, 9)) for x in low]
    basis = reduced(rows)
    made = sorted(points(basis, origin, low, high))
    inside = product(*(range(x, y + 1) for x, y in zip(low, high, strict=True)))
    expected = sorted(
        list(p) for p in inside if _member(rows, determinant, [x - o for x, o in zip(p, origin, strict=True)])
    )
    assert made == expected
    assert work(basis, low, high) >= 0 or any(x > y for x, y in zip(low, high, strict=True))


def _member(rows: list[list[int]], determinant: int, point: list[int]) -> bool:
    """Cramer's rule: the coefficients are whole."""
    for i in range(3):
        a, b, c = (point if i == j else rows[j] for j in range(3))
        top = (
            a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0]) + a[2] * (b[0] * c[1] - b[1] * c[0])
        )
        if top % determinant:
            return False
    return True


def test_a_reduced_basis_is_short() -> None:
    # The state of a linear congruential generator and the next: far apart, but two short vectors span them.
    modulus, factor = 1 << 48, 0x5DEECE66D
    for row in reduced([[1, factor], [0, modulus]]):
        assert max(map(abs, row)) < 1 << 25


@given(st.lists(st.tuples(vectors, st.booleans()), max_size=12))
def test_systems_have_the_solutions_that_counting_finds(equations: list[tuple[int, bool]]) -> None:
    system = System(8, traced=True)
    for coefficients, value in equations:
        system.add(coefficients, value)
    fits = {x for x in range(256) if all((x & row).bit_count() % 2 == value for row, value in equations)}
    if system.contradiction is not None:
        chosen = [equations[i] for i in system.contradiction]
        total = 0
        for row, _ in chosen:
            total ^= row
        assert not fits
        assert total == 0
        assert sum(value for _, value in chosen) % 2 == 1
        return
    one, basis = system.solution()
    made = {one}
    for vector in basis:
        made |= {x ^ vector for x in made}
    assert made == fits
    assert len(made) == 1 << 8 - system.rank


@given(st.lists(vectors, min_size=8, max_size=8), vectors, st.integers(0, 20))
def test_powers_of_matrices_are_repeated_maps(columns: list[int], vector: int, times: int) -> None:
    matrix, made = Matrix(tuple(columns)), vector
    for _ in range(times):
        made = matrix(made)
    assert matrix.power(times)(vector) == made


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_window_of_one_is_met_once_a_turn(size: int) -> None:
    assert first(5, 12, size, 7) == next(s for s in range(12) if (7 + 5 * s) % 12 < size)
