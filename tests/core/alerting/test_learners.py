"""What trainings told of advice and rewards: which alert it makes, when none, and when that is over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hostler.core.alerting import learners
from hostler.core.readings import readings
from hostler.model import inputs
from hostler.model.errors import NotFound
from hostler.model.inputs import RlTelemetry
from hostler.model.rl_telemetry import HEARD_MOST, AdviceTold, Waits
from hostler.model.work import WorkKind
from tests.core.alerting.test_rules import kinds, live, rules, watched
from tests.core.builders import fleet, script

NAMES = ("advice_failing", "advice_dead", "advice_slow", "advice_overpaid", "reward_lopsided")
EVERY_S = 15.0
BOUNDS = (0.1, 1.0, 5.0, 10.0)


class Lesson:
    """A training that has a device, and tells its life's counts every quarter of a minute."""

    def __init__(self, *names: str, **changes: Any) -> None:
        self.driver = watched(fleet(), *(names or NAMES), **changes)
        (self.job,) = self.driver.submit(script("learns", work_as=WorkKind.RL))
        self.attempt = f"{self.job}.1"
        self.calls: dict[str, int] = {}
        self.within = [0] * len(BOUNDS)
        self.waited = 0
        self.steps = 0

    def told(self, *, resting: float | None = 0.0, advice: bool = True, **fields: Any) -> RlTelemetry:
        """As it stands."""
        self.steps += 100
        waits = Waits(within=tuple(zip(BOUNDS, self.within, strict=True)), calls=self.waited, seconds=1.0)
        came = AdviceTold(calls=dict(self.calls), success=None, resting=resting, waits=waits)
        return RlTelemetry(
            job=self.job, attempt=self.attempt, steps=self.steps, seconds=self.steps / 100,
            **{"largest_share": 0.5, "advice_share": 0.1, "advice": came if advice else None, **fields},
        )  # fmt: skip

    def go_on(
        self, seconds: float, calls: Mapping[str, int] | None = None, waited_s: float | None = None, **fields: Any
    ) -> list[tuple[str, str]]:
        """It tells something every quarter of a minute, each time with so many more calls; which alerts came."""
        seen: list[tuple[str, str]] = []
        self.why: list[str] = []
        until = self.driver.now + seconds
        while self.driver.now < until:
            for name, number in (calls or {}).items():
                self.calls[name] = self.calls.get(name, 0) + number
                if waited_s is not None:
                    self.waited += number
                    self.within = [
                        count + (number if waited_s <= bound else 0)
                        for bound, count in zip(BOUNDS, self.within, strict=True)
                    ]
            self.driver.tell(self.told(**fields), after_s=0.0)
            for at, event in live(self.driver, EVERY_S):
                seen.append((event.kind.removeprefix("alert."), event.rule))
                self.why.append(event.why)
                assert event.subject == self.job, at
        return seen


def test_an_endpoint_that_dies_is_told_and_that_it_is_back_as_well() -> None:
    lesson = Lesson("advice_failing", "advice_dead")
    assert lesson.go_on(900.0, {"answered": 5}) == []
    begun = lesson.driver.now
    dead = lesson.go_on(600.0, {"refused": 1}, resting=1.0)
    assert dead == [("fired", "advice_dead"), ("fired", "advice_failing")]
    assert lesson.driver.now - begun <= 630.0
    assert "refused" in lesson.why[0]
    assert lesson.driver.core.state.alerts.firing["advice_dead"][lesson.job].severity == "critical"
    back = lesson.go_on(1500.0, {"answered": 5})
    assert back == [("ended", "advice_dead"), ("ended", "advice_failing")]


def test_one_that_is_dead_from_the_beginning() -> None:
    lesson = Lesson("advice_failing", "advice_dead")
    lesson.go_on(15.0, {"refused": 3}, resting=1.0)
    # From then on hardly anything is asked: one call in the longest rest.
    seen = lesson.go_on(300.0, resting=1.0)
    assert seen == [("fired", "advice_dead")]
    assert [
        each
        for _ in range(4)
        for each in lesson.go_on(300.0, resting=1.0) + lesson.go_on(15.0, {"refused": 1}, resting=1.0)
    ] == [("fired", "advice_failing")]


def test_a_few_calls_that_fail_by_chance_are_nothing() -> None:
    lesson = Lesson("advice_failing")
    assert lesson.go_on(120.0, {"answered": 1}) == []
    assert lesson.go_on(15.0, {"timeout": 2}) == []
    assert lesson.go_on(3600.0, {"answered": 9, "timeout": 1}) == []
    assert lesson.driver.core.index.watching.readings["advice_failing"][lesson.job].value == pytest.approx(0.9)


def test_who_has_all_it_needs_in_its_cache_asks_nothing_and_is_not_failed() -> None:
    lesson = Lesson("advice_failing")
    assert lesson.go_on(300.0, {"refused": 2}) == [("fired", "advice_failing")]
    assert lesson.go_on(15.0, {"answered": 2}) == []
    assert lesson.go_on(1200.0) == [("ended", "advice_failing")]
    assert lesson.driver.core.index.watching.readings["advice_failing"] == {}


def test_a_slow_model_is_told_of() -> None:
    lesson = Lesson("advice_slow")
    assert lesson.go_on(900.0, {"answered": 5}, waited_s=0.9) == []
    assert lesson.go_on(1200.0, {"answered": 5}, waited_s=9.0) == [("fired", "advice_slow")]
    assert "nine in ten" in lesson.why[0]
    assert lesson.go_on(1200.0, {"answered": 5}, waited_s=0.9) == [("ended", "advice_slow")]


def test_one_slow_call_in_twenty_is_nothing() -> None:
    lesson = Lesson("advice_slow")
    for _ in range(40):
        assert lesson.go_on(15.0, {"answered": 19}, waited_s=0.9) == []
        assert lesson.go_on(15.0, {"answered": 1}, waited_s=9.0) == []


def test_advice_that_makes_up_much_of_the_return() -> None:
    lesson = Lesson("advice_overpaid")
    assert lesson.go_on(900.0, advice_share=0.29) == []
    assert lesson.go_on(600.0, advice_share=0.74) == [("fired", "advice_overpaid")]
    assert lesson.go_on(600.0, advice_share=0.27) == [], "it has to become less than that"
    assert lesson.go_on(600.0, advice_share=0.25) == [("ended", "advice_overpaid")]


def test_a_component_above_its_share() -> None:
    lesson = Lesson("reward_lopsided", "advice_failing", "advice_dead", "advice_slow", "advice_overpaid")
    plain = {"advice": False, "advice_share": None}
    assert lesson.go_on(900.0, **plain) == []
    assert lesson.go_on(600.0, largest_share=0.9, over_share=("rooms",), **plain) == [("fired", "reward_lopsided")]
    assert lesson.why[0].endswith("; rooms")
    assert lesson.go_on(60.0, **plain) == [("ended", "reward_lopsided")]


def test_nothing_is_said_of_a_reward_that_has_paid_nothing() -> None:
    lesson = Lesson("reward_lopsided")
    assert lesson.go_on(900.0, largest_share=None) == []
    assert lesson.driver.core.index.watching.readings["reward_lopsided"][lesson.job].value is None


def test_one_that_tells_nothing_any_more_neither_fires_nor_ends() -> None:
    lesson = Lesson("advice_dead")
    assert lesson.go_on(300.0, resting=1.0) == [("fired", "advice_dead")]
    assert live(lesson.driver, 7200.0) == []
    reading = lesson.driver.core.index.watching.readings["advice_dead"][lesson.job]
    assert (reading.value, reading.note[:24]) == (None, "it has told nothing for ")


def test_what_is_told_twice_is_told_once() -> None:
    lesson = Lesson("advice_dead")
    told = lesson.told()
    lesson.driver.tell(told)
    at = lesson.driver.core.index.watching.learners[lesson.job].at
    lesson.driver.tell(told, after_s=100.0)
    assert lesson.driver.core.index.watching.learners[lesson.job].at == at


def test_a_training_that_is_over_has_no_alerts_and_is_forgotten() -> None:
    lesson = Lesson("advice_dead")
    lesson.go_on(300.0, resting=1.0)
    lesson.driver.tell(inputs.Cancel(job=lesson.job))
    lesson.driver.tell(inputs.Ended(attempt=lesson.attempt, ended_at=2.0, signal=15))
    seen = live(lesson.driver, 60.0)
    assert kinds(seen) == [("alert.ended", lesson.job)]
    lesson.driver.tell(lesson.told())
    assert lesson.driver.core.index.watching.learners == {}


def test_a_controller_that_begins_neither_fires_nor_ends_before_it_has_heard() -> None:
    lesson = Lesson("advice_dead", "advice_failing")
    lesson.go_on(300.0, {"refused": 1}, resting=1.0)
    lesson.driver.core.index.watching.learners.clear()
    lesson.driver.core.index.watching.watches.clear()
    assert live(lesson.driver, 300.0) == []
    ended = lesson.go_on(300.0, {"answered": 5})
    assert sorted(ended) == [("ended", "advice_dead"), ("ended", "advice_failing")]


def test_a_life_that_began_anew_is_counted_anew() -> None:
    lesson = Lesson("advice_failing")
    lesson.go_on(300.0, {"answered": 5})
    lesson.calls = {"answered": 2}
    assert lesson.go_on(300.0, {"answered": 5}) == []
    assert lesson.driver.core.index.watching.readings["advice_failing"][lesson.job].value == 1.0


def test_of_other_jobs_nothing_is_taken() -> None:
    driver = fleet()
    (job,) = driver.submit(script("other"))
    driver.tell(RlTelemetry(job=job, attempt=f"{job}.1", steps=1, seconds=1.0))
    assert driver.core.index.watching.learners == {}
    driver.tell(RlTelemetry(job="j99", attempt="j99.1", steps=1, seconds=1.0))
    assert isinstance(driver.answers[0], NotFound)


def test_no_more_are_listened_to_than_have_series() -> None:
    driver = fleet(devices=HEARD_MOST + 5)
    driver.submit(*(script(f"s{number}", work_as=WorkKind.RL) for number in range(HEARD_MOST + 5)))
    found = learners.learning(driver.state)
    assert found == [f"j{number}" for number in range(1, HEARD_MOST + 1)]
    for name in found:
        driver.tell(RlTelemetry(job=name, attempt=f"{name}.1", steps=1, seconds=1.0))
    made = readings(driver.state, driver.core.index, driver.now, "1", "f")
    assert [each.told.job for each in made.trainings] == found


def test_there_is_a_rule_for_each_measure() -> None:
    assert {rule.measures for rule in rules(*NAMES)} == learners.READ.keys() == learners.APPLIES.keys()
