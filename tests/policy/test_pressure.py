"""Every signal fires alone, whatever the others say; none flickers, and none outlives what it was based on."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.rules import Targets
from hostler.model.telemetry import Level, Signal
from hostler.model.work import SECONDS_MAX, WorkKind
from hostler.policy import pressure
from hostler.policy.pressure import (
    HELD_BACK,
    MARGINS,
    SINKING,
    STORE,
    UNITS,
    Reading,
    full_in_s,
    holds_back,
    judge,
    pressing,
    used_share,
    with_reading,
    words,
    worst,
)

TARGETS = Targets()
LIMITS: Mapping[str, float] = {
    "memory": 0.8,
    "load": 16.0,
    "disk": 0.7,
    "controller's disk": 0.7,
    "disk free": 1.0,
    "disk full in": 3600.0,
    "backlog": 1800.0,
    "queue": 200_000.0,
}
"""Where each signal is critical."""
GOOD: Mapping[str, float] = {name: 1e6 if name in SINKING else 0.0 for name in LIMITS}
names = st.sampled_from(sorted(LIMITS))


def one(name: str, value: float | None, previous: Level = Level.NONE, age_s: float = 0.0) -> Signal:
    (signal,) = judge([Reading(name=name, value=value, age_s=age_s)], {name: previous}, TARGETS)
    return signal


def bad(name: str, by: float) -> float:
    """A value so many times beyond the limit."""
    return LIMITS[name] / by if name in SINKING else LIMITS[name] * by


class TestWorstOf:
    def test_there_is_a_limit_a_unit_and_an_effect_for_each(self) -> None:
        assert LIMITS.keys() == UNITS.keys() == MARGINS.keys() == HELD_BACK.keys()
        assert {name for name, held in HELD_BACK.items() if not held} == {STORE}, "it is no node's: it is cleaned"

    @settings(max_examples=40)
    @given(names, st.floats(1, 100), st.dictionaries(names, st.none() | st.just(0.0)), st.data())
    def test_each_fires_alone_whatever_the_others(
        self, name: str, by: float, others: dict[str, float | None], data: st.DataObject
    ) -> None:
        """In a fleet before this one it could never fire: the mean of five, of which four were always zero."""
        values = {each: GOOD[each] if others.get(each, 0.0) is not None else None for each in others}
        readings = [Reading(name=each, value=value) for each, value in {**values, name: bad(name, by)}.items()]
        signals = judge(data.draw(st.permutations(readings)), {}, TARGETS)
        found = worst(signals)
        assert found is not None
        assert (found.name, found.level) == (name, Level.CRITICAL)
        assert pressing(signals) == (found,)

    @settings(max_examples=40)
    @given(st.lists(st.tuples(names, st.floats(0.01, 100)), min_size=1, max_size=7, unique_by=lambda pair: pair[0]))
    def test_more_signals_never_make_it_better(self, pairs: list[tuple[str, float]]) -> None:
        signals = judge([Reading(name=name, value=bad(name, by)) for name, by in pairs], {}, TARGETS)
        levels = [Level.NONE if (found := worst(signals[:count])) is None else found.level for count in range(8)]
        assert levels == sorted(levels)
        assert levels[-1] == max(each.level for each in signals)

    @settings(max_examples=40)
    @given(st.lists(st.tuples(st.sampled_from(sorted(pressure.UNITS)), st.none() | st.floats(0, 1e7)), max_size=8))
    def test_calm_is_where_nothing_would_be_judged_to_press(self, values: list[tuple[str, float | None]]) -> None:
        readings = [Reading(name=name, value=value) for name, value in values]
        assert pressure.is_calm(readings, TARGETS) == (not pressing(judge(readings, {}, TARGETS)))

    def test_nothing_that_presses_is_nothing(self) -> None:
        assert worst(()) is None
        assert worst([one("memory", 0.1)]) is None

    def test_the_worst_is_that_of_the_highest_level_then_the_farthest_beyond(self) -> None:
        signals = (one("disk", 0.64), one("memory", 0.85), one("load", 30.0), one("disk free", 0.0))
        assert [each.name for each in pressing(signals)] == ["disk free", "load", "memory", "disk"]

    def test_a_signal_nobody_knows_is_an_error(self) -> None:
        with pytest.raises(KeyError):
            one("nonsense", 1.0)


class TestLevels:
    @pytest.mark.parametrize(
        ("used", "level"),
        [(0.59, Level.NONE), (0.6, Level.WARNING), (0.65, Level.CLEAN), (0.7, Level.CRITICAL), (1.0, Level.CRITICAL)],
    )
    def test_the_disk_has_three(self, used: float, level: Level) -> None:
        assert one("disk", used).level is level

    @settings(max_examples=40)
    @given(names, st.floats(0, 3), st.floats(0, 3))
    def test_worse_is_never_a_lower_level(self, name: str, one_by: float, other_by: float) -> None:
        better, worse = sorted([one_by, other_by])
        assert one(name, bad(name, max(better, 1e-6))).level <= one(name, bad(name, max(worse, 1e-6))).level

    @settings(max_examples=40)
    @given(names)
    def test_it_does_not_flicker_at_the_limit(self, name: str) -> None:
        inside = 1 - MARGINS[name] / 2 if name not in SINKING else 1 / (1 + MARGINS[name] / 2)
        outside = 1 - MARGINS[name] * 1.01 if name not in SINKING else 1 / (1 + MARGINS[name] * 1.01)
        assert one(name, bad(name, inside)).level < Level.CRITICAL
        assert one(name, bad(name, inside), Level.CRITICAL).level is Level.CRITICAL
        assert one(name, bad(name, outside), Level.CRITICAL).level < Level.CRITICAL

    @settings(max_examples=40)
    @given(names, st.floats(0, 3), st.sampled_from(Level))
    def test_what_was_never_lowers_what_is(self, name: str, by: float, previous: Level) -> None:
        value = bad(name, max(by, 1e-6))
        assert one(name, value, previous).level >= one(name, value).level
        assert one(name, value, previous).level <= max(previous, one(name, value).level)

    def test_shares_are_shares(self) -> None:
        """80 % is 0.8 everywhere; somewhere it was once 80."""
        assert used_share(100.0, 20.0) == pytest.approx(TARGETS.memory_max)
        assert used_share(100.0, 0.0) == 1.0

    @pytest.mark.parametrize(("total", "free"), [(None, 1.0), (1.0, None), (0.0, 0.0), (1.0, 2.0), (1.0, -1.0)])
    def test_what_contradicts_itself_is_unknown(self, total: float | None, free: float | None) -> None:
        assert used_share(total, free) is None


class TestExpiry:
    @settings(max_examples=40)
    @given(names, st.sampled_from(Level), st.floats(60.001, 359))
    def test_unknown_stays_as_it_was_for_a_while_and_says_so(self, name: str, previous: Level, age_s: float) -> None:
        signal = one(name, bad(name, 10), previous, age_s)
        assert signal.level is previous
        assert signal.stale_s == pytest.approx(age_s - 60)
        assert "unknown for" in words(signal)

    @settings(max_examples=40)
    @given(names, st.sampled_from(Level), st.floats(360.01, 1e9))
    def test_pressure_ends_with_readings_that_are_too_old(self, name: str, previous: Level, age_s: float) -> None:
        assert one(name, bad(name, 10), previous, age_s).level is Level.NONE

    @settings(max_examples=40)
    @given(names, st.sampled_from(Level))
    def test_never_known_never_presses(self, name: str, previous: Level) -> None:
        assert one(name, None, previous).level is Level.NONE


class TestForecast:
    def points(self, *free_gb: float, every_s: float = 30.0) -> tuple[pressure.Point, ...]:
        return tuple((every_s * number, each) for number, each in enumerate(free_gb))

    def test_a_gigabyte_a_minute(self) -> None:
        assert full_in_s(self.points(*(100 - 0.5 * n for n in range(16)))) == pytest.approx(92.5 * 60)

    @settings(max_examples=40)
    @given(st.integers(0, 16), st.floats(0, 100), st.floats(0, 100))
    def test_one_large_file_is_no_trend_wherever_it_comes(self, at: int, before: float, after: float) -> None:
        """The median of all slopes alone took a file that was written halfway for a pace."""
        assert full_in_s(self.points(*[before] * at, *[after] * (16 - at))) == SECONDS_MAX

    def test_files_that_go_again_are_no_trend(self) -> None:
        assert full_in_s(self.points(100, 100, 100, 40, 40, 100, 100, 100, 100)) == SECONDS_MAX

    def test_a_disk_that_empties_is_never_full(self) -> None:
        assert full_in_s(self.points(50, 60, 70, 80, 90)) == SECONDS_MAX

    @pytest.mark.parametrize("points", [(), ((0.0, 9.0),) * 3, ((0.0, 9.0), (1.0, 8.0), (2.0, 7.0), (3.0, 6.0))])
    def test_too_little_to_say(self, points: tuple[pressure.Point, ...]) -> None:
        assert full_in_s(points) is None

    @settings(max_examples=40)
    @given(st.lists(st.floats(0, 1e6), min_size=6, max_size=16), st.floats(30, 3600))
    def test_it_is_a_time_to_come(self, free_gb: list[float], every_s: float) -> None:
        seconds = full_in_s(self.points(*free_gb, every_s=every_s))
        assert seconds is not None
        assert 0 <= seconds <= SECONDS_MAX

    def test_readings_are_kept_apart_and_bounded(self) -> None:
        kept: tuple[pressure.Point, ...] = ()
        for second in range(0, 3600, 5):
            kept = with_reading(kept, float(second), 100 - second / 100, TARGETS)
        assert len(kept) == pressure.TREND_READINGS
        assert min(after[0] - before[0] for before, after in pairwise(kept)) >= 56
        assert full_in_s(kept) == pytest.approx(64 * 100, rel=0.02)

    def test_a_gap_begins_it_anew(self) -> None:
        kept = with_reading(self.points(9, 8, 7, 6), 90 + 3600.0, 1.0, TARGETS)
        assert kept == ((3690.0, 1.0),)


class TestEffects:
    @pytest.mark.parametrize(
        ("name", "work"),
        [
            ("memory", set(WorkKind)),
            ("disk free", set(WorkKind)),
            ("disk", {WorkKind.TRAINING, WorkKind.EXPORT}),
            ("disk full in", {WorkKind.TRAINING, WorkKind.EXPORT}),
            ("load", {WorkKind.SCRIPT}),
            ("backlog", {WorkKind.SELFPLAY}),
        ],
    )
    def test_what_is_held_back(self, name: str, work: set[WorkKind]) -> None:
        critical = one(name, bad(name, 2))
        assert {each for each in WorkKind if holds_back([critical], each) is not None} == work

    def test_warnings_hold_nothing_back(self) -> None:
        assert all(holds_back([one("disk", 0.66)], each) is None for each in WorkKind)

    def test_words(self) -> None:
        assert words(one("disk", 0.71)) == "disk 0.71 share used, critical from 0.7"
        assert words(one("disk free", 0.5)) == "disk free 0.5 GB free, critical below 1"
        assert words(one("disk full in", 1234.5)) == "disk full in 1234 s, critical below 3600"
        assert words(one("memory", 0.5)) == "memory 0.5 share used, no pressure"
        assert words(one("memory", None)) == "memory unknown share used, no pressure"


def test_the_controllers_disk_is_cleaned_sooner_than_others() -> None:
    levels = {used: one("controller's disk", used).level for used in (0.49, 0.5, 0.69, 0.7)}
    assert levels == {0.49: Level.NONE, 0.5: Level.CLEAN, 0.69: Level.CLEAN, 0.7: Level.CRITICAL}
    assert one("controller's disk", 0.49, previous=Level.CLEAN).level is Level.CLEAN
    assert one("controller's disk", 0.48, previous=Level.CLEAN).level is Level.NONE
    lowered = Targets(disk_warning=0.2, disk_clean=0.3, disk_critical=0.4)
    (signal,) = judge([Reading(name="controller's disk", value=0.45)], {}, lowered)
    assert signal.level is Level.CRITICAL
