"""Match plans: where a group tells most, and how much is known afterwards."""

from __future__ import annotations

import itertools
import math
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from hostler.learning.elo import PRIOR_SD
from hostler.learning.plan import SPREAD_MAX, Planned, best_opponents
from hostler.model.learning import INTERVAL_SD, Rating
from tests.learning.simulated import match


def _rating(elo: float, sd: float) -> Rating:
    return Rating(elo=elo, low=elo - INTERVAL_SD * sd, high=elo + INTERVAL_SD * sd, games=100)


def _anchor(elo: float) -> Rating:
    return Rating(elo=elo, low=elo, high=elo, games=0)


RATINGS = {
    "random": _anchor(0),
    "greedy": _anchor(300),
    "mc-64": _anchor(700),
    "old": _rating(650, 20),
    "vague": _rating(680, 200),
    "subject": _rating(660, 80),
    "new": None,
}
ALL = [name for name in RATINGS if name != "subject"]


def _groups(plan: tuple[Planned, ...]) -> dict[str, int]:
    return {match.opponent: match.groups for match in plan}


def test_equals_are_met_and_an_anchor_rather_than_the_uncertain() -> None:
    plan = best_opponents("subject", RATINGS, ["random", "mc-64", "vague"], 20)
    assert _groups(plan) == {"mc-64": 20}
    assert plan[0].gap == pytest.approx(-40)
    assert plan[0].share == pytest.approx(0.443, abs=0.001)
    assert "anchor, gap -40" in plan[0].why


def test_of_equals_the_anchor_is_chosen() -> None:
    ratings = {"subject": _rating(0, 50), "a": _rating(100, 1e-9), "z": _anchor(100), "b": _anchor(-1000)}
    assert _groups(best_opponents("subject", ratings, ["a", "b", "z"], 1)) == {"z": 1}


def test_an_uncertain_opponent_is_worth_less_with_every_group() -> None:
    ratings = {"subject": _rating(0, 100), "anchor": _anchor(500), "peer": _rating(0, 60)}
    few, many = (best_opponents("subject", ratings, ["anchor", "peer"], groups) for groups in (4, 400))
    assert _groups(few) == {"peer": 4}
    assert _groups(many)["anchor"] > _groups(many)["peer"]
    assert "rated to ±118" in few[0].why


def test_no_opponent_makes_the_subject_better_known_than_itself() -> None:
    ratings = {"subject": _rating(0, 1000), "peer": _rating(0, 60)}
    (plan,) = best_opponents("subject", ratings, ["peer"], 10**4)
    assert plan.half_width > INTERVAL_SD * 59


def test_the_unrated_begins_with_a_spread_over_anchors() -> None:
    plan = best_opponents("new", RATINGS, ALL, 8)
    assert _groups(plan) == {"random": 3, "greedy": 3, "mc-64": 2}
    assert all(match.gap is None and match.share is None for match in plan)
    assert [match.half_width for match in plan] == sorted((match.half_width for match in plan), reverse=True)
    assert plan[-1].half_width < INTERVAL_SD * PRIOR_SD


def test_the_spread_takes_both_ends_where_there_are_many_anchors() -> None:
    ratings = {f"mc-{number:02}": _anchor(100.0 * number) for number in range(10)}
    assert list(_groups(best_opponents("new", ratings, ratings, 8))) == ["mc-00", "mc-03", "mc-06", "mc-09"]
    assert len(best_opponents("new", ratings, ratings, 80)) == SPREAD_MAX
    assert list(_groups(best_opponents("new", ratings, ratings, 2))) == ["mc-00", "mc-09"]
    assert list(_groups(best_opponents("new", ratings, ratings, 1))) == ["mc-05"]


def test_the_unrated_meets_who_is_rated_where_there_is_no_anchor() -> None:
    assert set(_groups(best_opponents("new", RATINGS, ["old", "vague"], 4))) == {"old", "vague"}


@pytest.mark.parametrize(
    ("subject", "candidates", "groups"),
    [("subject", [], 9), ("subject", ["subject"], 9), ("subject", ["new", "absent"], 9), ("subject", ALL, 0)],
)
def test_nobody_to_play_or_no_groups_is_an_empty_plan(subject: str, candidates: list[str], groups: int) -> None:
    assert best_opponents(subject, RATINGS, candidates, groups) == ()


def test_an_anchor_needs_no_match() -> None:
    assert best_opponents("greedy", RATINGS, ALL, 9) == ()


OPPONENTS = st.lists(st.tuples(st.floats(-500, 500), st.sampled_from([0.0, 30.0, 100.0])), min_size=1, max_size=3)


@settings(max_examples=40)
@given(OPPONENTS, st.integers(1, 6), st.sampled_from([2, 3, 4]), st.floats(20, 400))
def test_no_other_way_to_spend_the_groups_is_better(
    opponents: list[tuple[float, float]], groups: int, players: int, sd: float
) -> None:
    """Every division of the groups, worked out from the precision that plans with one opponent state."""
    ratings: dict[str, Rating | None] = {f"o{n}": _rating(elo, apart) for n, (elo, apart) in enumerate(opponents)}
    ratings["subject"] = _rating(0, sd)

    def told(name: str, count: int) -> float:
        if count == 0:
            return 0.0
        (alone,) = best_opponents("subject", ratings, [name], count, players=players)
        return (INTERVAL_SD / alone.half_width) ** 2 - 1 / sd**2

    plan = best_opponents("subject", ratings, ratings, groups, players=players)
    assert sum(match.groups for match in plan) == groups
    names = [name for name in ratings if name != "subject"]
    divisions = (d for d in itertools.product(range(groups + 1), repeat=len(names)) if sum(d) == groups)
    best = max(sum(told(name, count) for name, count in zip(names, d, strict=True)) for d in divisions)
    assert (INTERVAL_SD / plan[-1].half_width) ** 2 == pytest.approx(best + 1 / sd**2, rel=1e-9)


@settings(max_examples=40)
@given(OPPONENTS, st.integers(1, 30))
def test_more_groups_are_never_expected_to_widen_the_interval(opponents: list[tuple[float, float]], n: int) -> None:
    ratings: dict[str, Rating | None] = {f"o{at}": _rating(elo, sd) for at, (elo, sd) in enumerate(opponents)}
    ratings["subject"] = _rating(0, 150)
    less, more = (best_opponents("subject", ratings, ratings, groups)[-1].half_width for groups in (n, n + 1))
    assert more <= less <= INTERVAL_SD * 150


@pytest.mark.parametrize("players", [2, 4])
def test_the_expected_interval_is_about_the_one_that_comes(players: int) -> None:
    ratings_module = pytest.importorskip("hostler.learning.ratings", reason="ratings need openskill: the extra [eval]")
    random, fitted = Random(players), []
    for _ in range(40):
        played = match(random, players, ("x", "mc"), random.gauss(0, 100), 40)
        rating = ratings_module.fit([played], {"mc": 0.0}, [])["x"]
        fitted.append((rating.high - rating.low) / 2)
    ratings = {"x": _rating(0, 1000), "known": _rating(0, 100), "mc": _anchor(0)}
    (plan,) = best_opponents("known", ratings, ["mc"], 40, players=players)
    without_prior = 1 / math.sqrt(1 / plan.half_width**2 - 1 / (INTERVAL_SD * 100) ** 2)
    assert without_prior == pytest.approx(sum(fitted) / len(fitted), rel=0.12)
