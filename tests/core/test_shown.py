"""Shares against targets, learnt durations, costs, and all that is held back, as people see them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.core import shown
from hostler.core.state import Spent
from hostler.core.views import node_views
from hostler.model import inputs
from hostler.model.planning import Plan
from hostler.model.rules import Quota, Rules
from hostler.model.steering import QuotaView, TierShares
from hostler.model.work import JobState, Resources, WorkKind
from hostler.policy import share
from tests.core.builders import Driver, ended, link_up, replayed, script, sweep
from tests.core.care.builders import told, work
from tests.core.loop.builders import Loop, small
from tests.core.test_explain import fleet, long, rig
from tests.core.trust.test_trust import in_quarantine

DAY_S = 86_400.0
RULES = Rules(quotas=(Quota(pattern="hex_4p", share=0.25, tier=3), Quota(pattern="sq_*", share=0.2, tier=3)))


def quotas(world: Driver) -> QuotaView:
    return shown.quotas(world.state, world.core.index)


def tier(world: Driver, name: str) -> TierShares:
    return next(each for each in quotas(world).tiers if each.tier == name)


def learning(*names: str, rules: Rules = RULES, **node_fields: object) -> Loop:
    """Loops of these configs on three GPUs of tier 3."""
    world = Loop()
    world.step_s = 30.0
    world.tell(inputs.Begin(version="test", epoch=1), inputs.Configure(rules=rules))
    for name in "abc":
        world.tell(inputs.NodeFound(node=rig(name, **node_fields)), link_up(name, agent=name))  # type: ignore[arg-type]
    world.tell(inputs.Declare(configs=tuple(small(name) for name in names)))
    return world


class TestQuotas:
    def test_targets_sum_to_one_and_what_was_had_too(self) -> None:
        world = learning("hex_4p", "sq_2p", "sq_4p", "other")
        for _ in range(60):
            world.step()
        found = tier(world, "3")
        for rows in (found.patterns, found.configs):
            assert sum(row.target for row in rows) == pytest.approx(1)
            assert sum(row.had or 0 for row in rows) == pytest.approx(1)
            assert sum(row.device_s for row in rows) == pytest.approx(found.device_s)
        assert {row.name: row.configs for row in found.patterns} == {
            "hex_4p": ("hex_4p",),
            "sq_*": ("sq_2p", "sq_4p"),
            share.OTHERS: ("other",),
        }
        assert {row.name: row.target for row in found.patterns}["sq_*"] == pytest.approx(0.2)
        assert found.error_points == pytest.approx(50 * sum(abs(row.target - (row.had or 0)) for row in found.configs))

    def test_before_anything_ran_nothing_was_had(self) -> None:
        world = fleet(rig(), rules=RULES)
        assert quotas(world).tiers == (), "there are no configs to share anything"
        assert all((kind.target, kind.had) == (None, None) for kind in quotas(world).kinds)

    def test_kinds_count_against_those_that_want_something(self) -> None:
        world = fleet(rig())
        world.submit(script(work_as=WorkKind.TRAINING, config="c"), script(work_as=WorkKind.SELFPLAY, config="c"))
        world.tell(inputs.Tick(), after_s=10)
        kinds = {kind.work: kind for kind in quotas(world).kinds}
        assert kinds[WorkKind.TRAINING].target == pytest.approx(0.3 / 0.9)
        assert (kinds[WorkKind.TRAINING].had, kinds[WorkKind.TRAINING].holds) == (1.0, 1)
        assert kinds[WorkKind.SELFPLAY].had == 0.0
        assert kinds[WorkKind.SWEEP].target is None

    def test_contradictions_and_what_the_plan_says(self) -> None:
        world = learning("other")
        assert any("matches no training config" in problem for problem in quotas(world).contradictions)
        assert quotas(world).plan is None
        plan = Plan(
            status="optimal", shares={}, prices={"a": 1.0}, raw_prices={}, bound=2.0, drain_s=None,
            quota_slack={"sq_* (tier 3)": 0.5}, conflicts=("sq_*: there are too few",), seconds=0.01,
        )  # fmt: skip
        world.tell(inputs.Planned(plan=plan))
        found = quotas(world).plan
        assert found is not None
        assert (found.conflicts, found.slack) == (plan.conflicts, plan.quota_slack)


class TestDurations:
    def test_families_by_model(self) -> None:
        world = fleet(rig("a"), rig("b", model="RTX 4090 D"))
        world.submit(*[script(f"prep{n}", work_as=None) for n in range(8)])
        for number in range(1, 9):
            world.tell(ended(f"j{number}.1", started_at=1.0, ended_at=11.0))
        world.submit(script("t", work_as=WorkKind.TRAINING, config="hex 8"))
        world.tell(ended("j9.1", started_at=1.0, ended_at=101.0))
        found = shown.durations(world.state)
        rows = {(row.work, row.family, row.model): row for row in found.rows}
        assert set(rows) == {
            *((WorkKind.SCRIPT, "true prep#", model) for model in ("RTX 4090", "RTX 4090 D", None)),
            *((WorkKind.TRAINING, "hex 8", model) for model in ("RTX 4090", None)),
        }
        here = rows[WorkKind.SCRIPT, "true prep#", "RTX 4090"]
        assert here.p50_s == pytest.approx(10, rel=0.05)
        assert (here.samples, here.p90_s > here.p50_s) == (4, True)
        assert {each.work for each in found.accuracy} == {WorkKind.SCRIPT}
        assert found.accuracy[0].within_2 == 1.0

    def test_how_good_predictions_were_survives_a_restart(self) -> None:
        world = fleet(rig())
        world.submit(long("a", 10.0))
        world.tell(ended("j1.1", started_at=1.0, ended_at=31.0))
        (judged,) = shown.durations(world.state).accuracy
        assert judged.factor == pytest.approx(3.0)
        assert (judged.within_2, judged.samples) == (0.0, 1)
        assert shown.durations(replayed(world.entries).state) == shown.durations(world.state)


class TestCosts:
    def test_what_a_game_costs(self) -> None:
        world = learning("hex_4p", price_per_h=3.6)
        world.until(lambda: world.config("hex_4p").models and len(world.config("hex_4p").datasets) > 1)
        found = shown.costs(world.state)
        rows = {row.work: row for row in found.rows}
        games = sum(segment.games for segment in world.config("hex_4p").segments.values())
        (unit,) = rows[WorkKind.SELFPLAY].units
        assert (unit.unit, unit.count) == ("game", games)
        assert unit.cost == pytest.approx(rows[WorkKind.SELFPLAY].device_s * 0.001 / games)
        assert {row.work: row.units[0].unit for row in found.rows if row.units} == {
            WorkKind.SELFPLAY: "game",
            WorkKind.TRAINING: "sample",
            WorkKind.EXPORT: "position",
            WorkKind.EVALUATION: "game",
        }
        assert found.cost == pytest.approx(sum(row.cost or 0 for row in found.rows))
        assert sum(row.device_s for row in found.kinds) == pytest.approx(found.device_s)
        assert found.unpriced == 0.0

    def test_unknown_is_no_price(self) -> None:
        world = fleet(rig())
        world.submit(script())
        world.tell(ended("j1.1"), after_s=10)
        found = shown.costs(world.state)
        assert (found.cost, found.unpriced) == (None, 1.0)
        (row,) = found.rows
        assert (row.work, row.of, row.cost, row.units) == (WorkKind.SCRIPT, None, None, ())
        world.state.spent["selfplay gone"] = Spent(device_s=20.0, cost=1.0, unpriced_s=5.0)
        row = shown.costs(world.state).rows[0]
        assert (row.of, row.cost, row.unpriced, row.units) == ("gone", 1.0, 0.25, ())

    def test_a_sweep_by_chunk_and_by_items(self) -> None:
        world = fleet(rig(price_per_h=3.6))
        world.submit(sweep("primes", stop=10**9))
        world.tell(world.searched(world.chunk("j1")[0], elapsed_s=2.0))
        (row,) = shown.costs(world.state).rows
        assert (row.of, row.name) == ("j1", "primes")
        chunk, items = row.units
        assert (chunk.unit, chunk.count) == ("chunk", 1)
        assert chunk.cost == pytest.approx(0.002)
        assert items.unit == "10^9 items"
        assert items.cost == pytest.approx(0.002 / (world.state.sweeps["j1"].ledger.done_items / 1e9))

    def test_uneven_items_are_counted_one_by_one(self) -> None:
        """Two calls of a function once cost 18,253 days for 10^9."""
        world = fleet(rig(price_per_h=3.6))
        world.submit(sweep("loss", stop=2, uneven=True))
        world.tell(world.searched(world.chunk("j1")[0], elapsed_s=2.0))
        (row,) = shown.costs(world.state).rows
        assert [(each.unit, each.count) for each in row.units] == [("chunk", 1), ("item", 1)]

    def test_before_anything_ended_nothing_is_known(self) -> None:
        found = shown.costs(Driver().state)
        assert (found.device_s, found.cost, found.unpriced, found.rows) == (0.0, None, None, ())


class TestBans:
    def test_quarantines_are_listed_and_shown_at_their_devices(self) -> None:
        world = in_quarantine()
        found = [ban for ban in shown.bans(world.state, world.core.index) if ban.kind == "quarantine"]
        assert [ban.what for ban in found] == ["a/cuda0"]
        devices = [device for view in node_views(world.state, world.core.index) for device in view.devices]
        assert [device.quarantine for device in devices if device.id == "a/cuda0"] == found

    def test_pressures_that_hold_something_back(self) -> None:
        world = fleet(rig("n"))
        world.tell(told(disk_free_gb=40.0))
        (ban,) = shown.bans(world.state, world.core.index)
        assert (ban.kind, ban.what, ban.of, ban.owner) == ("pressure", "n", "export, training", "care")
        assert ban.why.startswith("DISK_SPACE_LOW: disk 0.96 of 0.")
        assert ban.until is not None
        world.tell(told(at=1.0, disk_free_gb=380.0))
        assert shown.bans(world.state, world.core.index) == [], "a warning holds nothing back"

    def test_devices_that_are_kept(self) -> None:
        world = fleet(rig("n"))
        world.submit(work(WorkKind.SELFPLAY, config="c"))
        world.submit(work(WorkKind.TRAINING, name="t", config="c"))
        world.tell(inputs.Tick(), after_s=100)
        kept = [ban for ban in shown.bans(world.state, world.core.index) if ban.kind == "reservation"]
        assert [(ban.what, ban.of) for ban in kept] == [("n/cuda0", "j2")]

    def test_configs_that_starve(self) -> None:
        world = learning("hex_4p")
        world.until(lambda: world.running(WorkKind.SELFPLAY, "hex_4p"))
        config, index = world.config("hex_4p"), world.core.index
        index.eager["hex_4p"], index.playing["hex_4p"] = "more games", 0
        config.served_at = index.now - 5 * 3600.0
        (boost,) = [ban for ban in shown.bans(world.state, index) if ban.kind == "boost"]
        assert (boost.what, boost.since) == ("hex_4p", index.now - 3600.0)
        assert "no self-play for 5.0 h" in boost.why
        config.served_at = index.now - 3600.0
        assert not [ban for ban in shown.bans(world.state, index) if ban.kind == "boost"]


def test_gates_are_counted_by_node() -> None:
    world = fleet(rig("a"), rig("b", vram_gb=80.0))
    world.submit(*[script(resources=Resources(vram_gb=48)) for _ in range(2)])
    world.submit(script())
    found = {view.name: view.gates for view in node_views(world.state, world.core.index)}
    assert found["a"]["VRAM"] > 0
    assert "VRAM" not in found["b"]
    assert world.job_state("j2") is JobState.PENDING


def test_reading_changes_nothing() -> None:
    world = learning("hex_4p", "sq_2p")
    for _ in range(20):
        world.step()
    before = replace(world.state)
    for read in (shown.quotas, shown.bans):
        read(world.state, world.core.index)
    shown.costs(world.state)
    shown.durations(world.state)
    assert world.state == before
    world.core.validate()
