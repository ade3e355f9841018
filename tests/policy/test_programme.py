"""The best that could be done, what devices are worth, and why a quota cannot be met."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from scipy.optimize import linprog

from hostler.model.planning import Demand, Instance, Plan, QuotaRow
from hostler.policy import programme

pytest.importorskip("highspy")

CLASSES = {"a": 4.0, "b": 8.0, "c": 2.0}


def demand(name: str = "g", **fields: object) -> Demand:
    return replace(Demand(name=name, worth={"a": 2.0, "b": 1.0}), **fields)  # type: ignore[arg-type]


def quota(name: str, groups: str, share: float, classes: str = "abc") -> QuotaRow:
    return QuotaRow(name=name, groups=frozenset(groups.split()), classes=frozenset(classes), share=share)


def drawn(seed: int, groups: int = 6) -> Instance:
    """A fleet with self-play without end, one training at a time, a backlog, and quotas that may be too much."""
    random = Random(seed)
    demands = []
    for number in range(groups):
        worth = {cls: random.uniform(0.1, 2.0) for cls in CLASSES if random.random() < 0.8}
        work = random.uniform(1.0, 1e5) if number % 3 == 2 and worth else None
        most = random.choice([None, 1.0, 2.5]) if work is None else None
        demands.append(Demand(name=f"g{number}", worth=worth, most=most, work=work))
    quotas = (quota("q0", "g0 g1", random.random(), "ab"), quota("q1", "g2 g3", random.random(), "c"))
    return Instance(classes=CLASSES, demands=tuple(demands), quotas=quotas, cost={"b": 0.05})


def objective(instance: Instance, plan: Plan) -> float:
    """What the programme maximises: worth less cost, less penalties for missed quotas, and the pace of the backlog."""
    strong = programme.STRONG * max(max(each.worth.values(), default=0.0) for each in instance.demands)
    gained = sum(
        (each.worth[cls] - instance.cost.get(cls, 0.0)) * devices
        for each in instance.demands
        for cls, devices in plan.shares[each.name].items()
    )
    work = sum(each.work or 0.0 for each in instance.demands)
    pace = work / sum(instance.classes.values()) / plan.drain_s if plan.drain_s else 0.0
    return gained - strong * sum(plan.quota_slack.values()) + strong * sum(instance.classes.values()) * pace


def reference(instance: Instance) -> float:
    """The same programme, written down again in dense form for another solver."""
    cells = [(each, cls) for each in instance.demands for cls in each.worth]
    slacks, devices = len(instance.quotas), sum(instance.classes.values())
    strong = programme.STRONG * max(max(each.worth.values(), default=0.0) for each in instance.demands)
    work = sum(each.work or 0.0 for each in instance.demands)
    width = len(cells) + slacks + 1
    gains = [each.worth[cls] - instance.cost.get(cls, 0.0) for each, cls in cells]
    gains += [-strong] * slacks + [strong * devices if work else 0.0]
    rows, limits = [], []

    def add(limit: float, factors: dict[int, float]) -> None:
        row = np.zeros(width)
        row[list(factors)] = list(factors.values())
        rows.append(row)
        limits.append(limit)

    for cls, room in instance.classes.items():
        add(room, {index: 1.0 for index, cell in enumerate(cells) if cell[1] == cls})
    for each in instance.demands:
        mine = {index: cell[1] for index, cell in enumerate(cells) if cell[0] is each}
        if each.most is not None:
            add(each.most, dict.fromkeys(mine, 1.0))
        if each.work:
            best = max(each.worth.values())
            speeds = {index: -each.worth[cls] / best for index, cls in mine.items()}
            add(0.0, {**speeds, width - 1: each.work / work * devices})
    for number, row in enumerate(instance.quotas):
        owed = row.share * sum(instance.classes[cls] for cls in row.classes)
        mine = {
            index: -1.0 for index, cell in enumerate(cells) if cell[0].name in row.groups and cell[1] in row.classes
        }
        add(-owed, {**mine, len(cells) + number: -1.0})
    bounds = [(0, None)] * (width - 1) + [(0, None if work else 0)]
    found = linprog(-np.array(gains), A_ub=np.array(rows), b_ub=limits, bounds=bounds)
    assert found.success
    return float(-found.fun)


@pytest.mark.parametrize("seed", range(20))
def test_another_solver_finds_nothing_better(seed: int) -> None:
    instance = drawn(seed)
    plan = programme.solve(instance)
    assert plan.status == "optimal"
    assert objective(instance, plan) == pytest.approx(reference(instance), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_starting_from_the_last_solution_ends_at_the_same_value(seed: int) -> None:
    """Groups come and go, devices too; what is kept of the last solution must not change the next."""
    solver = programme.Solver()
    for step in range(4):
        instance = drawn(seed * 10 + step, groups=5 + step % 3)
        instance = replace(instance, classes={**CLASSES, "a": 4.0 - step})
        warm, cold = solver.solve(instance), programme.solve(instance)
        assert objective(instance, warm) == pytest.approx(objective(instance, cold), rel=1e-6)


def test_the_same_questions_have_the_same_answers() -> None:
    one, two = programme.Solver(), programme.Solver()
    for seed in range(4):
        assert _answer(one.solve(drawn(seed))) == _answer(two.solve(drawn(seed)))


def test_nothing_is_given_that_is_not_there_or_does_not_fit() -> None:
    instance = drawn(3)
    plan = programme.solve(instance)
    for cls, room in CLASSES.items():
        assert sum(shares.get(cls, 0.0) for shares in plan.shares.values()) <= room + 1e-6
    for each in instance.demands:
        assert set(plan.shares[each.name]) <= set(each.worth)
        assert each.most is None or sum(plan.shares[each.name].values()) <= each.most + 1e-6


def test_the_bound_is_what_the_best_plan_brings() -> None:
    plan = programme.solve(Instance(classes={"a": 4.0, "b": 8.0}, demands=(demand(most=6.0),)))
    assert plan.shares == {"g": {"a": pytest.approx(4.0), "b": pytest.approx(2.0)}}
    assert plan.bound == pytest.approx(4 * 2.0 + 2 * 1.0)
    assert plan.drain_s is None


def test_a_price_is_what_one_more_device_would_bring() -> None:
    instance = Instance(classes={"a": 4.0, "b": 8.0, "c": 1.0}, demands=(demand(),))
    plan = programme.solve(instance)
    assert plan.raw_prices == {"a": pytest.approx(2.0), "b": pytest.approx(1.0), "c": pytest.approx(0.0)}
    assert plan.prices == {"a": 1.0, "b": pytest.approx(0.5), "c": pytest.approx(0.0)}


def test_a_backlog_is_shared_so_that_all_ends_together() -> None:
    """One device each; work A runs at 1 and 0.5, work B at 1 and 0.1: B has the fast one, for the most part."""
    demands = (
        demand("A", worth={"a": 0.0, "b": 0.0}, rates={"a": 1.0, "b": 0.5}, work=500.0),
        demand("B", worth={"a": 0.0, "b": 0.0}, rates={"a": 1.0, "b": 0.1}, work=1000.0),
    )
    plan = programme.solve(Instance(classes={"a": 1.0, "b": 1.0}, demands=demands))
    assert plan.drain_s == pytest.approx(1000.0)
    assert plan.shares == {"A": {"b": pytest.approx(1.0)}, "B": {"a": pytest.approx(1.0)}}
    assert plan.prices["a"] == 1.0
    assert 0.1 <= plan.prices["b"] <= 0.5 + 1e-6


def test_a_backlog_takes_no_more_than_it_needs() -> None:
    demands = (demand("A", worth={"a": 1.0}, work=3600.0), demand("S", worth={"a": 2.0}))
    plan = programme.solve(Instance(classes={"a": 4.0}, demands=demands, drain_least_s=3600.0))
    assert plan.drain_s == pytest.approx(3600.0)
    assert plan.shares == {"A": {"a": pytest.approx(1.0)}, "S": {"a": pytest.approx(3.0)}}


def test_a_gang_needs_a_class_that_is_large_enough() -> None:
    plan = programme.solve(Instance(classes={"a": 2.0, "b": 8.0}, demands=(demand(devices=4),)))
    assert plan.shares == {"g": {"b": pytest.approx(8.0)}}


def test_a_backlog_that_fits_nowhere_ends_no_process() -> None:
    """HiGHS once died of the question what is in the basis of a programme with nothing in it."""
    solver = programme.Solver()
    gang = Demand(name="g", worth={"a": 1.0}, devices=2, work=100.0)
    for drain_least_s in (0.0, 100.0, 3600.0):
        plan = solver.solve(Instance(classes={"a": 1.0}, demands=(gang,), drain_least_s=drain_least_s))
        assert (plan.status, plan.drain_s) == ("empty", None)


def test_a_quota_that_can_be_met_is_met() -> None:
    instance = Instance(classes={"a": 4.0}, demands=(demand("x"), demand("y", worth={"a": 0.1})))
    plan = programme.solve(replace(instance, quotas=(quota("y", "y", 0.25, "a"),)))
    assert plan.shares["y"] == {"a": pytest.approx(1.0)}
    assert plan.quota_slack == {"y": 0.0}
    assert plan.conflicts == ()


def test_half_of_tier_1_for_what_only_three_of_its_devices_hold() -> None:
    """As in the fleet the quotas were written for: 19 devices in tier 1, three of them with the 32 GB hexagons take."""
    classes = {"H100 80 GB": 1.0, "A100 80 GB": 1.0, "GH200 96 GB": 1.0, "RTX 3090 24 GB": 8.0, "RTX 4090 24 GB": 8.0}
    large = dict.fromkeys(list(classes)[:3], 1.0)
    demands = (demand("hexagonal_2p", worth=large), demand("square8_2p", worth=dict.fromkeys(classes, 1.0)))
    hexagonal = QuotaRow(name="hexagonal_*", groups=frozenset({"hexagonal_2p"}), classes=frozenset(classes), share=0.5)
    plan = programme.solve(Instance(classes=classes, demands=demands, quotas=(hexagonal,)))
    assert plan.quota_slack["hexagonal_*"] == pytest.approx(6.5)
    assert plan.conflicts == (
        "quota hexagonal_*: 0.5 of 19 devices is 9.5, 6.5 too many: its work fits 3 devices of them only "
        "(A100 80 GB, GH200 96 GB, H100 80 GB)",
    )


def test_a_quota_for_more_than_the_work_can_use_says_so() -> None:
    plan = programme.solve(
        Instance(classes={"a": 4.0}, demands=(demand("x", most=1.0),), quotas=(quota("x", "x", 0.5, "a"),))
    )
    assert plan.conflicts == ("quota x: 0.5 of 4 devices is 2, 1 too many: its work can use 1 device at the same time",)


def test_quotas_that_ask_for_more_than_there_is_name_each_other() -> None:
    both = (quota("x", "x", 0.75, "a"), replace(quota("y", "y", 0.75, "a"), penalty=1.0))
    plan = programme.solve(Instance(classes={"a": 4.0}, demands=(demand("x"), demand("y")), quotas=both))
    assert plan.quota_slack == {"x": 0.0, "y": pytest.approx(2.0)}
    assert plan.conflicts == (
        "quota y: 0.75 of 4 devices is 3, 2 too many: what it fits (a) is owed to others as well (x)",
    )


@pytest.mark.parametrize("instance", [Instance(classes={}, demands=()), Instance(classes={"a": 1.0}, demands=())])
def test_nothing_to_plan_is_no_trouble(instance: Instance) -> None:
    plan = programme.solve(instance)
    assert (plan.shares, plan.prices, plan.conflicts) == ({}, {}, ())


def test_without_time_there_are_guessed_prices_and_no_bound() -> None:
    plan = programme.solve(drawn(0, groups=300), time_limit_s=0.0)
    assert plan.status == "time limit reached"
    assert (plan.bound, plan.shares) == (None, {})
    assert max(plan.prices.values()) == 1.0


def test_without_the_solver_prices_are_mean_speeds() -> None:
    demands = (demand("A", worth={"a": 2.0, "b": 1.0}, work=300.0), demand("B", worth={"b": 1.0}, work=100.0))
    plan = programme.plan_without_solver(Instance(classes={"a": 4.0, "b": 8.0}, demands=demands))
    assert plan is not None
    assert plan.status == "no solver"
    assert plan.prices == {"a": 1.0, "b": pytest.approx((300 * 0.5 + 100) / 300)}
    assert plan.bound is None


def test_without_the_solver_and_without_work_there_is_nothing_to_say() -> None:
    assert programme.plan_without_solver(Instance(classes={"a": 1.0}, demands=())) is None


def _answer(plan: Plan) -> Plan:
    return replace(plan, seconds=None)
