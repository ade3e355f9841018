"""Curves in characters."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings, strategies as st

from hostler.cli.curve import ABOVE, BELOW, POINT, RIGHT, Point, curve
from tests.web.loops import HOUR, NOON


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    """Times of golden pictures are those of Greenwich."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def rated(number: int, elo: float, half: float) -> Point:
    """A rating at some hour."""
    return Point(NOON + number * HOUR, elo, elo - half, elo + half)


def drawn(*lines: str) -> list[str]:
    """A golden picture."""
    return [line.rstrip() for line in lines]


def test_no_points_no_lines() -> None:
    assert curve([], {"random": 0.0}, [NOON], 80) == []


def test_one_point_stands_in_the_middle_and_its_time_below_it() -> None:
    assert curve([rated(0, 120.0, 90.0)], {}, [], 40) == drawn(
        "    │                 │",
        "    │                 │",
        "180 ┤                 │",
        "    │                 │",
        "    │                 │",
        "120 ┤                 ●",
        "    │                 │",
        "    │                 │",
        " 60 ┤                 │",
        "    │                 │",
        "    │                 │",
        "    └───────────────────────────────────",
        "              2025-06-15 12:00",
    )


def test_a_curve_that_rises_with_its_anchors_and_promotions() -> None:
    points = [rated(hour, 900 * (1 - math.exp(-hour / 4)), 35 + 200 / (hour + 1)) for hour in range(12)]
    levels = {"random": 0.0, "greedy": 385.0, "mc-200": 760.5, "mc-9999": 5000.0}
    assert curve(points, levels, [NOON + hour * HOUR for hour in (1, 3, 4, 12)], 80) == drawn(
        "900 ┤                                           │    │    ●     ●",
        "    │┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈│┈┈┈┈┈●┈┈┈┈●┈┈┈┈●┈┈┈┈●┈┈┈┈│┈┈┈┈┈│┈┈┈┈┈┈ mc-200",
        "    │                 │    ●    ●     │",
        "450 ┤┈┈┈┈┈┈┈┈┈┈┈│┈┈┈┈┈●┈┈┈┈│┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈ greedy",
        "    │ │    │    ●",
        "    │ │    ●",
        "  0 ┤┈●┈┈┈┈│┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈ random",
        "    │ │",
        "    │ │",
        "    └──────────────────────────────────────────────────────────────────",
        "           ▲          ▲    ▲                                         ▲",
        "     2025-06-15 12:00                                  2025-06-16 00:00",
    )


def test_a_curve_that_falls_below_zero() -> None:
    assert curve([rated(hour, 60.0 - 25 * hour, 30.0) for hour in range(6)], {"random": 0.0}, [], 60) == drawn(
        "    │ │",
        "    │ │",
        " 60 ┤ ●        │",
        "    │ │        ●       │",
        "    │ │        │       ●        │",
        "  0 ┤┈┈┈┈┈┈┈┈┈┈│┈┈┈┈┈┈┈│┈┈┈┈┈┈┈┈│┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈ random",
        "    │                  │        ●       │",
        "    │                           │       ●        │",
        "-60 ┤                                   │        ●",
        "    │                                            │",
        "    │                                            │",
        "    └──────────────────────────────────────────────",
        "     2025-06-15 12:00              2025-06-15 17:00",
    )


def test_huge_intervals_end_in_arrows_and_leave_the_values_readable() -> None:
    assert curve([rated(hour, 40.0 * hour, 5000.0) for hour in range(4)], {"a": 1.0, "b": 2.0}, [], 50) == drawn(
        " 240 ┤ ↑          ↑         ↑          ↑",
        "     │ │          │         │          │",
        "     │ │          │         │          │",
        " 120 ┤ │          │         │          ●",
        "     │ │          │         ●          │",
        "     │ │          ●         │          │",
        "   0 ┤┈●┈┈┈┈┈┈┈┈┈┈│┈┈┈┈┈┈┈┈┈│┈┈┈┈┈┈┈┈┈┈│┈ b+1",
        "     │ │          │         │          │",
        "     │ │          │         │          │",
        "-120 ┤ ↓          ↓         ↓          ↓",
        "     └───────────────────────────────────",
        "      2025-06-15 12:00   2025-06-15 15:00",
    )


def test_of_many_points_in_one_column_the_newest_is_drawn() -> None:
    points = [Point(NOON + second, float(second % 500), -10.0, 510.0) for second in range(5000)]
    lines = curve(points, {}, [], 60)
    assert max(map(len, lines)) <= 60
    assert sum(line.count(POINT) for line in lines) <= 60
    newest = [line for line in lines if line.rstrip().endswith(POINT)]
    assert len(newest) == 1
    assert lines.index(newest[0]) == min(at for at, line in enumerate(lines) if POINT in line)


ELO = st.floats(-20_000, 20_000)
POINTS = st.lists(st.tuples(st.floats(0, 4e9), ELO, st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=40)


@settings(max_examples=40)
@given(POINTS, st.dictionaries(st.text("abc-", min_size=1), ELO, max_size=5), st.integers(40, 200))
def test_every_picture_fits_and_holds_its_last_point(
    drafts: list[tuple[float, float, float, float]], levels: dict[str, float], width: int
) -> None:
    points = sorted(Point(at, elo, elo - below, elo + above) for at, elo, below, above in drafts)
    lines = curve(points, levels, [points[0].at], width)
    assert all(len(line) <= width and line.isprintable() for line in lines)
    assert len(lines) <= 18
    picture = "".join(lines)
    assert POINT in picture
    widest = max(point.high - point.low for point in points)
    span = max(max(point.value for point in points) - min(point.value for point in points), 100.0)
    if widest > 10 * span and len(points) == 1:
        assert ABOVE in picture or BELOW in picture


def test_names_of_levels_stay_in_their_column() -> None:
    lines = curve([rated(0, 0.0, 50.0)], {"a-very-long-name": 0.0, "another": 0.0, "third": 1.0}, [], 40)
    (level,) = (line for line in lines if "third" in line)
    assert level.endswith("third+2")
    assert len(level) <= 40
    assert len("third+2") < RIGHT
