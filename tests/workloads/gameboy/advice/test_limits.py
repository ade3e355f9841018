"""Buckets never let more through than they may; breakers rest longer and longer, and try one call in between."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from hostler.workloads.gameboy.advice.limits import KEEPS_S, Breaker, Bucket
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


def burst(workers: int, rate: float, gaps: list[float]) -> list[int]:
    """How many calls are let through at once when nobody has asked for so long, over and over."""
    buckets = [Bucket(rate / workers, filled=number / workers, shares=True) for number in range(workers)]
    now, let = 0.0, []
    for gap in [0.0, *gaps]:
        now += gap
        let.append(sum(each.take(now) for each in buckets))
    return let[1:]


@given(st.integers(100, 400), st.floats(1, 8), st.lists(st.floats(0.1, 600), min_size=1, max_size=5))
def test_many_workers_that_had_nothing_to_ask_do_not_ask_all_at_once(
    workers: int, rate: float, gaps: list[float]
) -> None:
    assert max(burst(workers, rate, gaps)) <= rate * KEEPS_S + 2


@settings(max_examples=15)
@given(st.integers(4, 30), st.floats(0.1, 4), st.floats(0, 1))
def test_workers_that_always_ask_have_all_of_the_budget_together(workers: int, rate: float, spread: float) -> None:
    buckets = [Bucket(rate / workers, filled=(spread + each / workers) % 1, shares=True) for each in range(workers)]
    let = sum(each.take(0.25 * tick) for tick in range(2000) for each in buckets)
    assert rate * 500 * 0.7 - workers <= let <= rate * 500 + workers


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
