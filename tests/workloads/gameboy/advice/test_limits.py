"""Buckets never let more through than they may; breakers rest longer and longer, and try one call in between."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hostler.workloads.gameboy.advice.limits import Breaker, Bucket
from hostler.workloads.gameboy.advice.settings import Rests

GAPS = st.lists(st.floats(0, 30, allow_subnormal=False), min_size=1, max_size=60)


@given(st.floats(0.01, 50), GAPS)
def test_no_more_is_let_through_than_the_rate_and_what_was_saved_up(rate: float, gaps: list[float]) -> None:
    bucket, now, let = Bucket(rate), 0.0, []
    for gap in gaps:
        now += gap
        for _ in range(3):
            if bucket.take(now):
                let.append(now)
    for first, begun in enumerate(let):
        for last in range(first, len(let)):
            assert last - first + 1 <= (let[last] - begun) * rate + max(rate, 1) + 1e-6


def test_what_was_waited_for_is_let_through() -> None:
    bucket = Bucket(0.5)
    assert [bucket.take(each) for each in (0.0, 1.0, 2.0, 3.0, 4.0, 100.0, 100.0)] == [
        False, False, True, False, True, True, False,
    ]  # fmt: skip


RESTS = Rests(after=3, first_s=5, longest_s=40)


def fail(breaker: Breaker, now: float, pause_s: float | None = None) -> None:
    """A call that comes to nothing."""
    assert breaker.allows(now)
    breaker.asked()
    breaker.bad(now, pause_s)


def test_it_opens_after_so_many_in_a_row() -> None:
    breaker = Breaker(RESTS)
    for _ in range(5):
        fail(breaker, 0)
        fail(breaker, 0)
        breaker.asked()
        breaker.good()
    assert not breaker.is_open
    for _ in range(3):
        fail(breaker, 10)
    assert breaker.is_open
    assert not breaker.allows(14.9)
    assert breaker.allows(15)


def test_a_rest_is_twice_as_long_as_the_one_before_up_to_the_longest() -> None:
    breaker, now, rests = Breaker(RESTS), 0.0, []
    for _ in range(3):
        fail(breaker, now)
    for _ in range(6):
        begun = now
        while not breaker.allows(now):
            now += 1
        rests.append(now - begun)
        fail(breaker, now)
    assert rests == [5, 10, 20, 40, 40, 40]


def test_half_open_is_one_call_and_a_good_one_closes() -> None:
    breaker = Breaker(RESTS)
    for _ in range(3):
        fail(breaker, 0)
    assert breaker.allows(5)
    breaker.asked()
    assert not breaker.allows(5), "one is under way"
    breaker.good()
    assert breaker.allows(5)
    assert not breaker.is_open
    for _ in range(3):
        fail(breaker, 6)
    assert not breaker.allows(10.9)
    assert breaker.allows(11), "rests begin anew"


def test_calls_that_were_under_way_when_it_opened_do_not_count() -> None:
    breaker = Breaker(Rests(after=1, first_s=5))
    for _ in range(4):
        breaker.asked()
    for _ in range(4):
        breaker.bad(0)
    assert breaker.allows(5)


@pytest.mark.parametrize(("pause_s", "until"), [(7.0, 7.0), (100.0, 40.0), (0.0, 0.0)])
def test_who_wants_to_be_left_alone_is(pause_s: float, until: float) -> None:
    breaker = Breaker(RESTS)
    fail(breaker, 0, pause_s)
    assert breaker.allows(until)
    assert until == 0 or not breaker.allows(until - 0.1)


def test_workers_come_back_at_different_times() -> None:
    ends = []
    for spread in (0.0, 0.5, 1.0):
        breaker = Breaker(Rests(after=1, first_s=100), spread=spread)
        fail(breaker, 0)
        ends.append(next(now for now in range(200) if breaker.allows(now)))
    assert ends == [100, 113, 125]
