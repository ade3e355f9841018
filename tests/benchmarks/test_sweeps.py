"""Benchmark A: its bound is one, and both Hostler and the published rules search everything, whatever happens."""

from __future__ import annotations

import pytest

import sweeps
import sweeps_ours
import sweeps_rules
from sweeps_fleet import FLEET_PER_S, fleet

WORK = 20_000_000
"""Two minutes of the whole fleet."""


def test_the_bound_is_what_the_devices_can_do_together() -> None:
    drawn = fleet(WORK, "fail", 7)
    bound = drawn.bound(WORK)
    assert sum(gpu.capacity(bound) for gpu in drawn.gpus) == pytest.approx(WORK, rel=1e-4)
    gpu = drawn.gpus[0]
    assert gpu.reaches(gpu.capacity(bound)) == pytest.approx(bound, rel=1e-6)


def test_a_fleet_is_the_same_again_and_another_with_another_seed() -> None:
    rates = [[gpu.rates for gpu in fleet(WORK, "strag", seed).gpus] for seed in (1, 1, 2)]
    assert rates[0] == rates[1] != rates[2]


@pytest.mark.parametrize("condition", sweeps.CONDITIONS)
def test_hostler_searches_everything_once(condition: sweeps.Condition) -> None:
    drawn = fleet(WORK, condition, 3)
    run = sweeps_ours.run(drawn, WORK, 0.5)
    assert 1.0 < run.makespan_s / drawn.bound(WORK) < 1.5
    assert run.chunks >= 26


@pytest.mark.parametrize("method", sweeps_rules.METHODS, ids=lambda method: method.name)
def test_a_rule_ends(method: sweeps_rules.Method) -> None:
    run = sweeps_rules.run(method, fleet(WORK, "fail", 3), WORK, 0.5)
    assert run.makespan_s > 0.8 * WORK / FLEET_PER_S
