"""What is told of calls: of the last ones, of all workers, and when it is too few."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given, strategies as st

from hostler.workloads.gameboy.advice.counts import Came, Counts, News
from hostler.workloads.gameboy.advice.report import ALARM, Report, Watch
from hostler.workloads.gameboy.advice.settings import Alarm
from tests.workloads.gameboy.advice.asking import asking


def news(answered: int, refused: int, trouble: str | None = None, *, is_resting: bool = False) -> News:
    counts = Counts(asked=answered + refused)
    for _ in range(answered):
        counts.came(Came.ANSWERED, 0.25)
    for _ in range(refused):
        counts.came(Came.REFUSED, 2.0)
    return News(counts, is_resting, trouble)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40), st.integers(1, 30))
def test_the_last_calls_are_judged(story: list[tuple[int, int]], calls: int) -> None:
    watch = Watch(Alarm(share=0.8, calls=calls), 3)
    for answered, refused in story:
        watch.add(news(answered, refused))
    told = [each for each in story if sum(each)]
    last: list[tuple[int, int]] = []
    while told and sum(map(sum, last)) < calls:
        last.append(told.pop())
    answered, whole = sum(each for each, _ in last), sum(map(sum, last))
    assert watch.success == (pytest.approx(answered / whole) if whole else None)


def test_people_are_told_of_an_endpoint_that_is_dead_from_the_beginning() -> None:
    watch = Watch(Alarm(share=0.8, calls=50), least=3)
    assert (watch.success, watch.alarm) == (None, None)
    watch.add(news(0, 2, "refused: nobody there"))
    assert watch.alarm is None, "too few to say"
    watch.add(news(0, 1))
    assert watch.alarm == (
        "0 of the last 3 calls were answered as they should be, fewer than 80%; the last failure: refused: nobody there"
    )
    watch.add(news(50, 0))
    assert watch.alarm is None


def test_counts_come_back_from_a_checkpoint_as_they_were() -> None:
    counts = news(2, 3).counts
    counts.add(news(1, 1).counts)
    assert Counts.of(json.loads(json.dumps(asdict(counts)))) == counts
    assert (counts.asked, counts.answered, counts.finished) == (7, 3, 7)


def test_how_long_calls_were_waited_for_is_told_by_bounds() -> None:
    counts = Counts()
    for came, seconds in ((Came.ANSWERED, 0.05), (Came.GARBAGE, 0.3), (Came.TIMEOUT, 90.0), (Came.REFUSED, 0.01)):
        counts.came(came, seconds)
    waits = Report(asking()).line(counts, 0)["waits"]
    assert (waits["calls"], waits["seconds"]) == (3, pytest.approx(90.35))
    assert (waits["within"]["0.05"], waits["within"]["0.25"], waits["within"]["0.5"], waits["within"]["60"]) == (
        1,
        1,
        2,
        2,
    )


def test_counts_of_older_checkpoints_have_no_waits() -> None:
    plain = asdict(news(2, 3).counts)
    del plain["waits"]
    assert Counts.of(plain).waits == Counts().waits


def test_a_line_has_what_became_of_calls_and_what_promises_are_worth() -> None:
    report = Report(asking(alarm={"calls": 4}))
    report.add(news(1, 3, "refused: nobody", is_resting=True))
    report.add(news(0, 0))
    counts = news(1, 3).counts
    line = json.loads(json.dumps(report.line(counts, updates=4)))
    assert line["calls"] == {
        "answered": {"calls": 1, "mean_s": 0.25, "longest_s": 0.25},
        "refused": {"calls": 3, "mean_s": 2.0, "longest_s": 2.0},
    }
    assert (line["asked"], line["success"], line["resting"], line["weight"]) == (4, 0.25, 0.5, 0.6)
    assert line["trouble"] == "refused: nobody"
    assert report.alarms == (ALARM,)
    assert report.line(counts, updates=99)["weight"] == 0
    assert report.line(counts, updates=99)["resting"] is None
