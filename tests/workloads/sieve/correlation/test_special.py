"""Tails and corrections against published values, scipy, and counting."""

import math
from collections import Counter
from itertools import product

import pytest
from hypothesis import given, strategies as st

from hostler.workloads.sieve.correlation.complexity import jump_moments, profile
from hostler.workloads.sieve.correlation.corrections import benjamini_hochberg, holm
from hostler.workloads.sieve.correlation.special import (
    SMALLEST,
    chi_square_tail,
    complexity_tails,
    fisher_tail,
    normal_two_sided,
)

stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize(
    ("statistic", "freedom", "tail"),
    [
        # Published tables of the chi-square distribution.
        (3.841, 1, 0.05),
        (6.635, 1, 0.01),
        (18.307, 10, 0.05),
        (23.209, 10, 0.01),
        (29.588, 10, 0.001),
        (124.342, 100, 0.05),
        (3.940, 10, 0.95),
    ],
)
def test_chi_square_of_tables(statistic: float, freedom: int, tail: float) -> None:
    assert chi_square_tail(statistic, freedom) == pytest.approx(tail, rel=1e-3)


@given(st.integers(1, 20_000), st.floats(0.01, 5.0))
def test_chi_square_is_that_of_scipy(freedom: int, ratio: float) -> None:
    expected = float(stats.chi2.sf(ratio * freedom, freedom))
    assert chi_square_tail(ratio * freedom, freedom) == pytest.approx(expected, rel=1e-8, abs=1e-290)


def test_tails_are_never_zero() -> None:
    assert chi_square_tail(1e9, 3) >= SMALLEST
    assert normal_two_sided(1e3) == SMALLEST
    assert fisher_tail(1.0, 500) == SMALLEST
    assert complexity_tails(0, 5000)[0] == SMALLEST
    assert chi_square_tail(0.0, 3) == 1.0
    assert normal_two_sided(1.959964) == pytest.approx(0.05, rel=1e-5)


@pytest.mark.parametrize(
    ("share", "ordinates", "tail"),
    # R. A. Fisher 1929, table I: the shares exceeded with probability 0.05 and 0.01.
    [(0.68377, 5, 0.05), (0.78853, 5, 0.01), (0.44495, 10, 0.05), (0.53584, 10, 0.01), (0.13135, 50, 0.05)],
)
def test_the_largest_share_is_that_of_the_tables(share: float, ordinates: int, tail: float) -> None:
    assert fisher_tail(share, ordinates) == pytest.approx(tail, rel=2e-3)


def test_complexity_and_its_jumps_are_those_of_counting() -> None:
    bits = 12
    profiles = [profile(each) for each in product((0, 1), repeat=bits)]
    counted = Counter(each.complexity for each in profiles)
    for complexity in range(bits + 1):
        lower = sum(number for each, number in counted.items() if each <= complexity) / 2**bits
        upper = sum(number for each, number in counted.items() if each >= complexity) / 2**bits
        assert complexity_tails(complexity, bits) == pytest.approx((lower, upper))
    jumps = [each.jumps for each in profiles]
    mean = sum(jumps) / len(jumps)
    variance = sum((each - mean) ** 2 for each in jumps) / len(jumps)
    assert jump_moments(bits) == pytest.approx((mean, variance), rel=1e-9)
    assert math.isclose(jump_moments(13)[0], 13 / 4 + 5 / 12, rel_tol=1e-3)


def test_corrections_of_a_published_example() -> None:
    # Benjamini and Hochberg 1995, section 3.2: 4 of 15 are rejected at 0.05, by Bonferroni and Holm 3.
    p_values = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
                0.7590, 1.0]  # fmt: skip
    assert sum(p <= 0.05 for p in benjamini_hochberg(p_values)) == 4
    assert sum(p <= 0.05 for p in holm(p_values)) == 3
    assert holm([]) == benjamini_hochberg([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_corrections_are_those_of_scipy_and_keep_the_order(p_values: list[float]) -> None:
    rate, family = benjamini_hochberg(p_values), holm(p_values)
    assert rate == pytest.approx(list(stats.false_discovery_control(p_values)))
    for p, q, adjusted in zip(p_values, rate, family, strict=True):
        assert p <= q + 1e-12
        assert q <= adjusted + 1e-12
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    assert [family[i] for i in order] == sorted(family)
