"""Again or not: budgets by failure class, rests that double, and no blame for lost nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostler.model.work import DEFAULT_BUDGETS, FailureClass, Retry
from hostler.policy import retry

COUNTS = st.dictionaries(st.sampled_from(FailureClass), st.integers(0, 100))


@given(COUNTS, st.sampled_from(FailureClass), st.integers(1, 100))
def test_again_until_the_budget_of_the_class_is_used(
    failures: dict[FailureClass, int], latest: FailureClass, count: int
) -> None:
    verdict = retry.verdict(Retry(), {**failures, latest: count}, latest)
    assert verdict.again is (count < DEFAULT_BUDGETS[latest])
    assert str(latest) in verdict.why
    assert 0 <= verdict.rest_s <= Retry().backoff_max_s


@pytest.mark.parametrize("failure", FailureClass)
def test_every_class_has_a_budget_and_the_owner_may_set_it(failure: FailureClass) -> None:
    assert DEFAULT_BUDGETS[failure] >= 1
    policy = Retry(max_attempts={failure: 99})
    assert retry.verdict(policy, {failure: 98}, failure).again
    assert not retry.verdict(policy, {failure: 99}, failure).again


def test_lost_nodes_and_user_errors_have_separate_budgets() -> None:
    failures = {FailureClass.LOST: 9, FailureClass.EXIT: 1}
    assert retry.verdict(Retry(), failures, FailureClass.EXIT).again
    assert retry.verdict(Retry(), failures, FailureClass.LOST).again


def test_rests_double_up_to_the_most() -> None:
    policy = Retry(max_attempts={FailureClass.EXIT: 10**6}, backoff_s=2.0, backoff_max_s=100.0)
    rests = [retry.verdict(policy, {FailureClass.EXIT: n}, FailureClass.EXIT).rest_s for n in (1, 2, 3, 6, 7, 10**5)]
    assert rests == [2.0, 4.0, 8.0, 64.0, 100.0, 100.0]


def test_who_lost_its_node_does_not_rest() -> None:
    failures = {FailureClass.LOST: 3, FailureClass.EXIT: 1}
    assert retry.verdict(Retry(), failures, FailureClass.LOST).rest_s == 0.0
    assert retry.verdict(Retry(backoff_s=3), failures, FailureClass.EXIT).rest_s == 3.0
