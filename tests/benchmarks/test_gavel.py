"""Rounds as Gavel's simulator runs them: what the benchmark rests on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import gavel_rounds as rounds
from gavel_data import Job
from gavel_rounds import ROUND_S, Conditions, Running


class Always:
    """Everybody always has this type."""

    def __init__(self, *types: str) -> None:
        self.types = types
        self.asked = 0

    def place(self, now: float, running: Mapping[int, Running], arrived_s: float) -> Mapping[int, str]:
        cls = self.types[self.asked % len(self.types)]
        self.asked += 1
        return dict.fromkeys(running, cls)


def job(number: int = 0, arrival_s: float = 0.0, steps: float = 1000.0) -> Job:
    return Job(number, arrival_s, "model", 1, steps, {"v100": 1.0, "k80": 0.5})


def hours(scheduler: Always, *jobs: Job, conditions: Conditions = rounds.EXACT) -> dict[int, float]:
    return rounds.run(jobs, {"v100": 1, "k80": 1}, scheduler, conditions).completion_h


def test_a_job_ends_within_its_round() -> None:
    assert hours(Always("v100"), job()) == {0: pytest.approx(1000 / 3600)}


def test_who_comes_within_a_round_waits_for_the_border() -> None:
    assert hours(Always("v100"), job(arrival_s=100.0)) == {0: pytest.approx((ROUND_S - 100 + 1000) / 3600)}


def test_a_round_makes_whole_steps() -> None:
    slow = Job(0, 0.0, "model", 1, 3.0, {"v100": 1.5 / ROUND_S})
    assert hours(Always("v100"), slow) == {0: pytest.approx((2 * ROUND_S + ROUND_S / 1.5) / 3600)}


def test_every_change_of_type_costs_a_restart() -> None:
    costly = Conditions(restart_s=60.0)
    assert hours(Always("v100"), job(), conditions=costly) == {0: pytest.approx(1060 / 3600)}
    # 300 steps in the first round, 150 in the second, 300 in the third, 150 in the fourth, then 100 after a restart.
    assert hours(Always("v100", "k80"), job(), conditions=costly) == {0: pytest.approx((4 * ROUND_S + 160) / 3600)}


def test_predictions_err_but_not_the_work() -> None:
    assert hours(Always("v100"), job(), conditions=Conditions(sigma=1.0)) == {0: pytest.approx(1000 / 3600)}


def test_an_equal_share_of_everything_is_what_fairness_is_measured_by() -> None:
    alone = rounds.isolated_h([job(), job(1)], {"v100": 1, "k80": 1}, range(2))
    assert alone == {0: pytest.approx(1000 / 0.75 / 3600), 1: pytest.approx(1000 / 0.75 / 3600)}


def test_the_policies_finish_everything() -> None:
    pytest.importorskip("highspy")
    jobs = [job(number, 50.0 * number, 400.0) for number in range(12)]
    capacity = {"v100": 2, "k80": 2}
    outcome = rounds.run(jobs, capacity, rounds.PriceGuided(capacity, rounds.EXACT))
    assert sorted(outcome.completion_h) == list(range(12))
