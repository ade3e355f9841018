"""How long it will take, learnt from what its like took."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.codec import adapter
from hostler.policy import duration
from hostler.policy.duration import Accuracy, Estimate, Prediction


def learnt(*seconds: float) -> Estimate:
    estimate: Estimate | None = None
    for each in seconds:
        estimate = duration.learn(estimate, each)
    assert estimate is not None
    return estimate


def predicted(levels: Sequence[Estimate | None], scale: float = 1.0) -> Prediction:
    prediction = duration.predict(levels, scale)
    assert prediction is not None
    return prediction


@settings(max_examples=30)
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


def test_nothing_is_predicted_from_nothing() -> None:
    assert duration.predict([]) is None
    assert duration.predict([None, None, None]) is None


def test_the_first_sample_already_predicts() -> None:
    prediction = predicted([learnt(100.0)])
    assert prediction.p50_s == pytest.approx(100.0)
    assert prediction.p90_s == pytest.approx(190.0, rel=0.01)
    assert (prediction.samples, prediction.source) == (1, "measured")


def test_a_cold_start_is_scaled_from_other_models() -> None:
    prediction = predicted([None, learnt(100.0, 100.0)], scale=3.0)
    assert prediction.p50_s == pytest.approx(300.0)
    assert (prediction.samples, prediction.source) == (2, "scaled")


def test_samples_of_its_own_take_over() -> None:
    elsewhere = learnt(*[100.0, 120.0] * 10)
    medians = [predicted([learnt(*[400.0] * count), elsewhere]).p50_s for count in (1, 2, 5, 100)]
    assert medians == sorted(medians)
    assert 100 < medians[0] < 300, "one sample does not outweigh twenty"
    assert medians[-1] == pytest.approx(400.0, rel=0.15)
    assert predicted([learnt(400.0), elsewhere]).source == "blended"
    assert predicted([learnt(*[400.0] * 100), elsewhere]).source == "measured"


def test_a_level_whose_members_differ_much_says_little_about_one_of_them() -> None:
    motley = learnt(*[10.0, 10_000.0] * 10)
    assert predicted([learnt(100.0), motley]).p50_s == pytest.approx(100.0, rel=0.2)


def test_a_missing_level_is_passed_over() -> None:
    kind = learnt(*[50.0] * 5)
    assert duration.predict([None, None, kind]) == duration.predict([None, kind])


ESTIMATES = st.lists(st.floats(1e-3, 1e7), min_size=1, max_size=12).map(lambda seconds: learnt(*seconds))
LEVELS = st.lists(st.none() | ESTIMATES, min_size=1, max_size=4).filter(any)


@settings(max_examples=30)
@given(LEVELS, st.floats(1e-3, 1e3))
def test_quantiles_are_in_order(levels: list[Estimate | None], scale: float) -> None:
    prediction = predicted(levels, scale)
    assert 0 < prediction.p50_s <= prediction.p90_s


@settings(max_examples=30)
@given(LEVELS, st.floats(1e-2, 1e2), st.floats(1, 10))
def test_a_slower_device_is_never_predicted_to_be_faster(
    levels: list[Estimate | None], scale: float, slower: float
) -> None:
    assert predicted(levels, scale * slower).p50_s >= predicted(levels, scale).p50_s * 0.999999


@settings(max_examples=30)
@given(LEVELS)
def test_the_median_lies_between_the_levels(levels: list[Estimate | None]) -> None:
    typical = [level.seconds for level in levels if level is not None]
    assert min(typical) * 0.999 <= predicted(levels).p50_s <= max(typical) * 1.001


@settings(max_examples=30)
@given(ESTIMATES, ESTIMATES)
def test_with_many_samples_only_the_specific_level_counts(own: Estimate, general: Estimate) -> None:
    many = replace(own, samples=10**6)
    assert predicted([many, general]).p50_s == pytest.approx(own.seconds, rel=0.001)


@pytest.mark.parametrize("sigma", [0.2, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_predictions_converge_on_stationary_data(seed: int, sigma: float) -> None:
    draw = random.Random(seed)
    estimate, below, error = learnt(math.exp(5.0)), {"p50": 0, "p90": 0}, 0.0
    for _ in range(1000):
        seconds, prediction = draw.lognormvariate(5.0, sigma), predicted([estimate])
        below["p50"] += seconds <= prediction.p50_s
        below["p90"] += seconds <= prediction.p90_s
        error += abs(math.log(prediction.p50_s) - 5.0)
        estimate = duration.learn(estimate, seconds)
    assert below["p50"] == pytest.approx(500, abs=60)
    assert below["p90"] == pytest.approx(900, abs=40)
    assert error / 1000 < 0.4 * sigma


def test_steady_durations_leave_no_spread() -> None:
    prediction = predicted([learnt(*[60.0] * 300)])
    assert prediction.p90_s == pytest.approx(60.0, rel=0.1)


def test_snapshots_from_before_the_spread_load() -> None:
    old = adapter(Estimate).validate_json('{"log_s": 2.0, "longest_s": 9.0, "samples": 40}')
    assert old.var is None
    assert predicted([old]).p90_s > predicted([old]).p50_s
    assert duration.learn(old, math.exp(2.5)).var == pytest.approx(0.25)
    again = adapter(Estimate).validate_json(adapter(Estimate).dump_json(learnt(1.0, 3.0)))
    assert again == learnt(1.0, 3.0)


def judged(*pairs: tuple[float, float]) -> Accuracy:
    accuracy: Accuracy | None = None
    for predicted_s, actual_s in pairs:
        accuracy = duration.judge(accuracy, predicted_s, actual_s)
    assert accuracy is not None
    return accuracy


def test_predictions_are_judged() -> None:
    perfect = judged(*[(10.0, 10.0)] * 3)
    assert (perfect.factor, perfect.within_2, perfect.samples) == (1.0, 1.0, 3)
    mixed = judged((10.0, 20.0), (10.0, 5.0), (10.0, 80.0), (10.0, 10.0))
    assert mixed.within_2 == pytest.approx(0.75)
    assert mixed.log_error == pytest.approx(math.log(2) * 5 / 4)
    assert judged((0.0, 0.0)).factor == 1.0


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=60))
def test_errors_are_finite_and_shares_are_shares(pairs: list[tuple[float, float]]) -> None:
    accuracy = judged(*pairs)
    assert accuracy.samples == len(pairs)
    assert accuracy.factor >= 1
    assert 0 <= accuracy.within_2 <= 1 + 1e-9
