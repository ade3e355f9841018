"""Every copy's turn comes before it is due, at no more than the bound; where that cannot be, it is said why."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given, settings, strategies as st

from hostler.policy.scrubbing import AIM, DAY_S, Age, demand, pace, turn, wait_s

PROMISE_S = 30 * DAY_S
AIM_S = PROMISE_S * AIM
ages = st.lists(
    st.builds(Age, st.floats(-AIM_S + 1, 0), st.integers(0, 10**12)),
    max_size=30,
)


@settings(max_examples=40)
@given(ages)
def test_at_the_rate_that_is_needed_each_is_read_before_it_is_due(copies: list[Age]) -> None:
    """Played through: budget grows, the oldest go first, none before there is budget for all of it."""
    rate = demand(copies, 0.0, AIM_S)
    assert math.isfinite(rate)
    queue, at, budget = sorted(copies), 0.0, 0.0
    while queue:
        sizes = [each.bytes for each in queue]
        rest = wait_s(sizes, budget, rate)
        at, budget = at + rest, budget + rest * rate
        taken, budget = turn(sizes, budget * (1 + 1e-12) + 1e-6)
        for each in queue[:taken]:
            assert at <= (each.verified_at + AIM_S) * (1 + 1e-9) + 1e-3
        queue = queue[taken:]


@settings(max_examples=40)
@given(ages, st.data())
def test_no_smaller_rate_would_do(copies: list[Age], data: st.DataObject) -> None:
    rate = demand(copies, 0.0, AIM_S)
    whole = sum(each.bytes for each in copies)
    assume(rate > whole / AIM_S * 1.01)
    before, late = 0, False
    for each in sorted(copies):
        before += each.bytes
        late = late or (each.bytes > 0 and before / (rate * 0.99) > each.verified_at + AIM_S)
    assert late


@settings(max_examples=40)
@given(ages, st.floats(0, 60 * DAY_S), st.floats(1, 1e12))
def test_nobody_reads_faster_than_the_bound_and_nothing_is_promised_in_vain(
    copies: list[Age], at: float, bound: float
) -> None:
    found = pace("vault", copies, at, PROMISE_S, bound)
    assert 0 <= found.allowed <= bound
    assert found.bytes == sum(each.bytes for each in copies)
    if found.needed <= bound:
        assert found.why is None
        assert found.allowed == found.needed
    if found.bytes / AIM_S > bound:
        assert found.why is not None
        assert "scrub_mb_per_s" in found.why


@settings(max_examples=40)
@given(st.lists(st.integers(0, 1000), max_size=20), st.floats(0, 5000))
def test_a_turn_takes_what_there_is_budget_for_in_order(sizes: list[int], budget: float) -> None:
    taken, left = turn(sizes, budget)
    assert left >= 0
    assert left == pytest.approx(budget - sum(sizes[:taken]))
    if taken < len(sizes):
        assert sizes[taken] > left


def test_what_cannot_be_is_said_with_its_arithmetic() -> None:
    """100 TB in 22.5 days is 51.4 MB/s."""
    found = pace("vault", [Age(0.0, 10**14)], 0.0, PROMISE_S, 20e6)
    assert found.allowed == 20e6
    assert found.why == (
        "copies in vault cannot all be read every 30 days: 1e+05 GB in 0.75 of that take 51.4 MB/s, and "
        "replication.scrub_mb_per_s allows 20; allow more, or set replication.reread_s to 6666667 or more"
    )


def test_after_a_long_pause_it_reads_as_fast_as_it_may_and_says_so_only_if_copies_cease_to_count() -> None:
    due = [Age(0.0, 10**12)]
    found = pace("vault", due, AIM_S + DAY_S, PROMISE_S, 20e6)
    assert (found.allowed, found.overdue_bytes, found.why) == (20e6, 10**12, None)
    late = pace("vault", due, PROMISE_S, PROMISE_S, 20e6)
    assert late.why is not None
    assert "0.58 days after" in late.why


def test_an_empty_place_is_not_read() -> None:
    assert pace("vault", [], 0.0, PROMISE_S, 1.0).allowed == 0.0
    assert wait_s([], 0.0, 1.0) == math.inf
    assert wait_s([5], 1.0, 0.0) == math.inf
    assert wait_s([5], 1.0, 2.0) == 2.0
