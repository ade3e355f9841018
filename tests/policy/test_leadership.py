"""Takeovers and tenures, by examples and for all sequences of looks."""

from __future__ import annotations

from hypothesis import given, strategies as st

from hostler.policy.leadership import LEASE_S, MARGIN_S, RENEW_S, Tenure, Watch


def test_a_leader_that_beats_is_left_alone() -> None:
    watch = Watch()
    assert not any(watch.look(1, beat, beat * 0.9 * LEASE_S) for beat in range(50))


def test_one_that_stands_still_for_a_lease_is_taken_over_from() -> None:
    watch = Watch()
    assert not watch.look(1, 7, 100.0)
    assert not watch.look(1, 7, 100.0 + LEASE_S - 0.01)
    assert watch.look(1, 7, 100.0 + LEASE_S)


def test_one_whose_connection_is_gone_has_as_long_as_it_may_act() -> None:
    watch = Watch()
    assert not watch.look(1, 7, 100.0, unheld=True)
    assert not watch.look(1, 7, 100.0 + LEASE_S - MARGIN_S - 0.01, unheld=True)
    assert not watch.look(1, 7, 100.0 + LEASE_S - MARGIN_S)
    assert watch.look(1, 7, 100.0 + LEASE_S - MARGIN_S, unheld=True)


def test_one_that_has_given_up_is_taken_over_from_at_once() -> None:
    assert Watch().look(3, 9, 5.0, given_up=True)


def test_a_new_leader_has_its_time_from_the_first_look() -> None:
    watch = Watch()
    assert not watch.look(1, 7, 0.0)
    assert not watch.look(2, 7, LEASE_S)
    assert not watch.look(2, 7, 2 * LEASE_S - 0.01)
    assert watch.look(2, 7, 2 * LEASE_S)


def test_who_saw_nothing_for_a_while_begins_anew() -> None:
    watch = Watch()
    assert not watch.look(1, 7, 0.0)
    watch.blind()
    assert not watch.look(1, 7, 100.0)
    assert watch.look(1, 7, 100.0 + LEASE_S)


def test_a_tenure_ends_before_others_take_over() -> None:
    tenure = Tenure(10.0)
    assert tenure.holds(10.0 + LEASE_S - MARGIN_S - 0.01)
    assert not tenure.holds(10.0 + LEASE_S - MARGIN_S)
    assert tenure.due(10.0 + RENEW_S)
    tenure.renewed(12.0)
    tenure.renewed(11.0)
    assert tenure.holds(12.0 + LEASE_S - MARGIN_S - 0.01)
    assert not tenure.due(12.0 + RENEW_S - 0.01)


@given(
    st.lists(st.floats(0.0, 3 * LEASE_S), min_size=1, max_size=20),
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=200),
    st.floats(-1e6, 1e6),
    st.booleans(),
)
def test_whoever_takes_over_finds_a_leader_that_acts_no_more(
    renewals: list[float], looks: list[float], skew_s: float, unheld: bool
) -> None:
    """Whenever the leader renewed and the standby looked, and whatever their clocks show."""
    times = sorted(renewals)
    tenure, watch, now = Tenure(times[0] + skew_s), Watch(), times[0]
    for pause in looks:
        now += pause
        beat = sum(each <= now for each in times)
        tenure.renewed(times[beat - 1] + skew_s)
        if watch.look(1, beat, now, unheld=unheld):
            assert not tenure.holds(now + skew_s)
