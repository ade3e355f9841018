"""How long it will take, learnt from what its like took."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.policy import duration
from hostler.policy.duration import Estimate


def learnt(*seconds: float) -> Estimate:
    estimate: Estimate | None = None
    for each in seconds:
        estimate = duration.learn(estimate, each)
    assert estimate is not None
    return estimate


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=40))
def test_the_estimate_lies_between_what_was_seen(seconds: list[float]) -> None:
    estimate = learnt(*seconds)
    assert min(seconds) * 0.999 <= estimate.seconds <= max(seconds) * 1.001
    assert seconds[-1] <= estimate.longest_s <= max(seconds)
    assert estimate.samples == len(seconds)


def test_it_follows_a_change() -> None:
    assert learnt(*[1.0] * 5, *[100.0] * 20).seconds == pytest.approx(100.0, rel=0.01)


def test_nothing_is_promised_on_few_samples() -> None:
    assert duration.at_most(None) is None
    assert duration.at_most(learnt(1.0, 1.0)) is None
    assert duration.at_most(learnt(1.0, 5.0, 1.0)) == pytest.approx(5.0 * duration.FORGET)


def test_an_outlier_is_forgotten() -> None:
    assert learnt(1000.0, *[1.0] * 300).longest_s == 1.0


def test_zero_seconds_are_a_duration() -> None:
    assert learnt(0.0).seconds > 0


def test_a_family_is_a_program_and_a_name_without_numbers() -> None:
    assert duration.family("train-12-seed-7", "python") == duration.family("train-9-seed-123", "python")
    assert duration.family("train-1", "python") != duration.family("train-1", "bash")
    assert duration.family("train", "python") != duration.family("eval", "python")
