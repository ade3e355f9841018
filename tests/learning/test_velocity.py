"""Elo per day: the slope that is there, with an interval that holds it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import assume, given, settings, strategies as st

from hostler.learning.velocity import DAY_S, Point, gain, velocity
from hostler.model.learning import INTERVAL_SD, Rating


def _point(day: float, elo: float, sd: float = 20.0) -> Point:
    rating = Rating(elo=elo, low=elo - INTERVAL_SD * sd, high=elo + INTERVAL_SD * sd, games=100)
    return Point(at_s=day * DAY_S, rating=rating)


POINTS = st.lists(st.builds(_point, st.floats(0, 30), st.floats(-500, 2500), st.floats(5, 200)), min_size=2)


def test_fewer_than_two_points_or_no_time_say_nothing() -> None:
    assert velocity([]) is None
    assert velocity([_point(1, 100)]) is None
    assert velocity([_point(1, 100), _point(1, 200)]) is None


def test_points_on_a_line_give_its_slope() -> None:
    found = velocity([_point(day, 300 - 25 * day, sd) for day, sd in ((0, 10), (2, 50), (3, 20), (8, 90))])
    assert found is not None
    assert found.elo_per_day == pytest.approx(-25)
    assert found.low < -25 < found.high
    assert (found.points, found.days) == (4, 8)


def test_two_points_have_the_interval_of_their_difference() -> None:
    found = velocity([_point(0, 0, 30), _point(2, 100, 40)])
    assert found is not None
    assert found.elo_per_day == pytest.approx(50)
    assert found.high - found.elo_per_day == pytest.approx(INTERVAL_SD * 50 / 2)


def test_a_certain_rating_outweighs_an_uncertain_one() -> None:
    found = velocity([_point(0, 0, 10), _point(5, 500, 10), _point(10, 0, 300), _point(10, 1000, 10)])
    assert found is not None
    assert found.elo_per_day == pytest.approx(100, abs=1)


def test_points_off_the_line_widen_the_interval() -> None:
    straight = velocity([_point(day, 100 * day) for day in range(6)])
    bent = velocity([_point(day, 100 * day + 80 * (-1) ** day) for day in range(6)])
    assert straight is not None
    assert bent is not None
    assert bent.high - bent.low > 2 * (straight.high - straight.low)


def test_anchors_do_not_divide_by_zero() -> None:
    found = velocity([_point(0, 0, 0), _point(1, 10, 0), _point(2, 30, 50)])
    assert found is not None
    assert found.elo_per_day == pytest.approx(10, abs=0.1)


@settings(max_examples=40)
@given(POINTS, st.floats(-1e3, 1e3), st.floats(-100, 100))
def test_it_does_not_matter_where_time_and_elo_begin(points: list[Point], elo: float, day: float) -> None:
    found = velocity(points)
    assume(found is not None and found.days > 1e-3)
    assert found is not None
    moved = velocity([_point(p.at_s / DAY_S + day, p.rating.elo + elo, p.rating.sd) for p in points])
    turned = velocity([_point(p.at_s / DAY_S, -p.rating.elo, p.rating.sd) for p in points])
    assert moved is not None
    assert turned is not None
    tolerance = max(1e-6, (found.high - found.low) * 1e-4)
    assert moved.elo_per_day == pytest.approx(found.elo_per_day, rel=1e-4, abs=tolerance)
    assert (-turned.high, -turned.low) == pytest.approx((found.low, found.high), rel=1e-6, abs=tolerance)


@pytest.mark.parametrize("slope", [-20.0, 0.0, 35.0])
def test_the_interval_holds_the_true_slope_in_95_of_100(slope: float) -> None:
    random = Random(str(slope))
    held = 0
    for _ in range(1000):
        sds = [random.uniform(10, 60) for _ in range(8)]
        found = velocity([_point(day, random.gauss(slope * day, sd), sd) for day, sd in enumerate(sds)])
        assert found is not None
        held += found.low <= slope <= found.high
    assert 0.93 <= held / 1000 <= 0.99


def test_a_gain_is_the_velocity_of_its_two_ends() -> None:
    before, after = (Rating(elo=elo, low=elo - 30, high=elo + 30, games=10) for elo in (100.0, 112.0))
    found = gain((before, after), 0.0, 3 * DAY_S)
    ends = velocity([Point(at_s=0.0, rating=before), Point(at_s=3 * DAY_S, rating=after)])
    assert ends is not None
    assert found.elo_per_day == pytest.approx(4.0)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))


def test_the_same_player_has_gained_nothing_for_certain() -> None:
    found = gain(None, 0.0, 3 * DAY_S)
    assert (found.elo_per_day, found.low, found.high, found.days) == (0.0, 0.0, 0.0, 3.0)
