"""Counts of a training's life, as what became of advice of late."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from hostler.model.rl_telemetry import AdviceTold, Waits
from hostler.policy.advising import KEPT, Count, Success, added, span, success, waits


def count(at: float, calls: Mapping[str, int] | None = None, within: tuple[int, ...] | None = None) -> Count:
    bounds = None if within is None else tuple(zip((1.0, 2.0, 4.0), within, strict=False))
    made = None if bounds is None or within is None else Waits(within=bounds, calls=within[-1], seconds=1.0)
    return Count(at=at, told=AdviceTold(calls=calls or {}, success=None, resting=None, waits=made))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=600), st.floats(1.0, 500.0))
def test_a_window_begins_at_the_last_count_before_it_and_little_is_kept(grown: list[int], window_s: float) -> None:
    kept: tuple[Count, ...] = ()
    whole = 0
    for number, more in enumerate(grown):
        whole += more
        kept = added(kept, count(float(number), {"answered": whole}))
    assert len(kept) <= KEPT
    assert [each.at for each in kept] == sorted(each.at for each in kept)
    found = span(kept, float(len(grown) - 1), window_s)
    if len(grown) < 2:
        assert found is None
        return
    assert found is not None
    first, last = found
    assert (first.at < last.at, last) == (True, kept[-1])
    assert success(first, last).calls == sum(grown[int(first.at) + 1 :])


def test_another_life_is_counted_by_itself() -> None:
    kept = added((count(0.0, {"answered": 9}), count(1.0, {"answered": 10})), count(2.0, {"answered": 4, "refused": 1}))
    assert [each.at for each in kept] == [2.0]
    assert len(added(kept, count(3.0, {"answered": 4, "refused": 1}))) == 2
    assert [each.at for each in added((count(0.0, within=(1, 1, 2)),), count(1.0))] == [1.0]


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_the_interval_holds_the_share(calls: int, part: float) -> None:
    share, low, high = Success(calls=calls, answered=round(calls * part)).share
    assert 0 <= low <= share + 1e-9
    assert share <= high + 1e-9 <= 1 + 2e-9


def test_three_refused_calls_are_no_chance_and_one_is() -> None:
    assert Success(calls=3, answered=0).share[2] < 0.8
    assert Success(calls=1, answered=0).share[2] > 0.79
    assert Success(calls=20, answered=15).share[2] > 0.8


def test_how_long_calls_took() -> None:
    found = waits(count(0.0, within=(10, 10, 10)), count(1.0, within=(10, 20, 30)))
    assert found is not None
    assert (found.quantile(0.5), found.quantile(0.75), found.quantile(0.9)) == (2.0, 3.0, pytest.approx(3.6))
    assert found.quantile(0.0) == 1.0
    assert Waits(within=((1.0, 1),), calls=10, seconds=50.0).quantile(0.9) == 1.0, "longer than the last bound"
    assert Waits(within=((1.0, 0),), calls=0, seconds=0.0).quantile(0.9) is None
    assert waits(count(0.0), count(1.0, within=(1, 1, 1))) is None
    assert waits(count(0.0, within=(1, 1)), count(1.0, within=(1, 1, 1))) is None
