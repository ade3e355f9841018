"""Which training config deserves the next self-play: the starved, then shares, then a score of bounded factors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.model.rules import PriorityWeights
from hostler.policy.priority import STARVED_S, TURN_S, Claim, Place, contenders, first, progress, score, starvation

HOUR_S = 3600.0
CLAIM = Claim(
    name="a",
    weight=1.0,
    heaviest=1.0,
    served=0.0,
    idle_s=60.0,
    data_age_s=60.0,
    velocity=0.0,
)
FACTORS: dict[str, Callable[[int], dict[str, Any]]] = {
    "curriculum": lambda to: {"weight": 0.001 if to == 0 else 1.0},
    "starvation": lambda to: {"idle_s": 0.0 if to == 0 else None},
    "data age": lambda to: {"data_age_s": 0.0 if to == 0 else 1e9},
    "velocity": lambda to: {"velocity": -1e6 if to == 0 else 1e6, "velocity_low": -9.0, "velocity_high": 9.0},
    "quality": lambda to: {"quality": float(to)},
}
"""For each factor what moves it from one end to the other."""

maybe = st.none() | st.floats(0, 1e9)
elo = st.floats(-1e6, 1e6)
weights = st.builds(PriorityWeights, **{field.name: st.floats(0, 1000) for field in fields(PriorityWeights)})


@st.composite
def claims(draw: st.DrawFn, name: str = "a") -> Claim:
    low, high = sorted((draw(elo), draw(elo)))
    known = draw(st.booleans())
    return Claim(
        name=name,
        weight=draw(st.floats(0.01, 1)),
        heaviest=1.0,
        served=draw(st.floats(0, 1e6)),
        idle_s=draw(maybe),
        data_age_s=draw(maybe),
        velocity=draw(st.none() | elo),
        velocity_low=low if known else None,
        velocity_high=high if known else None,
        quality=draw(st.none() | st.floats(0, 1)),
    )


@settings(max_examples=30)
@given(claims(), weights)
def test_a_score_its_parts_and_what_they_add_lie_between_0_and_1(claim: Claim, given_weights: PriorityWeights) -> None:
    found = score(claim, given_weights)
    assert -1e-9 <= found.total <= 1 + 1e-9
    assert all(part is None or 0 <= part <= 1 for part in found.parts.values())
    assert sum(found.contributions.values()) == pytest.approx(found.total, abs=1e-9)
    assert list(found.parts) == list(found.weights) == list(FACTORS)


def test_unknown_is_shown_as_unknown_and_counts_as_the_middle() -> None:
    unknown = score(replace(CLAIM, velocity=None))
    assert unknown.parts["velocity"] is None
    assert "velocity ?" in str(unknown)
    assert unknown.total == score(replace(CLAIM, velocity=0.0)).total
    assert score(CLAIM).total == score(replace(CLAIM, quality=0.5)).total


def test_the_log_tells_each_factor_with_its_weight() -> None:
    told = str(score(replace(CLAIM, idle_s=8 * HOUR_S, data_age_s=4 * HOUR_S, quality=0.9)))
    assert told == (
        "0.710 (curriculum 1.00·0.30, starvation 0.50·0.25, data age 0.50·0.15, velocity 0.50·0.15, quality 0.90·0.15)"
    )


@pytest.mark.parametrize("name", FACTORS)
def test_each_factor_pulls(name: str) -> None:
    lowest, highest = (score(replace(CLAIM, **FACTORS[name](to))).total for to in (0, 1))
    assert highest > lowest


@pytest.mark.parametrize("name", FACTORS)
@settings(max_examples=30)
@given(claims())
def test_no_factor_drowns_the_others(name: str, claim: Claim) -> None:
    """Factors are added, never multiplied: from one end to the other each moves the score by its weight, no more."""
    low, high = (score(replace(claim, **FACTORS[name](to))) for to in (0, 1))
    assert high.total - low.total <= high.weights[name] + 1e-9
    assert high.total - low.total >= 0.99 * high.weights[name]


@settings(max_examples=30)
@given(claims(), weights, st.sampled_from([0.125, 8.0]))
def test_only_the_proportions_of_the_weights_matter(claim: Claim, some: PriorityWeights, factor: float) -> None:
    scaled = PriorityWeights(**{f.name: min(getattr(some, f.name) / 8 * factor, 1000.0) for f in fields(some)})
    base = PriorityWeights(**{f.name: getattr(some, f.name) / 8 for f in fields(some)})
    assert score(claim, scaled).total == pytest.approx(score(claim, base).total)


def test_weights_come_from_the_settings() -> None:
    only = PriorityWeights(curriculum=0.0, starvation=0.0, data_age=0.0, velocity=0.0, quality=2.0)
    assert score(replace(CLAIM, quality=0.3), only).total == pytest.approx(0.3)
    nothing = replace(only, quality=0.0)
    assert score(CLAIM, nothing).total == score(replace(CLAIM, quality=1.0), nothing).total == 0.0


@settings(max_examples=30)
@given(claims(), st.floats(0, 1e6))
def test_waiting_never_lowers_a_score(claim: Claim, longer_s: float) -> None:
    later = replace(
        claim,
        idle_s=None if claim.idle_s is None else claim.idle_s + longer_s,
        data_age_s=None if claim.data_age_s is None else claim.data_age_s + longer_s,
    )
    assert score(later).total >= score(claim).total


@settings(max_examples=30)
@given(st.lists(claims(), min_size=1, max_size=6), st.floats(0, 1e6), st.none() | st.floats(60, 1e6))
def test_waiting_never_lowers_a_rank(some: list[Claim], longer_s: float, starve_after_s: float | None) -> None:
    some = [replace(claim, name=f"c{number}") for number, claim in enumerate(some)]
    chosen, _ = first(some, starve_after_s=starve_after_s)
    later = replace(chosen, idle_s=None if chosen.idle_s is None else chosen.idle_s + longer_s)
    others = [claim for claim in some if claim.name != chosen.name]
    assert first([later, *others], starve_after_s=starve_after_s)[0].name == chosen.name


@settings(max_examples=30)
@given(st.lists(st.tuples(st.floats(0, 1e6), maybe), min_size=1, max_size=6), st.floats(0, 1e6))
def test_who_may_come_next_still_may_after_waiting_longer(
    some: list[tuple[float, float | None]], longer_s: float
) -> None:
    places = [Place(f"c{number}", served, idle_s) for number, (served, idle_s) in enumerate(some)]
    name = contenders(places, STARVED_S)[0]
    waited = [
        each._replace(idle_s=each.idle_s + longer_s) if each.name == name and each.idle_s is not None else each
        for each in places
    ]
    assert name in contenders(waited, STARVED_S)


@settings(max_examples=30)
@given(claims(), st.sampled_from(["hex8_2p", "hex8_3p", "square19_3p", "hexagonal_4p"]))
def test_configs_for_three_players_are_like_all_others(claim: Claim, name: str) -> None:
    assert score(replace(claim, name=name)) == score(claim)


# --- starvation and age -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hours", "expected"), [(0, 0), (4, 0), (8, 1 / 2), (12, 2 / 3), (24, 5 / 6), (168, 41 / 42)])
def test_starvation_begins_after_four_hours_and_never_stops_growing(hours: float, expected: float) -> None:
    assert starvation(hours * HOUR_S) == pytest.approx(expected)


@pytest.mark.parametrize("factor", ["idle_s", "data_age_s"])
def test_nothing_saturates_at_four_hours(factor: str) -> None:
    waited: list[dict[str, Any]] = [{factor: hours * HOUR_S} for hours in (4, 5, 8, 24, 48, 168, 720)]
    scores = [score(replace(CLAIM, **each)).total for each in waited]
    assert scores == sorted(set(scores))


def test_a_config_never_served_is_starved_most() -> None:
    assert score(replace(CLAIM, idle_s=None)).parts["starvation"] == 1.0


def test_the_starved_go_first_whatever_their_shares_the_longest_before_all() -> None:
    rich = replace(CLAIM, name="rich", served=1e6, idle_s=STARVED_S + 1)
    richer = replace(CLAIM, name="richer", served=1e7, idle_s=STARVED_S + 2)
    poor = replace(CLAIM, name="poor", served=0.0, idle_s=60.0)
    assert first([poor, richer, rich], starve_after_s=STARVED_S)[0].name == "richer"
    assert first([poor, rich], starve_after_s=STARVED_S)[0].name == "rich"
    assert first([poor, rich])[0].name == "poor"
    assert first([poor, replace(rich, idle_s=STARVED_S)], starve_after_s=STARVED_S)[0].name == "poor"


def test_the_starved_are_fed_once_and_do_not_take_everything() -> None:
    rich = replace(CLAIM, name="rich", served=1e6, idle_s=1e6)
    poor = replace(CLAIM, name="poor", served=0.0)
    assert first([rich, poor], starve_after_s=STARVED_S)[0].name == "rich"
    fed = replace(rich, served=rich.served + 60.0, idle_s=0.0)
    assert first([fed, poor], starve_after_s=STARVED_S)[0].name == "poor"


def test_priority_rotates_among_configs_never_served() -> None:
    some = [replace(CLAIM, name=name, idle_s=None) for name in "abc"]
    chosen = []
    for _ in some:
        name = first(some, starve_after_s=STARVED_S)[0].name
        chosen.append(name)
        some = [replace(claim, served=60.0, idle_s=0.0) if claim.name == name else claim for claim in some]
    assert sorted(chosen) == ["a", "b", "c"]


# --- velocity ---------------------------------------------------------------------------------------------------------


def moving(velocity: float | None, half: float | None = 10.0) -> float | None:
    low, high = (None, None) if half is None or velocity is None else (velocity - half, velocity + half)
    return progress(replace(CLAIM, velocity=velocity, velocity_low=low, velocity_high=high))


def test_a_velocity_has_a_sign() -> None:
    back, still, slow, fast = (moving(velocity) or 0.0 for velocity in (-50.0, 0.0, 20.0, 50.0))
    assert back < still == 0.5 < slow < fast
    assert back == pytest.approx(1 - fast)


@settings(max_examples=30)
@given(st.floats(-300, 300), st.floats(0, 1e4), st.floats(1, 1e4))
def test_the_wider_the_interval_the_closer_to_the_middle(velocity: float, half: float, wider: float) -> None:
    sure, unsure = moving(velocity, half), moving(velocity, half + wider)
    assert sure is not None
    assert unsure is not None
    assert abs(unsure - 0.5) <= abs(sure - 0.5)
    assert (unsure - 0.5) * velocity >= 0


def test_a_velocity_without_an_interval_is_not_taken_for_certain() -> None:
    assert moving(None) is None
    assert 0.5 < (moving(50.0, None) or 0.0) < (moving(50.0, 0.0) or 0.0)


def test_priority_of_a_stalled_config_recovers() -> None:
    """A config that gets worse loses less by it than by any one other reason to play: there is no spiral."""
    worst = replace(CLAIM, velocity=-1e6, velocity_low=-1e6, velocity_high=-1e6)
    best = replace(CLAIM, velocity=1e6, velocity_low=1e6, velocity_high=1e6)
    assert score(best).total - score(worst).total == pytest.approx(0.15)
    assert score(replace(worst, idle_s=14 * HOUR_S, quality=0.6)).total > score(best).total


# --- shares first -----------------------------------------------------------------------------------------------------


def test_shares_come_first_and_the_score_decides_among_equals() -> None:
    had = replace(CLAIM, name="had", served=102.0 + TURN_S, idle_s=1e6)
    stale = replace(CLAIM, name="stale", served=99.0 + TURN_S, data_age_s=1e6)
    fresh = replace(CLAIM, name="fresh", served=100.0, data_age_s=0.0)
    chosen, why = first([had, fresh, stale])
    assert chosen.name == "stale"
    assert why.parts["data age"] == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize("order", [list, lambda some: some[::-1]])
def test_equals_go_by_name_so_that_the_choice_is_the_same_every_time(
    order: Callable[[list[Claim]], list[Claim]],
) -> None:
    assert first(order([replace(CLAIM, name=name) for name in ("b", "c", "a")]))[0].name == "c"
