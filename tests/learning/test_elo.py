"""The scale: logistic near equality, consistent in its derivatives, usable at any gap."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from hostler.learning.elo import (
    DIFFERENCE_SD,
    curvature,
    dispersion,
    expected_share,
    information,
    log_share,
    pairings,
    slope,
)
from hostler.learning.sprt import score_at
from hostler.model.learning import INTERVAL_SD, Rating

GAPS = st.floats(-1e5, 1e5)
USUAL = st.floats(-3000, 3000)


@given(st.floats(-20, 20))
def test_near_equality_the_odds_are_those_of_logistic_elo(gap: float) -> None:
    assert expected_share(gap) == pytest.approx(score_at(gap), abs=1e-4)


def test_far_from_equality_the_scales_part_as_documented() -> None:
    assert expected_share(400) == pytest.approx(0.925, abs=0.001)
    assert score_at(400) == pytest.approx(0.909, abs=0.001)


@given(GAPS)
def test_shares_of_both_sides_are_the_whole(gap: float) -> None:
    assert expected_share(gap) + expected_share(-gap) == pytest.approx(1)


@given(USUAL)
def test_the_derivatives_are_those_of_the_log_share(gap: float) -> None:
    step = 0.1
    sloped = (log_share(gap + step) - log_share(gap - step)) / (2 * step)
    curved = (slope(gap - step) - slope(gap + step)) / (2 * step)
    assert slope(gap) == pytest.approx(sloped, rel=1e-4, abs=1e-10)
    assert curvature(gap) == pytest.approx(curved, rel=1e-3, abs=1e-11)


@given(USUAL)
def test_information_is_the_expected_curvature(gap: float) -> None:
    expected = expected_share(gap) * curvature(gap) + expected_share(-gap) * curvature(-gap)
    assert information(gap) == pytest.approx(expected, rel=1e-6, abs=1e-15)


@given(GAPS, GAPS)
def test_every_function_is_finite_and_monotone_at_any_gap(one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert log_share(less) <= log_share(more) + 1e-12 <= 1e-12
    assert slope(less) >= slope(more) * (1 - 1e-5) >= 0
    assert 0 <= curvature(one) <= 1 / DIFFERENCE_SD**2
    assert 0 <= information(one) <= information(0) * (1 + 1e-12)


def test_the_tail_joins_where_the_formula_changes() -> None:
    edge = -30 * DIFFERENCE_SD
    assert log_share(edge - 1e-6) == pytest.approx(log_share(edge + 1e-6), rel=1e-8)
    assert slope(edge - 1e-6) == pytest.approx(slope(edge + 1e-6), rel=1e-5)


def test_information_as_documented() -> None:
    assert information(0) ** -0.5 == pytest.approx(347, abs=1)
    assert information(520) / information(0) == pytest.approx(0.25, abs=0.01)


def test_dispersion_counts_that_a_game_of_many_is_one_performance() -> None:
    assert [dispersion(players) for players in (2, 3, 4)] == pytest.approx([1, 4 / 3, 5 / 3])
    assert [pairings(players) for players in (2, 3, 4)] == [2, 6, 12]


def test_a_rating_knows_its_spread_and_whether_it_is_fixed() -> None:
    rating = Rating(elo=100, low=100 - INTERVAL_SD * 30, high=100 + INTERVAL_SD * 30, games=8)
    assert rating.sd == pytest.approx(30)
    assert not rating.fixed
    assert Rating(elo=0, low=0, high=0, games=0).fixed
    assert math.isclose(Rating(elo=0, low=0, high=0, games=0).sd, 0)
