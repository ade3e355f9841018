"""The promotion test: its algebra by examples and properties, its error rates by simulation."""

from __future__ import annotations

import math
from functools import reduce
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from hostler.learning.matches import group_score
from hostler.learning.sprt import MIN_GROUPS, Evidence, Hypotheses, log_likelihood_ratio, score_at, verdict
from tests.learning.simulated import EVEN, SEATED, Openings, gap_of_share, group

HYPOTHESES = Hypotheses(elo0=0, elo1=100, alpha=0.05, beta=0.05)
MAX_GROUPS = 400
SCORES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=60)
ELOS = st.floats(-300, 300)


def _evidence(scores: list[float]) -> Evidence:
    return reduce(Evidence.add, scores, Evidence())


def _llr(evidence: Evidence, hypotheses: Hypotheses) -> float:
    llr = log_likelihood_ratio(evidence, hypotheses)
    assert llr is not None
    return llr


def _hypotheses(elo0: float, elo1: float) -> Hypotheses:
    return Hypotheses(elo0=elo0, elo1=elo1, alpha=0.05, beta=0.05)


@settings(max_examples=40)
@given(SCORES, ELOS, st.floats(1, 300))
def test_seen_from_the_other_side_the_evidence_is_the_opposite(scores: list[float], elo: float, more: float) -> None:
    ours = _llr(_evidence(scores), _hypotheses(elo, elo + more))
    theirs = _llr(_evidence([1 - score for score in scores]), _hypotheses(-elo - more, -elo))
    assert ours == pytest.approx(-theirs, abs=1e-9)


@settings(max_examples=40)
@given(SCORES)
def test_the_order_of_groups_does_not_matter(scores: list[float]) -> None:
    assert _llr(_evidence(scores), HYPOTHESES) == pytest.approx(_llr(_evidence(scores[::-1]), HYPOTHESES), abs=1e-9)


@given(st.integers(1, 200), st.integers(0, 200))
def test_more_wins_of_as_many_groups_are_better_evidence(groups: int, wins: int) -> None:
    wins %= groups
    less, more = (_evidence([1.0] * won + [0.0] * (groups - won)) for won in (wins, wins + 1))
    assert _llr(more, HYPOTHESES) > _llr(less, HYPOTHESES)


@given(st.integers(1, 10**6), st.sampled_from([0.0, 0.5, 1.0]))
def test_without_any_variance_the_ratio_is_finite_and_grows_by_groups(groups: int, score: float) -> None:
    evidence = Evidence(groups=groups, total=groups * score, squares=groups * score * score)
    further = evidence.add(score)
    assert math.isfinite(_llr(evidence, HYPOTHESES))
    assert abs(_llr(further, HYPOTHESES)) > abs(_llr(evidence, HYPOTHESES))


def test_one_or_two_groups_decide_nothing_even_if_they_may() -> None:
    for groups in (1, 2):
        for score in (0.0, 1.0):
            found = verdict(_evidence([score] * groups), HYPOTHESES, min_groups=1, max_groups=MAX_GROUPS)
            assert found.decision is None
            assert found.llr is not None
            assert found.lower / 2 < found.llr < found.upper / 2


def test_no_group_no_verdict() -> None:
    found = verdict(Evidence(), HYPOTHESES, min_groups=1, max_groups=1)
    assert found.decision is None
    assert found.llr is None
    assert "no group" in found.why


@given(st.integers(1, MIN_GROUPS - 1))
def test_nothing_is_decided_before_the_fewest_groups(groups: int) -> None:
    found = verdict(_evidence([1.0] * groups), HYPOTHESES, max_groups=MAX_GROUPS)
    assert found.decision is None
    assert "needed" in found.why


def test_bounds_are_walds() -> None:
    found = verdict(_evidence([0.5]), HYPOTHESES, max_groups=MAX_GROUPS)
    assert (found.lower, found.upper) == pytest.approx((-math.log(19), math.log(19)))


def test_undecided_at_the_most_groups_is_a_rejection_that_says_so() -> None:
    even = _evidence([0.0, 1.0, 0.5, 0.75] * 3)
    assert verdict(even, HYPOTHESES, max_groups=13).decision is None
    found = verdict(even, HYPOTHESES, max_groups=12)
    assert found.decision == "reject"
    assert "not shown to be better within 12 groups" in found.why


def test_a_decision_at_the_most_groups_stands() -> None:
    found = verdict(_evidence([1.0] * 30), HYPOTHESES, max_groups=30)
    assert found.decision == "promote"
    assert "better by more than 0 Elo" in found.why


@pytest.mark.parametrize(
    ("elo0", "elo1", "alpha", "beta"),
    [(10, 10, 0.05, 0.05), (10, 0, 0.05, 0.05), (0, 10, 0, 0.05), (0, 10, 0.05, 0.5), (0, math.nan, 0.05, 0.05)],
)
def test_hypotheses_that_cannot_be_told_apart_are_refused(elo0: float, elo1: float, alpha: float, beta: float) -> None:
    with pytest.raises(ValueError, match="choose"):
        Hypotheses(elo0=elo0, elo1=elo1, alpha=alpha, beta=beta)


@pytest.mark.parametrize(("least", "most"), [(0, 10), (11, 10)])
def test_bounds_of_groups_that_contradict_each_other_are_refused(least: int, most: int) -> None:
    with pytest.raises(ValueError, match="choose 1 <="):
        verdict(Evidence(), HYPOTHESES, min_groups=least, max_groups=most)


@pytest.mark.parametrize("score", [-0.1, 1.1, math.nan])
def test_what_is_no_score_is_refused(score: float) -> None:
    with pytest.raises(ValueError, match="score of a group"):
        Evidence().add(score)


TESTS = 800


def _run(random: Random, players: int, elo: float, openings: Openings) -> tuple[str, int]:
    """One whole test of a candidate that is `elo` better: its decision, and its groups."""
    evidence, gap = Evidence(), gap_of_share(score_at(elo))
    while True:
        evidence = evidence.add(group_score(group(random, players, gap, openings)))
        decision = verdict(evidence, HYPOTHESES, max_groups=MAX_GROUPS).decision
        if decision is not None:
            return decision, evidence.groups


def _share(decision: str, players: int, elo: float, openings: Openings) -> float:
    random = Random(f"{players} {elo} {openings}")
    return sum(_run(random, players, elo, openings)[0] == decision for _ in range(TESTS)) / TESTS


OPENINGS = {"even": EVEN, "seated": SEATED, "suited": Openings(suits=200.0)}
QUICK = {(2, "even")}


@pytest.mark.parametrize(
    ("players", "openings"),
    [
        pytest.param(
            players, openings, id=f"{players}-{name}", marks=() if (players, name) in QUICK else pytest.mark.long
        )
        for players in (2, 3, 4)
        for name, openings in OPENINGS.items()
    ],
)
def test_error_rates_are_those_stated(players: int, openings: Openings) -> None:
    """Standard error of a rate of 0.05 in 800 tests: 0.008."""
    assert _share("promote", players, HYPOTHESES.elo0, openings) <= 0.06
    assert _share("reject", players, HYPOTHESES.elo1, openings) <= 0.06


@pytest.mark.parametrize("players", [2, 4])
def test_a_hugely_better_candidate_passes_in_few_groups(players: int) -> None:
    random = Random(players)
    runs = [_run(random, players, 400, EVEN) for _ in range(200)]
    assert {decision for decision, _ in runs} == {"promote"}
    assert sum(groups for _, groups in runs) / len(runs) < 13
