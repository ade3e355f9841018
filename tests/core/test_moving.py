"""Migration of running jobs: to a faster device that is free, and swaps of two jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hostler.model import events, inputs
from hostler.model.fleet import NodeLimits, NodeSpec
from hostler.model.rules import USUAL, Cost, PlacementRules, Preferences, Rules
from hostler.model.work import DeviceKind, JobSpec, Resources, WorkKind
from tests.core.builders import Driver, ended, link_up, node, script, sweep


def rig(name: str, model: str, count: int = 1, vram_gb: float = 24.0, **fields: Any) -> NodeSpec:
    plain = node(name, count, DeviceKind.CUDA, vram_gb)
    return replace(plain, devices=tuple(replace(each, model=model) for each in plain.devices), **fields)


def job(name: str = "a", fast_s: float = 10_000.0, slow_s: float = 100_000.0, **fields: Any) -> JobSpec:
    """A preemptible script with its durations on both models."""
    return script(name, expected_s={"A100": fast_s, "RTX 3060": slow_s}, checkpoints=True, **fields)


def training(config: str = "c", fast_s: float = 10_000.0, slow_s: float = 100_000.0, **fields: Any) -> JobSpec:
    """A preemptible training; of one config only one runs at a time."""
    return job(config, fast_s, slow_s, work_as=WorkKind.TRAINING, config=config, **fields)


SLOW, PAIR = rig("s", "RTX 3060"), rig("s", "RTX 3060", 2)
FAST, LARGE, DEAR = rig("f", "A100"), rig("f", "A100", vram_gb=80.0), rig("f", "A100", price_per_h=3.0)
EVEN = job("even", 90_000.0, 100_000.0)
UNKNOWN, SHARDS = replace(training(), expected_s={}), training(resources=Resources(vram_gb=40, shards=True))
SEEN_S = (100.0, 1_000_000.0) * 4
"""Durations so different that a job just begun is expected to last longer than the typical one."""
ROUNDS, RESTARTS = Rules(placement=PlacementRules(round_s=1e6)), Rules(placement=PlacementRules(restart_s=300.0))
CAPPED, TRAINING_CAPPED = (Rules(cost=Cost(max_price_per_h={WorkKind(each): 1.0})) for each in ("script", "training"))
AVOIDING = Rules(cost=Cost(providers={WorkKind.SCRIPT: Preferences(avoid=("vast",))}))
STOPPED: dict[str, Any] = {"signal": 15, "reason": "stopped"}


def join(world: Driver, joins: NodeSpec) -> None:
    world.tell(inputs.NodeFound(node=joins), link_up(joins.name, agent=joins.name))


def start(world: Driver, *jobs: str) -> None:
    world.tell(*[inputs.Started(attempt=f"{each}.1", pid=1, pid_start=1) for each in jobs])


def places(world: Driver) -> dict[str, str]:
    return {each.id: each.attempt.device for each in world.state.jobs.values() if each.attempt is not None}


def asked(world: Driver) -> dict[str, str]:
    """Reasons of the preemptions requested in the last step, by attempt; each job is to run elsewhere itself."""
    found = world.of(events.PreemptRequested)
    assert all(each.by is None for each in found)
    return {each.attempt: each.why for each in found}


def begun(
    *specs: JobSpec,
    nodes: Sequence[NodeSpec],
    ran_s: float,
    waiting: Sequence[JobSpec] = (),
    rules: Rules = USUAL,
    started: bool = True,
    seen_s: Sequence[float] = (),
) -> Driver:
    """A world in which jobs got devices one after the other; earlier trainings of config `c` took `seen_s`."""
    world, at = Driver(), 0.0
    world.tell(inputs.Configure(rules=rules))
    for each in nodes:
        join(world, each)
    for took_s in seen_s:
        world.tell(ended(f"{world.submit(training())[0]}.1", started_at=0.0, ended_at=took_s))
    for spec in specs:
        names, at = world.submit(spec), world.now
        start(world, *names if started else ())
    world.submit(*waiting)
    world.tell(inputs.Tick(), after_s=at + ran_s - world.now)
    return world


def joined(*specs: JobSpec, nodes: Sequence[NodeSpec] = (SLOW,), fast: NodeSpec = FAST, **fields: Any) -> Driver:
    """A world in which jobs run on slow devices, and a fast one has joined in the last step."""
    world = begun(*specs or (job(),), nodes=nodes, **{"ran_s": 3.0, **fields})
    join(world, fast)
    return world


def shared(*specs: JobSpec, nodes: Sequence[NodeSpec] = (FAST, SLOW), **fields: Any) -> Driver:
    """A world in which the first job has the fast device, the others slow ones, and all have run for long enough."""
    return begun(*specs or (EVEN, training()), nodes=nodes, **{"waiting": [training()], "ran_s": 300.0, **fields})


@pytest.mark.parametrize(("make", "kept_s"), [(joined, 10 + 120), (shared, 10 + 10 + 120)])
def test_devices_are_reserved_for_the_grace_and_two_minutes(make: Callable[[], Driver], kept_s: float) -> None:
    world = make()
    until, wake = world.now + kept_s, world.core.wake_at()
    while world.core.index.reserved and wake is not None and world.now < until:
        world.tell(inputs.Tick(), after_s=wake - world.now)
        wake = world.core.wake_at()
    assert (world.now, world.core.index.reserved) == (until, {})


class TestMove:
    @pytest.mark.parametrize("spec", [job(), training()])
    def test_running_job_moves_to_the_faster_device_that_joins(self, spec: JobSpec) -> None:
        world = joined(spec, ran_s=1_000.0)
        assert asked(world) == {"j1.1": f"goes on faster on f/cuda0: {0.9 * (100_000 - 1_001) - 60:.0f} s are saved"}
        assert world.core.index.reserved == {"f/cuda0": "j1"}
        world.tell(ended("j1.1", **STOPPED))
        assert places(world) == {"j1": "f/cuda0"}

    def test_job_that_saves_most_moves_and_is_not_asked_again(self) -> None:
        world = joined(job("a"), job("b", slow_s=200_000.0), nodes=[PAIR])
        assert list(asked(world)) == ["j2.1"]
        join(world, rig("g", "A100"))
        assert list(asked(world)) == ["j1.1"]

    def test_saving_counts_for_each_job_that_waits_for_the_same_config(self) -> None:
        short = training(fast_s=50.0, slow_s=500.0)
        assert asked(joined(short)) == {}
        assert list(asked(joined(short, waiting=[short]))) == ["j1.1"]

    refused: dict[str, tuple[JobSpec, dict[str, Any]]] = {
        "under ten minutes saved": (job("a", 50.0, 500.0), {}),
        "restart takes most of it": (job("a", 3_750.0, 5_000.0), {"rules": RESTARTS}),
        "hardly faster": (UNKNOWN, {"fast": rig("f", "4090"), "nodes": [rig("s", "5080")], "seen_s": SEEN_S}),
        "unknown duration on the slow device": (replace(job(), expected_s={"A100": 1e4}), {}),
        "unknown duration on the fast device": (replace(job(), expected_s={"RTX 3060": 1e5}), {}),
        "too long overdue to forecast": (job(slow_s=50_000.0), {"ran_s": 864_000.0}),
        "not yet started": (job(), {"started": False}),
        "rounds of placement": (job(), {"rules": ROUNDS}),
        "same speed class": (job(), {"fast": rig("f", "RTX 3060", vram_gb=80.0)}),
        "too little memory": (job(resources=Resources(vram_gb=20)), {"fast": rig("f", "A100", vram_gb=8.0)}),
        "several devices": (job(resources=Resources(gpus=2)), {"fast": rig("f", "A100", 2), "nodes": [PAIR]}),
        "price cap": (job(), {"fast": DEAR, "rules": CAPPED}),
        "node about to end": (job(), {"fast": replace(FAST, ends_at=1_040.0)}),
        "avoided provider": (job(fast_s=5e4), {"fast": replace(FAST, provider="vast"), "rules": AVOIDING}),
    }

    @pytest.mark.parametrize(("spec", "fields"), refused.values(), ids=refused)
    def test_move_is_refused(self, spec: JobSpec, fields: dict[str, Any]) -> None:
        world = joined(spec, **fields)
        assert (set(places(world).values()), asked(world)) == ({"s/cuda0"}, {})

    def test_device_at_a_sweep_is_not_taken_before_its_last_chunk_ends(self) -> None:
        nodes = [replace(SLOW, limits=NodeLimits(work=(WorkKind.SCRIPT,)))]
        world = joined(nodes=nodes, waiting=[sweep("search", 0, 10**12)], started=False)
        start(world, "j1")
        world.tell(world.searched(world.state.devices["f/cuda0"].chunks[0]))
        assert asked(world) == {}
        world.tell(*[world.searched(each) for each in world.state.devices["f/cuda0"].chunks])
        assert list(asked(world)) == ["j1.1"]

    def test_job_on_a_device_that_left_the_fleet_stays(self) -> None:
        world = begun(job(), nodes=[SLOW], ran_s=3.0)
        world.tell(inputs.NodeFound(node=replace(SLOW, devices=())))
        join(world, FAST)
        assert (places(world), asked(world)) == ({"j1": "s/cuda0"}, {})

    def test_rival_that_loses_less_gets_the_slower_device(self) -> None:
        world = joined(waiting=[job("rival", slow_s=20_000.0)])
        assert asked(world) == {"j1.1": f"goes on faster on f/cuda0: {0.9 * (100_000 - 4) - 10_060:.0f} s are saved"}
        world.tell(ended("j1.1", **STOPPED))
        assert places(world) == {"j1": "f/cuda0", "j2": "s/cuda0"}

    rivals: dict[str, list[JobSpec]] = {
        "higher priority": [job(), job("rival", slow_s=10_000.0, priority=1)],
        "larger loss": [job(), job("rival", slow_s=200_000.0)],
        "loss for all that wait": [job(), *[training(slow_s=30_000.0)] * 5],
        "unknown duration": [job(), replace(job("rival"), expected_s={})],
        "too little memory": [job(), job("rival", slow_s=10_000.0, resources=Resources(vram_gb=60))],
        "slow node about to end": [job(), script("rival", expected_s={"*": 10_000.0})],
        "gain of the rival": [job("a", 50.0, 500.0), job("rival", slow_s=5_000.0)],
    }

    @pytest.mark.parametrize("specs", rivals.values(), ids=rivals)
    def test_rival_gets_the_device(self, specs: list[JobSpec]) -> None:
        world = joined(specs[0], waiting=specs[1:], nodes=[replace(SLOW, ends_at=2_000.0)], fast=LARGE)
        assert (places(world), asked(world)) == ({"j1": "s/cuda0", "j2": "f/cuda0"}, {})


class TestSwap:
    def test_jobs_change_places_for_those_that_wait(self) -> None:
        world = shared()
        saved_s = 2 * (0.9 * (100_000 - 300) - 60) + (90_000 - 302) * (1 - 10 / 9) - 60
        why = f"changes places with j{{}}: {saved_s:.0f} s are saved"
        assert asked(world) == {"j2.1": why.format(1), "j1.1": why.format(2)}
        assert world.core.index.reserved == {"f/cuda0": "j2", "s/cuda0": "j1"}
        world.tell(ended("j2.1", **STOPPED), ended("j1.1", **STOPPED))
        assert places(world) == {"j1": "s/cuda0", "j2": "f/cuda0"}

    def test_pair_that_saves_most_is_chosen(self) -> None:
        three = training("x"), training("y", slow_s=200_000.0), training("z")
        world = shared(EVEN, *three, nodes=[FAST, rig("s", "RTX 3060", 3)], waiting=three)
        assert list(asked(world)) == ["j3.1", "j1.1"]

    def test_swap_is_considered_every_five_minutes_between_jobs_that_have_run_as_long(self) -> None:
        world = shared(EVEN, EVEN, ran_s=100.0, waiting=[])
        join(world, rig("t", "RTX 3060"))
        start(world, *world.submit(training()))
        world.submit(training())
        found = []
        for after_s in (200, 150, 150):
            world.tell(inputs.Tick(), after_s=after_s)
            found.append(list(asked(world)))
        assert found == [[], [], ["j3.1", "j1.1"]]

    def test_job_already_preempted_does_not_swap(self) -> None:
        world = shared(ran_s=290.0)
        join(world, rig("g", "A100", vram_gb=80.0))
        assert list(asked(world)) == ["j2.1"]
        world.tell(inputs.Tick(), after_s=20)
        assert asked(world) == {}

    refused: dict[str, tuple[JobSpec, JobSpec, dict[str, Any]]] = {
        "no training waits": (EVEN, job(), {"waiting": [job()]}),
        "another priority": (EVEN, training(priority=1), {}),
        "same speed class": (EVEN, UNKNOWN, {"nodes": [rig("f", "RTX 3060"), SLOW], "seen_s": SEEN_S}),
        "unknown duration of the slow job": (EVEN, UNKNOWN, {}),
        "unknown duration of the fast job": (replace(EVEN, expected_s={}), training(), {}),
        "under half an hour saved": (job("b", 90_000.0, 90_000.0), training(fast_s=100.0, slow_s=1_000.0), {}),
        "loss for those that wait": (training(fast_s=90_000.0), job(), {}),
        "not yet started": (EVEN, training(), {"started": False}),
        "rounds of placement": (EVEN, training(), {"rules": ROUNDS}),
        "too little memory": (replace(EVEN, resources=Resources(vram_gb=60)), training(), {"nodes": [LARGE, SLOW]}),
        "several devices": (EVEN, SHARDS, {"nodes": [LARGE, PAIR], "waiting": [SHARDS]}),
        "several devices needed": (replace(EVEN, resources=SHARDS.resources), training(), {"nodes": [LARGE, PAIR]}),
        "slow is dear": (EVEN, training(), {"nodes": [FAST, replace(SLOW, price_per_h=3.0)], "rules": CAPPED}),
        "fast is dear": (EVEN, training(), {"nodes": [DEAR, SLOW], "rules": TRAINING_CAPPED}),
    }

    @pytest.mark.parametrize(("fast", "slow", "fields"), refused.values(), ids=refused)
    def test_swap_is_refused(self, fast: JobSpec, slow: JobSpec, fields: dict[str, Any]) -> None:
        world = shared(fast, slow, **fields)
        assert (list(places(world).values()), asked(world)) == (["f/cuda0", "s/cuda0"], {})

    @pytest.mark.parametrize("gone", [FAST, SLOW])
    def test_device_that_left_the_fleet_is_in_no_swap(self, gone: NodeSpec) -> None:
        world = shared(ran_s=290.0)
        world.tell(inputs.NodeFound(node=replace(gone, devices=())))
        world.tell(inputs.Tick(), after_s=10)
        assert (len(places(world)), asked(world)) == (2, {})
