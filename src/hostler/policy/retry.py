"""Again, elsewhere, or give up? By failure class; lost nodes and user errors have separate budgets."""

from __future__ import annotations

from collections.abc import Mapping

from hostler.model.record import record
from hostler.model.work import DEFAULT_BUDGETS, FailureClass, Retry

BLAMELESS = frozenset({FailureClass.LOST})


@record
class Verdict:
    """What to do about a failed attempt."""

    again: bool
    rest_s: float
    why: str


def verdict(policy: Retry, failures: Mapping[FailureClass, int], latest: FailureClass) -> Verdict:
    """Judge a job whose attempts failed `failures` times by class, the latest included.

    Waiting never lowers a job's rank: the rest delays the job, its place in the queue stays.
    """
    count = failures[latest]
    budget = policy.max_attempts.get(latest, DEFAULT_BUDGETS[latest])
    if count >= budget:
        return Verdict(again=False, rest_s=0.0, why=f"{latest}: {count} of {budget} allowed attempts used")
    rest_s = _rest(policy, failures) if latest not in BLAMELESS else 0.0
    return Verdict(again=True, rest_s=rest_s, why=f"{latest}: attempt {count} of {budget} allowed, rest {rest_s:g} s")


def _rest(policy: Retry, failures: Mapping[FailureClass, int]) -> float:
    blamed = sum(count for kind, count in failures.items() if kind not in BLAMELESS)
    doublings = min(max(blamed - 1, 0), 62)
    return float(min(policy.backoff_s * 2**doublings, policy.backoff_max_s))
