"""Described fleets, played: busy, reproducible, and as the fleet's owner has it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.model.work import JobState, Resources, WorkKind
from hostler.sim import Script, script_job
from hostler.sim.faults import HOUR_S, Lives, level
from hostler.sim.fleet import Scenario, added, build, expected, play, powers, trainings, usual_vram_gb, virtual
from hostler.sim.nature import REFERENCE_POWER
from tests.simulation.fleets import fleet

GPU = Resources(device="gpu")


def quiet(days: float = 0.25, **fields: object) -> Scenario:
    """A small fleet without any fault."""
    usual = {"faults": None, "lives": None, "jobs": (), "validate": False}
    return replace(fleet(3, days=2.0), days=days, **{**usual, **fields})  # type: ignore[arg-type]


def test_a_quiet_fleet_is_busy_and_useful() -> None:
    found = play(quiet())
    assert (found.busy or 0.0) > 0.95
    assert (found.useful_share or 0.0) > 0.85
    assert found.games > 0
    assert found.faults == {}
    assert sum(config.device_s for config in found.configs) == pytest.approx(sum(found.kinds.values()))


def test_one_seed_is_one_history() -> None:
    scenario = quiet(0.1, faults=level("heavy", 5, 0.1 * 86_400))
    first, again = play(scenario), play(scenario)
    assert replace(first, wall_s=None) == replace(again, wall_s=None)
    assert replace(play(replace(scenario, seed=99)), wall_s=None, seed=first.seed) != replace(first, wall_s=None)


def test_ephemeral_nodes_die_and_are_replaced() -> None:
    scenario = quiet(1.0, configs=(), lives=Lives(mean_s=HOUR_S, replace_s=600.0), telemetry_every_s=None)
    scenario = replace(
        scenario, nodes=(*scenario.nodes, replace(added("e", "RTX 4090", 1, 24.0, "vast", 0.4), ephemeral=True))
    )
    scenario = replace(scenario, faults=level("none", 1, scenario.span_s))
    found = play(scenario)
    mortal = {node.name for node in scenario.nodes if node.ephemeral}
    deaths = {node.node: node.deaths for node in found.nodes}
    assert all((deaths[name] > 0) == (name in mortal) for name in deaths)
    assert found.faults["node died"] >= sum(deaths.values())
    (mortal_use,) = [node for node in found.nodes if node.node == "e"]
    assert 0.7 * scenario.span_s < mortal_use.up_s < scenario.span_s


def test_jobs_of_the_fleet_are_played() -> None:
    spec = script_job("s", Script(seconds=600.0), key="s", resources=GPU)
    world = build(quiet(configs=(), jobs=((100.0, spec),)))
    world.live(2000.0)
    assert world.controller.core is not None
    (job,) = world.controller.core.state.jobs.values()
    assert job.state is JobState.DONE


def test_trainings_arrive_by_chance_and_make_the_load_asked_for() -> None:
    scenario = quiet(days=200.0)
    made = trainings(scenario, 0.3, {"a": GPU, "b": GPU}, mean_s=3600.0)
    fast = [node for node in scenario.nodes if sum(device.vram_gb or 0.0 for device in node.devices) >= 32]
    power = sum(powers(scenario)[device.id] for node in fast for device in node.devices) / REFERENCE_POWER
    seconds = sum(spec.expected_s["*"] for _, spec in made)
    assert seconds / (power * scenario.span_s) == pytest.approx(0.3, rel=0.15)
    assert {spec.config for _, spec in made} == {"a", "b"}
    assert all(spec.work is WorkKind.TRAINING and spec.checkpoints for _, spec in made)
    assert [at for at, _ in made] == sorted(at for at, _ in made)
    assert trainings(scenario, 0.0, {"a": GPU}) == ()


def test_real_jobs_become_virtual_where_it_is_known_how_long_they_last() -> None:
    real = replace(script_job("s", Script(seconds=1.0)), key=None, expected_s={"*": 90.0})
    made = virtual(real)
    assert made is not None
    assert (made.key, made.payload) == ("s", script_job("s", Script(seconds=90.0)).payload)
    assert virtual(replace(real, expected_s={})) is None


def test_what_a_node_more_is() -> None:
    node = added("added-1", "RTX 4090", 2, 24.0, "vast", 0.45)
    assert [device.id for device in node.devices] == ["added-1/cuda0", "added-1/cuda1"]
    assert node.price_per_h == 0.9
    assert usual_vram_gb("NVIDIA GeForce RTX 3060 Ti") == 8
    assert usual_vram_gb("RTX 3060") == 12
    assert usual_vram_gb("A100") is None
    assert expected(624.0, ["RTX 4090", "NVIDIA A100"]) == {
        "RTX 4090": pytest.approx(624.0 * 624 / 330),
        "NVIDIA A100": 624.0,
        "*": 624.0,
    }
