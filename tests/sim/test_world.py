"""The virtual world itself: one seed is one history, quiet worlds are busy, and each fault does happen."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from hostler.core import intake
from hostler.model.inputs import SetPriority
from hostler.model.work import JobState
from hostler.sim import Faults, Script, World, script_job, sweep_job
from hostler.sim.faults import all_kinds
from tests.core.builders import node
from tests.simulation.test_faults import check, run
from tests.simulation.worlds import in_blocks, small_world

DEVICES = {"n/cpu0": 1000.0, "n/cpu1": 3000.0, "m/cpu0": 500.0}
NODES = (node("n", devices=2), node("m"))

SINGLE: dict[str, tuple[dict[str, Any], str]] = {
    "cut": ({"link_cut_every_s": 10.0}, "link cut"),
    "lost": ({"agent_lost_every_s": 20.0}, "agent lost"),
    "restart": ({"agent_restart_every_s": 10.0}, "agent restarted"),
    "reboot": ({"reboot_every_s": 20.0}, "machine rebooted"),
    "worker": ({"worker_killed_every_s": 10.0}, "worker killed"),
    "crash": ({"controller_crash_every_s": 20.0}, "controller crashed"),
    "commit": ({"crash_at_commit": 0.05}, "controller crashed"),
    "clock": ({"clock_jump_every_s": 10.0}, "clock set"),
}


def test_a_quiet_world_keeps_its_devices_busy() -> None:
    world = World(1, NODES, DEVICES)
    stop = int(sum(DEVICES.values()) * 600)
    world.submit(0.0, [sweep_job("all", 0, stop, [0, 77, stop - 1], key="all")])
    report = world.run(3600.0)
    assert report.idle
    assert report.hits == {"j1": (0, 77, stop - 1)}
    assert report.coverage == {"j1": None}
    assert report.refused == 0
    assert report.makespan_s < 1.05 * 600
    assert min(report.busy.values()) > 0.95


def test_scripts_run_side_by_side() -> None:
    world = World(1, NODES, DEVICES)
    world.submit(0.0, [script_job(f"s{n}", Script(seconds=10.0), key=f"s{n}") for n in range(6)])
    report = world.run(3600.0)
    assert report.jobs[JobState.DONE] == 6
    assert report.accepted == {f"j{n}": 1 for n in range(1, 7)}
    assert 20.0 < report.makespan_s < 21.0


def test_a_world_that_cannot_end_says_so() -> None:
    world = World(1, NODES, DEVICES)
    world.submit(0.0, [script_job("long", Script(seconds=1e6), key="long")])
    report = world.run(100.0)
    assert not report.idle
    assert report.accepted == {}


def test_inputs_can_be_planned() -> None:
    world = World(1, (node("n"),), DEVICES)
    world.submit(0.0, [script_job(f"s{n}", Script(seconds=10.0), key=f"s{n}") for n in range(3)])
    world.tell(5.0, SetPriority(job="j3", priority=1))
    world.run(100.0)
    core = world.controller.core
    assert core is not None
    started = {name: job.started_at or 0.0 for name, job in core.state.jobs.items()}
    assert started["j1"] < started["j3"] < started["j2"]


@pytest.mark.parametrize("seeds", in_blocks(2, 8, 6))
@pytest.mark.parametrize(("change", "kind"), SINGLE.values(), ids=SINGLE)
def test_each_fault_happens_and_is_survived(change: dict[str, Any], kind: str, seeds: range) -> None:
    seen = 0
    for seed in seeds:
        world, plan = small_world(seed, replace(Faults(until_s=90.0), **change))
        report = world.run(3600.0)
        check(world, plan, report)
        seen += report.faults[kind]
    assert seen > 0


@pytest.mark.parametrize("seeds", in_blocks(2, 4, 2))
@pytest.mark.parametrize("change", [{"told_again": 1.0}, {"wrong_digest": 0.3}], ids=str)
def test_bad_results_happen_and_are_refused(change: dict[str, float], seeds: range) -> None:
    refused = 0
    for seed in seeds:
        world, plan = small_world(seed, replace(Faults(), **change))
        report = world.run(3600.0)
        check(world, plan, report)
        refused += report.refused
    assert refused > 0


def test_a_core_that_believes_anything_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worlds are worth something: with the check of digests left out, planted hits go missing."""
    monkeypatch.setattr(intake, "_result_fault", lambda *_: None)
    for seed in range(6, 16):  # those before do not notice
        try:
            check(*run(seed))
        except AssertionError:
            return
    pytest.fail("ten worlds did not notice")


HISTORY = """
import hashlib, tests.simulation.test_faults as faults
world, _, _ = faults.run(7)
print(hashlib.sha256(repr(world.controller.journal).encode()).hexdigest())
"""


def test_one_seed_is_one_history_in_any_process() -> None:
    world, _, _ = run(7)
    here = hashlib.sha256(repr(world.controller.journal).encode()).hexdigest()
    assert _history("0").strip() == here


def test_another_seed_is_another_history() -> None:
    first, second = (small_world(seed, all_kinds(until_s=60.0))[0] for seed in (1, 2))
    first.run(3600.0)
    second.run(3600.0)
    assert first.controller.journal != second.controller.journal


def _history(hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(["src", "."])}
    command = [sys.executable, "-c", HISTORY]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
