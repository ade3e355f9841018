"""What was seen of a number, and as bars."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hostler.cli.watching.spark import BARS, GAP, KEPT_S, Seen, sparkline


def counted(*samples: tuple[float, float | None]) -> Seen:
    seen = Seen(counts=True)
    for at, value in samples:
        seen.add(at, value)
    return seen


def test_nothing_can_be_told_of_one_look() -> None:
    seen = Seen(counts=True)
    assert (seen.since, seen.per_s(), seen.bars(3)) == (None, None, [None] * 3)
    seen.add(10.0, 5.0)
    assert (seen.since, seen.per_s(), seen.bars(3)) == (10.0, None, [None] * 3)


def test_a_count_is_told_by_its_slope() -> None:
    seen = counted((0.0, 100.0), (10.0, 100.0), (20.0, 120.0))
    assert seen.per_s() == 1.0
    assert seen.bars(2) == [0.0, 2.0]
    assert sparkline(seen.bars(2)) == BARS[0] + BARS[-1]


def test_another_number_is_as_it_was_until_it_is_seen_anew() -> None:
    seen = Seen(counts=False)
    for at, value in ((0.0, 4.0), (10.0, 8.0), (20.0, 100.0)):
        seen.add(at, value)
    assert seen.bars(2) == [4.0, 8.0]


def test_what_was_not_known_is_a_gap() -> None:
    seen = counted((0.0, 0.0), (10.0, None), (20.0, 30.0), (30.0, 60.0))
    assert seen.bars(3) == [None, None, 3.0]
    assert sparkline(seen.bars(3)) == GAP * 2 + BARS[-1]


def test_a_count_that_falls_is_no_negative_speed() -> None:
    assert counted((0.0, 10.0), (10.0, 5.0)).per_s() == 0.0


def test_a_young_watcher_draws_few_bars() -> None:
    """A bar of a fraction of a second would be all or nothing."""
    assert counted((0.0, 0.0), (4.0, 4.0)).bars(10) == [None] * 8 + [1.0, 1.0]


def test_the_same_look_counts_once_and_old_ones_go() -> None:
    seen = counted((0.0, 0.0), (0.0, 7.0), (10.0, 10.0), (KEPT_S + 5, 20.0))
    assert seen.since == 10.0


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.none() | st.floats(0, 1e12)), max_size=30),
    st.integers(1, 40),
    st.booleans(),
)
def test_bars_are_as_many_as_asked_for_and_never_negative(
    samples: list[tuple[float, float | None]], count: int, counts: bool
) -> None:
    seen = Seen(counts=counts)
    for at, value in sorted(samples, key=lambda sample: sample[0]):
        seen.add(at, value)
    bars = seen.bars(count)
    assert len(bars) == len(sparkline(bars)) == count
    assert all(bar is None or bar >= 0 for bar in bars)


@pytest.mark.parametrize(("values", "drawn"), [([], ""), ([0.0, 0.0], "▁▁"), ([1.0, 2.0, 4.0], "▃▅█")])
def test_bars_are_in_proportion(values: list[float], drawn: str) -> None:
    assert sparkline(values) == drawn
