"""What fires, what does not, and that nothing flaps: rules by examples, and by whatever may be measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.alerts import MEASURES, USUAL_ALERTS, AlertRule, Measure
from hostler.policy import alerting
from hostler.policy.alerting import Change, Reading, Smoothed, Stage, Watch, step

LOW = AlertRule(
    name="idle", measures=Measure.NODE_UTILIZATION, comparison="below", threshold=0.5, over=0.6, for_s=100.0
)
HIGH = AlertRule(name="long", measures=Measure.TRAINING_QUEUE, comparison="above", threshold=20.0, over=10.0)
SLOPE = AlertRule(name="elo", measures=Measure.ELO_VELOCITY, comparison="below", threshold=1.0, over=2.0)
BLIND = replace(LOW, unknown_s=300.0)

values = st.none() | st.floats(0.0, 1.0)
gaps = st.floats(0.01, 500.0)
samples = st.lists(st.tuples(gaps, values), max_size=60)


def reading(value: float | None, low: float | None = None, high: float | None = None) -> Reading:
    return Reading(value=value, low=low, high=high)


def played(rule: AlertRule, *told: tuple[float, float | None]) -> list[tuple[float, Change]]:
    """Every change, with when it came; samples are times and values."""
    watch, changes = Watch(), []
    for at, value in told:
        watch, change = step(watch, rule, reading(value), at)
        if change is not None:
            changes.append((at, change))
    return changes


def times(told: list[tuple[float, float | None]]) -> list[tuple[float, float | None]]:
    """Samples after gaps, as samples at times."""
    at, found = 0.0, []
    for gap, value in told:
        at += gap
        found.append((at, value))
    return found


class TestExamples:
    def test_it_fires_after_its_time_and_is_over_at_the_second_threshold(self) -> None:
        changes = played(LOW, (0, 0.4), (50, 0.3), (99, 0.3), (100, 0.3), (150, 0.55), (160, 0.6), (170, 0.55))
        assert [(at, change.to) for at, change in changes] == [(100, "fired"), (160, "ended")]
        assert changes[0][1].since == 0
        assert changes[0][1].why == "30 %, below 50 % for 1m 40s"
        assert changes[1][1].why == "60 %, over at 60 %"

    def test_what_is_better_for_a_moment_begins_anew(self) -> None:
        assert played(LOW, (0, 0.4), (90, 0.5), (100, 0.4), (190, 0.4)) == []

    def test_the_other_way_round_and_at_once(self) -> None:
        changes = played(HIGH, (0, 20), (1, 21), (2, 11), (3, 10))
        assert [(at, change.to) for at, change in changes] == [(1, "fired"), (3, "ended")]

    def test_unknown_time_does_not_count(self) -> None:
        told = [(0.0, 0.1), (60.0, 0.1), (70.0, None), (1000.0, 0.1), (1039.0, 0.1), (1041.0, 0.1)]
        ((at, change),) = played(LOW, *told)
        # 1000 - 70 seconds of it were unknown: at 1039 it has been known for 60 + 10 + 39 at the most.
        assert at == 1039.0
        assert change.since == 930.0

    def test_unknown_ends_nothing(self) -> None:
        changes = played(HIGH, (0, 30), (1, None), (10_000, None), (10_001, 15))
        assert [change.to for _, change in changes] == ["fired"]

    def test_not_to_know_is_an_alert_where_the_rule_says_so(self) -> None:
        changes = played(BLIND, (0, 0.9), (10, None), (309, None), (310, None), (400, None), (401, 0.9))
        assert [(at, change.to) for at, change in changes] == [(310, "fired"), (401, "ended")]
        assert "unknown for 5m 00s" in changes[0][1].why
        assert "is known again: 90 %" in changes[1][1].why

    def test_what_was_unknown_and_is_bad_fires_on(self) -> None:
        changes = played(BLIND, (0, None), (300, None), (310, 0.1), (320, 0.55), (330, 0.7))
        assert [(at, change.to) for at, change in changes] == [(300, "fired"), (330, "ended")]

    def test_chance_does_not_fire_it(self) -> None:
        """A slope of -3 with an interval from -8 to 2 may be a good one; from -8 to 0.5 it is none."""
        watch, change = step(Watch(), SLOPE, reading(-3.0, -8.0, 2.0), 0.0)
        assert (watch, change) == (Watch(), None)
        watch, change = step(watch, SLOPE, reading(-3.5, -8.0, 0.5), 1.0)
        assert change is not None
        assert change.why == "-3.5 Elo/day (-8 to 0.5), below 1 Elo/day"
        assert step(watch, SLOPE, reading(-3.0, -8.0, 1.9), 2.0)[1] is None
        assert step(watch, SLOPE, reading(0.0, -4.0, 4.0), 2.0)[1] is not None


class TestWhatever:
    @settings(max_examples=30)
    @given(samples)
    def test_it_never_fires_before_it_was_known_to_be_crossed_for_long_enough(self, told: list[Any]) -> None:
        crossed_s, before, fires = 0.0, None, False
        watch = Watch()
        for at, value in times(told):
            if before is not None and before[1] is not None and before[1] < 0.5:
                crossed_s += at - before[0]
            if value is not None and value >= 0.5:
                crossed_s = 0.0
            watch, change = step(watch, LOW, reading(value), at)
            if change is not None and change.to == "fired":
                assert crossed_s >= LOW.for_s - 1e-6
                assert change.since <= at - LOW.for_s + 1e-6
            fires, before = watch.stage.fires, (at, value)
        assert fires == watch.stage.fires

    @settings(max_examples=30)
    @given(st.lists(gaps, min_size=1, max_size=60))
    def test_it_fires_at_the_first_look_after_its_time_however_often_it_looks(self, apart: list[float]) -> None:
        told = times([(gap, 0.2) for gap in apart])
        begun = told[0][0]
        late = [at for at, _ in told if at - begun >= LOW.for_s - 1e-9]
        assert [at for at, _ in played(LOW, *told)] == late[:1]

    @settings(max_examples=30)
    @given(st.lists(st.tuples(gaps, st.none() | st.floats(0.5, 0.6, exclude_max=True)), max_size=40), st.booleans())
    def test_between_the_thresholds_nothing_changes(self, told: list[Any], fires: bool) -> None:
        watch = Watch(stage=Stage.FIRING) if fires else Watch()
        for at, value in times(told):
            watch, change = step(watch, LOW, reading(value), at)
            assert change is None
        assert watch.stage.fires == fires

    @settings(max_examples=30)
    @given(samples)
    def test_fired_and_ended_take_turns(self, told: list[Any]) -> None:
        changes = [change.to for _, change in played(BLIND, *times(told))]
        assert changes == (["fired", "ended"] * len(changes))[: len(changes)]

    @settings(max_examples=30)
    @given(samples, st.lists(st.floats(0.0, 1.0), min_size=60, max_size=60))
    def test_worse_values_fire_no_later(self, told: list[Any], shares: list[float]) -> None:
        """Monotone: where everything known is as bad or worse, an alert has come by then, too."""
        worse = [
            (gap, None if value is None else value * part) for (gap, value), part in zip(told, shares, strict=False)
        ]
        first = next((at for at, change in played(LOW, *times(told)) if change.to == "fired"), None)
        if first is not None:
            earlier = [at for at, change in played(LOW, *times(worse)) if change.to == "fired"]
            assert earlier
            assert earlier[0] <= first

    @settings(max_examples=30)
    @given(samples)
    def test_the_same_measurements_say_the_same(self, told: list[Any]) -> None:
        assert played(BLIND, *times(told)) == played(BLIND, *times(told))

    @settings(max_examples=30)
    @given(samples)
    def test_unknown_alone_fires_nothing(self, told: list[Any]) -> None:
        assert played(LOW, *((at, None) for at, _ in times(told))) == []


class TestRules:
    @pytest.mark.parametrize("rule", USUAL_ALERTS, ids=lambda rule: rule.name)
    def test_every_usual_rule_can_fire_and_be_over(self, rule: AlertRule) -> None:
        assert alerting.fault(rule) is None
        watch, change = step(Watch(), rule, alerting.crossing(rule), 0.0)
        watch, change = (watch, change) if change else step(watch, rule, alerting.crossing(rule), rule.for_s)
        assert change is not None
        assert change.to == "fired"
        _, change = step(watch, rule, alerting.leaving(rule), rule.for_s + 1.0)
        assert change is not None
        assert change.to == "ended"

    def test_measures_are_complete_and_each_has_a_rule(self) -> None:
        assert set(MEASURES) == set(Measure) == {rule.measures for rule in USUAL_ALERTS}

    def test_thresholds_that_nothing_can_cross_are_found(self) -> None:
        assert "no value can be below that" in (alerting.fault(replace(LOW, threshold=0.0)) or "")
        assert "no value can be above that" in (
            alerting.fault(replace(LOW, comparison="above", threshold=1.0, over=0.5)) or ""
        )
        assert "must lie above" in (alerting.fault(replace(LOW, over=0.4)) or "")
        assert "must lie below" in (alerting.fault(replace(HIGH, over=30.0)) or "")
        assert "no value can reach that" in (alerting.fault(replace(LOW, over=1.5)) or "")
        with pytest.raises(ValueError, match="no value can be below"):
            alerting.crossing(replace(LOW, threshold=0.0))

    @settings(max_examples=30)
    @given(st.sampled_from(list(Measure)), st.sampled_from(["below", "above"]), st.floats(-1e6, 1e6), st.floats(0, 1e6))
    def test_a_rule_without_fault_has_values_on_both_sides(
        self, measure: Measure, comparison: Any, threshold: float, apart: float
    ) -> None:
        over = threshold + apart if comparison == "below" else threshold - apart
        rule = AlertRule(name="any", measures=measure, comparison=comparison, threshold=threshold, over=over)
        if alerting.fault(rule) is None:
            assert alerting.crosses(rule, alerting.crossing(rule))
            assert alerting.leaves(rule, alerting.leaving(rule))


class TestMeans:
    @settings(max_examples=30)
    @given(st.floats(0, 1), st.lists(st.tuples(st.floats(0.1, 1000.0), st.floats(0, 1)), max_size=20))
    def test_a_mean_lies_among_its_values(self, first: float, told: list[tuple[float, float]]) -> None:
        mean, at, seen = Smoothed(value=first, at=0.0), 0.0, [first]
        for gap, value in told:
            at += gap
            seen.append(value)
            mean = alerting.smoothed(mean, value, at, 300.0)
            assert min(seen) - 1e-9 <= mean.value <= max(seen) + 1e-9

    def test_after_a_gap_it_begins_anew(self) -> None:
        assert alerting.smoothed(Smoothed(value=0.1, at=0.0), 0.9, 301.0, 300.0) == Smoothed(value=0.9, at=301.0)


class TestSilences:
    def test_what_a_silence_is_about(self) -> None:
        assert alerting.matches("gpu_idle", "rig-1", "*", None)
        assert alerting.matches("gpu_idle", "rig-1", "gpu_idle", "rig-*")
        assert alerting.matches("gpu_idle", "rig-[1]", "gpu_idle", "rig-[1]")
        assert not alerting.matches("gpu_idle", "rig-1", "disk_full_soon", None)
        assert not alerting.matches("gpu_idle", "rig-1", "gpu_idle", "rig-2")
