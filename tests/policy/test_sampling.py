"""The arithmetic of steps a second, in round numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.model.rl import Advice, Hosts, Rates, RlPlan, Share, measured
from hostler.policy.sampling import calls_per_s, env_rate, estimate, number, places, span

ROUND = Rates(
    frames_per_cpu_s=measured(10_000),
    frames_with_sound=measured(5_000),
    draw_us=measured(100),
    encode_us=measured(50),
    policy_us=measured(50),
    transport_us=measured(0),
    learn_us=measured(100),
)
PLAN = RlPlan(
    cluster="here",
    hosts=(Hosts(name="here", count=1, has=Share(cpus=5, memory_gb=64)),),
    runners=4,
    envs_per_runner=8,
    frame_skip=9,
    batch_steps=4096,
    rates=ROUND,
)


def test_runners_make_a_step_each_in_what_it_costs() -> None:
    found = estimate(PLAN)
    assert [(each.what, each.us.low) for each in found.costs] == [
        ("emulate", 900.0),
        ("encode", 50.0),
        ("policy", 50.0),
        ("transport", 0.0),
        ("learn", 100.0),
    ]
    assert found.steps_per_s == (4000.0, 4000.0)
    assert found.bound_by == "the runners"
    assert env_rate(PLAN) == pytest.approx((1052.6, 1052.6), rel=1e-3)


def test_sound_and_pictures_cost() -> None:
    assert estimate(replace(PLAN, sound=True)).costs[0].us.low == 1800
    drawn = estimate(replace(PLAN, drawn_frames=9)).costs[1]
    assert (drawn.what, drawn.us.low) == ("draw", 900.0)


def test_the_slower_of_both_counts_side_by_side_and_their_times_add_up_otherwise() -> None:
    slow = replace(PLAN, rates=replace(ROUND, learn_us=measured(1000)))
    assert estimate(slow).steps_per_s == (1000.0, 1000.0)
    assert estimate(slow).bound_by == "the learner"
    assert estimate(replace(slow, learns_beside=False)).steps_per_s == pytest.approx((800.0, 800.0))


def test_threads_that_learn_may_scale_or_not() -> None:
    slow = replace(PLAN, rates=replace(ROUND, learn_us=measured(1000)))
    assert estimate(replace(slow, learner_cpus=2, runners=3)).learned == (1000.0, 2000.0)
    assert estimate(replace(slow, learner_cpus=0.5)).learned == (500.0, 500.0)


def test_a_learner_that_samples_itself_has_one_cpu_for_both() -> None:
    alone = estimate(replace(PLAN, runners=0))
    assert alone.steps_per_s == pytest.approx((909.1, 909.1), rel=1e-3)
    assert "the learner itself" in alone.lines[0]


def test_runners_that_find_no_room_do_not_count() -> None:
    assert places(PLAN) == 4
    assert places(replace(PLAN, runner_cpus=2)) == 2
    assert estimate(replace(PLAN, runners=40)).steps_per_s == (4000.0, 4000.0)
    assert places(replace(PLAN, learner_cpus=8)) == 0
    assert estimate(replace(PLAN, learner_cpus=8)).steps_per_s == (0.0, 0.0)


def test_half_a_cpu_makes_half_as_much() -> None:
    assert estimate(replace(PLAN, runner_cpus=0.5, runners=8)).steps_per_s == (4000.0, 4000.0)
    assert estimate(replace(PLAN, runner_cpus=2, runners=2)).steps_per_s == (2000.0, 2000.0)


def test_whoever_waits_for_advice_makes_little() -> None:
    advice = Advice(calls_per_step=0.05, blocking=True, latency_s=2.0, capacity=1.0)
    free = replace(advice, capacity=None)
    assert estimate(replace(PLAN, advice=free)).steps_per_s == pytest.approx((39.6, 39.6), rel=1e-2)
    assert estimate(replace(PLAN, advice=free)).bound_by == "waiting for advice"
    assert estimate(replace(PLAN, advice=advice)).steps_per_s == (20.0, 20.0)
    assert estimate(replace(PLAN, advice=advice)).bound_by == "advice that is waited for"
    beside = replace(advice, blocking=False)
    assert estimate(replace(PLAN, advice=beside)).steps_per_s == (4000.0, 4000.0)


def test_calls_are_those_of_the_steps_within_the_budget() -> None:
    assert calls_per_s(PLAN, 1000) is None
    assert calls_per_s(replace(PLAN, advice=Advice()), 1000) is None
    assert calls_per_s(replace(PLAN, advice=Advice(calls_per_step=0.5)), 1000) == 500
    assert calls_per_s(replace(PLAN, advice=Advice(calls_per_step=0.5, calls_per_s=20)), 1000) == 20


def test_ranges_are_told_from_the_slowest_to_the_fastest() -> None:
    rates = replace(ROUND, env_step_us=measured(950, 1900))
    assert estimate(replace(PLAN, rates=rates)).steps_per_s == pytest.approx((2051, 4000), rel=1e-3)


def test_fragments_between_machines_cost_their_toll() -> None:
    ray = replace(PLAN, cluster="ray", fragment_steps=128)
    toll = estimate(ray).costs[3].us.low
    assert 0.02 < toll / 1000 < 0.05
    assert estimate(replace(ray, fragment_steps=64)).costs[3].us.low == 2 * toll


@pytest.mark.parametrize(
    ("value", "said"), [(47, "47"), (12_480.4, "12,480"), (7.5, "7.5"), (0.0717, "0.0717"), (26.12, "26.1")]
)
def test_numbers_are_told_as_people_write_them(value: float, said: str) -> None:
    assert number(value) == said


def test_two_ends_that_are_told_alike_are_one() -> None:
    assert span(0.2501, 0.2502) == "0.25"
    assert span(260, 370) == "260 to 370"
