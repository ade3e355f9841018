"""Motley fleets: several jobs on a device, several devices for a job, who must yield, and rounds that place anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.core.decide import LOOK_EVERY_S
from hostler.core.explain import explain_job
from hostler.model import commands, events, inputs
from hostler.model.fleet import DeviceSpec, NodeLimits, NodeSpec
from hostler.model.rules import Cost, PlacementRules, Preferences, Rules, Targets
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.work import DeviceKind, JobSpec, JobState, Resources, WorkKind
from tests.core.builders import Driver, ended, link_up, script, sweep

RULES = Rules(targets=Targets(), placement=PlacementRules(preempt_after_s=60.0))


def rig(name: str, model: str = "RTX 4090", count: int = 1, vram_gb: float = 24.0, **fields: object) -> NodeSpec:
    devices = tuple(
        DeviceSpec(id=f"{name}/cuda{n}", node=name, kind=DeviceKind.CUDA, index=n, model=model, vram_gb=vram_gb)
        for n in range(count)
    )
    return NodeSpec(name=name, backend="test", devices=devices, **fields)  # type: ignore[arg-type]


def fleet(*nodes: NodeSpec, rules: Rules = RULES) -> Driver:
    world = Driver()
    world.tell(inputs.Configure(rules=rules))
    for node in nodes:
        world.tell(inputs.NodeFound(node=node), link_up(node.name, agent=node.name))
    return world


def play(name: str = "p", config: str = "hex8_2p", **fields: object) -> JobSpec:
    return script(name, work_as=WorkKind.SELFPLAY, config=config, **fields)


def train(name: str = "t", config: str = "hex8_2p", **fields: object) -> JobSpec:
    return script(name, work_as=WorkKind.TRAINING, config=config, **fields)


def places(world: Driver) -> dict[str, tuple[str, ...]]:
    """Devices by job that has some."""
    return {job.id: job.attempt.devices for job in world.state.jobs.values() if job.attempt is not None}


def run(world: Driver, *jobs: str) -> None:
    for name in jobs:
        attempt = world.state.jobs[name].attempt
        assert attempt is not None
        world.tell(inputs.Started(attempt=attempt.id, pid=1, pid_start=1))


def let_share(world: Driver, device: str = "a/cuda0") -> None:
    """Its telemetry tells that a device has little to do, for an hour, while all that begins there runs."""
    unknown = dict.fromkeys(["load", "memory_total_gb", "memory_free_gb", "disk_total_gb", "disk_free_gb", "backlog_s"])
    for _ in range(200):
        run(world, *[name for name in places(world) if world.state.jobs[name].state is not JobState.RUNNING])
        told = {device: DeviceTelemetry(utilization=0.1, vram_used_gb=1.0, temperature_c=None)}
        node = device.partition("/")[0]
        world.tell(inputs.Telemetry(node=node, at=world.now, devices=told, **unknown), after_s=20)


class TestGangs:
    def test_it_takes_devices_of_one_node_and_sees_them_all(self) -> None:
        world = fleet(rig("a"), rig("b", count=4))
        world.submit(script("g", resources=Resources(gpus=3)))
        assert places(world) == {"j1": ("b/cuda0", "b/cuda1", "b/cuda2")}
        (launch,) = [each for each in world.commands if isinstance(each, commands.Launch)]
        assert launch.order.queue == "cuda0+cuda1+cuda2"
        assert launch.order.env["CUDA_VISIBLE_DEVICES"] == "0,1,2"

    def test_shards_take_as_many_as_their_memory_needs(self) -> None:
        world = fleet(rig("b", count=4))
        world.submit(script("g", resources=Resources(vram_gb=60, shards=True)))
        assert len(places(world)["j1"]) == 3

    def test_it_waits_for_its_last_device_and_others_go_on(self) -> None:
        world = fleet(rig("b", count=2))
        world.submit(script("s"))
        world.submit(script("g", resources=Resources(gpus=2)))
        assert places(world) == {"j1": ("b/cuda0",)}
        world.tell(ended("j1.1"))
        assert places(world) == {"j2": ("b/cuda0", "b/cuda1")}
        world.tell(ended("j2.1"))
        assert places(world) == {}

    def test_what_fits_nowhere_says_so(self) -> None:
        world = fleet(rig("b", count=2))
        world.submit(script("g", resources=Resources(gpus=3)))
        told = explain_job(world.state, world.core.index, world.state.jobs["j1"])
        assert "fits on no device" in told.summary


class TestLanes:
    def shared(self, name: str) -> JobSpec:
        return play(name, config=name, resources=Resources(vram_gb=8, shared=True))

    def test_several_share_a_device_as_far_as_lanes_and_memory_go(self) -> None:
        world = fleet(rig("a"))
        world.submit(*[self.shared(f"c{n}") for n in range(4)])
        assert len(places(world)) == 1
        assert len(world.state.devices["a/cuda0"].attempts) == 1, "one lane, until its utilisation says more"

    def test_a_shared_device_is_paid_for_once(self) -> None:
        world = fleet(rig("a", price_per_h=1.0))
        world.submit(*[self.shared(f"c{n}") for n in range(3)])
        first = world.now
        let_share(world)
        assert len(places(world)) > 1
        world.tell(*[ended(f"{name}.1") for name in places(world)])
        world.tell(*[ended(f"{name}.1") for name in places(world)])
        spent = sum(each.device_s for each in world.state.spent.values())
        assert spent == pytest.approx(world.now - first, rel=0.02)

    def test_who_shares_with_nobody_is_alone(self) -> None:
        world = fleet(rig("a"))
        world.submit(self.shared("c"), script("s", resources=Resources(vram_gb=1)))
        assert len(places(world)) == 1


class TestLimits:
    def test_kinds_of_work(self) -> None:
        world = fleet(rig("a", limits=NodeLimits(work=(WorkKind.SELFPLAY,))))
        world.submit(script("s"), play())
        assert places(world) == {"j2": ("a/cuda0",)}

    def test_scripts_at_a_time(self) -> None:
        world = fleet(rig("a", count=4, limits=NodeLimits(scripts=2)))
        world.submit(*[script(f"s{n}") for n in range(4)])
        assert len(places(world)) == 2
        world.tell(ended("j1.1"))
        assert len(places(world)) == 2

    def test_host_cpus_are_a_resource(self) -> None:
        world = fleet(rig("a", count=12, cpus=4))
        world.submit(*[script(f"s{n}", resources=Resources(cpus=1.5)) for n in range(4)])
        assert len(places(world)) == 2

    def test_starts_are_staggered(self) -> None:
        world = fleet(rig("a", count=2, limits=NodeLimits(stagger_s=30)))
        world.submit(script("s1"), script("s2"))
        assert len(places(world)) == 1
        wake = world.core.wake_at()
        assert wake is not None
        world.tell(inputs.Tick(), after_s=wake - world.now)
        assert len(places(world)) == 2

    def test_a_node_that_goes_away_gets_nothing_longer(self) -> None:
        world = fleet(rig("a", ends_at=2_000.0))
        world.submit(script("long", expected_s={"*": 5_000.0}), script("short", expected_s={"*": 100.0}))
        assert places(world) == {"j2": ("a/cuda0",)}

    def test_too_dear(self) -> None:
        world = fleet(
            rig("a", price_per_h=3.0), rules=replace(RULES, cost=Cost(max_price_per_h={WorkKind.SELFPLAY: 1.0}))
        )
        world.submit(play())
        assert places(world) == {}
        told = explain_job(world.state, world.core.index, world.state.jobs["j1"])
        assert "costs 3 per hour" in told.devices["a/cuda0"]


class TestYielding:
    def test_training_takes_a_device_from_self_play_after_a_while(self) -> None:
        world = fleet(rig("a"))
        world.submit(play())
        run(world, "j1")
        world.submit(train())
        assert world.of(events.PreemptRequested) == []
        world.tell(inputs.Tick(), after_s=61)
        (asked,) = world.of(events.PreemptRequested)
        assert (asked.attempt, asked.by) == ("j1.1", "j2")
        assert [each for each in world.commands if isinstance(each, commands.Stop)]
        world.tell(ended("j1.1", signal=15, reason="stopped"))
        assert places(world) == {"j2": ("a/cuda0",)}
        assert world.state.jobs["j1"].failures == {}, "nobody is to blame"
        assert world.state.jobs["j1"].preempted == 1

    def test_who_holds_several_devices_is_asked_last(self) -> None:
        """Work on several hardly ever finds them again: a week of simulation gave it half of its share."""
        world = fleet(rig("a", count=3))
        world.submit(play("single", config="one"))
        run(world, "j1")
        world.tell(inputs.Tick(), after_s=600)
        world.submit(play("gang", config="two", resources=Resources(gpus=2)))
        run(world, "j2")
        world.submit(train("t", config="x"), train("u", config="y"))
        world.tell(inputs.Tick(), after_s=61)
        assert [each.attempt for each in world.of(events.PreemptRequested)] == ["j1.1", "j2.1"]

    def test_nothing_is_taken_from_training(self) -> None:
        world = fleet(rig("a"))
        world.submit(train())
        run(world, "j1")
        world.submit(train("u", config="other"), play("q"), script("s"))
        world.tell(inputs.Tick(), after_s=600)
        assert world.of(events.PreemptRequested) == []

    def test_a_job_that_found_a_place_gives_its_reservation_up(self) -> None:
        world = fleet(rig("a"), rig("b"))
        world.submit(play("p1"), play("p2", config="other"))
        run(world, "j1", "j2")
        world.submit(train())
        world.tell(inputs.Tick(), after_s=61)
        (asked,) = world.of(events.PreemptRequested)
        stays, goes = ("j2", "j1") if asked.attempt == "j1.1" else ("j1", "j2")
        world.tell(ended(f"{stays}.1"))
        assert "j3" in places(world)
        world.tell(ended(f"{goes}.1", signal=15, reason="stopped"))
        assert world.core.index.reserved == {}
        assert goes in places(world)

    def test_two_trainings_of_one_config_never_run_together(self) -> None:
        world = fleet(rig("a"), rig("b"))
        world.submit(train("t1"), train("t2"))
        assert len(places(world)) == 1
        told = explain_job(world.state, world.core.index, world.state.jobs["j2"])
        assert any("one per config" in says for says in told.devices.values())
        world.tell(ended("j1.1"))
        assert "j2" in places(world)


class TestPreferences:
    def test_training_goes_to_the_provider_it_likes(self) -> None:
        liked = Cost(providers={WorkKind.TRAINING: Preferences(prefer=("runpod",), avoid=("vast",))})
        nodes = rig("v", provider="vast"), rig("r", provider="runpod")
        world = fleet(*nodes, rules=replace(RULES, cost=liked))
        world.submit(train())
        assert places(world) == {"j1": ("r/cuda0",)}

    def test_training_goes_to_the_best_tier_and_falls_back(self) -> None:
        world = fleet(rig("small"), rig("big", "A100", vram_gb=80))
        need = Resources(tiers=(1, 3))
        world.submit(train("t1", "a", resources=need), train("t2", "b", resources=need))
        assert places(world) == {"j1": ("big/cuda0",), "j2": ("small/cuda0",)}


class TestRounds:
    rules = Rules(placement=PlacementRules(round_s=360.0))

    def job(self, name: str, fast_s: float, slow_s: float) -> JobSpec:
        return script(name, expected_s={"A100": fast_s, "RTX 3060": slow_s}, checkpoints=True)

    def world(self) -> Driver:
        return fleet(rig("f", "A100"), rig("s", "RTX 3060"), rules=self.rules)

    def test_who_gains_most_from_the_fast_device_gets_it_in_the_next_round(self) -> None:
        world = self.world()
        world.submit(self.job("even", 90_000.0, 100_000.0))
        run(world, "j1")
        world.submit(self.job("keen", 10_000.0, 400_000.0))
        run(world, "j2")
        assert places(world) == {"j1": ("f/cuda0",), "j2": ("s/cuda0",)}
        world.tell(inputs.Tick(), after_s=360)
        assert {event.attempt for event in world.of(events.PreemptRequested)} == {"j1.1", "j2.1"}
        world.tell(ended("j1.1", signal=15, reason="stopped", started_at=0.0, ended_at=360.0))
        world.tell(ended("j2.1", signal=15, reason="stopped", started_at=0.0, ended_at=360.0))
        assert places(world) == {"j2": ("f/cuda0",), "j1": ("s/cuda0",)}
        assert world.state.jobs["j1"].progress == pytest.approx(360 / 90_000)

    def test_a_round_in_which_nothing_gains_moves_nothing(self) -> None:
        world = self.world()
        world.submit(self.job("a", 10_000.0, 100_000.0))
        run(world, "j1")
        for _ in range(5):
            world.tell(inputs.Tick(), after_s=360)
        assert world.of(events.PreemptRequested) == []

    def test_what_cannot_be_stopped_is_left_alone(self) -> None:
        world = self.world()
        world.submit(replace(self.job("a", 90_000.0, 100_000.0), checkpoints=False))
        run(world, "j1")
        world.submit(self.job("keen", 10_000.0, 400_000.0))
        world.tell(inputs.Tick(), after_s=360)
        assert world.of(events.PreemptRequested) == []
        assert all(job.state is not JobState.FAILED for job in world.state.jobs.values())


class TestKept:
    """Devices kept for work that needs more than one, or that makes way for it."""

    def test_a_gang_of_higher_rank_gets_its_devices_from_a_stream_of_others(self) -> None:
        world = fleet(rig("a", count=2))
        world.submit(*[script(f"s{n}") for n in range(2)])
        (gang,) = world.submit(script("g", resources=Resources(gpus=2), priority=10))
        for _ in range(6):
            world.submit(script("s"))
            first = min(
                name for name in world.state.devices["a/cuda0"].attempts + world.state.devices["a/cuda1"].attempts
            )
            world.tell(ended(first), after_s=100)
            if gang in places(world):
                return
        raise AssertionError(f"{gang} never ran")

    def test_a_device_is_not_kept_for_ever_beside_one_that_is_overdue(self) -> None:
        world = fleet(rig("a", count=2))
        for _ in range(4):
            (job,) = world.submit(play("q", config="one"))
            world.tell(ended(f"{job}.1", started_at=world.now - 100, ended_at=world.now), after_s=100)
        world.submit(play("q", config="one"))
        run(world, *places(world))
        world.tell(inputs.Tick(), after_s=5000)
        world.submit(play("g", config="zz", resources=Resources(gpus=2)), play("r", config="two"))
        idle = 0
        for _ in range(100):
            world.tell(inputs.Tick(), after_s=60)
            idle += not world.state.devices["a/cuda1"].attempts
        assert idle < 60, f"idle for {idle} of 100 minutes"

    @pytest.mark.parametrize(("lasts_h", "kept"), [(8, True), (1, False)])
    def test_the_longer_it_will_last_the_longer_a_device_is_kept(self, lasts_h: int, kept: bool) -> None:
        """Here for half an hour, until the other device is free as well."""
        world = fleet(rig("a", count=2), rules=Rules(placement=PlacementRules(hold_s=900.0, starve_after_s=1e9)))
        gang = play("g", config="two", resources=Resources(gpus=2))
        for spec, hours, times in ((gang, lasts_h, 2), (play(), 1, 60)):
            for _ in range(times):
                (job,) = world.submit(spec)
                run(world, job)
                began = world.now
                world.tell(ended(f"{job}.1", started_at=began, ended_at=began + 3600 * hours), after_s=3600 * hours)
        (long,) = world.submit(play())
        run(world, long)
        (short,) = world.submit(play("p", config="two"))
        world.tell(inputs.Tick(), after_s=1800)
        world.submit(gang, play())
        world.tell(ended(f"{short}.1", started_at=world.now - 1800, ended_at=world.now))
        assert list(places(world)) == ([long] if kept else [long, "j66"])

    def test_what_a_reservation_leaves_is_given_away_in_the_same_step(self) -> None:
        world = fleet(rig("a"))
        world.submit(play())
        run(world, "j1")
        world.submit(train(), script("s"))
        world.tell(inputs.Tick(), after_s=61)
        assert world.core.index.reserved
        world.tell(ended("j1.1", signal=15, reason="stopped"), inputs.Cancel(job="j2"))
        assert world.state.devices["a/cuda0"].attempts
        assert not world.core.index.reserved

    def test_a_device_of_a_node_that_went_away_is_kept_for_nobody(self) -> None:
        world = fleet(rig("a"), rig("b"))
        world.submit(play("p1", config="x"), play("p2", config="y"))
        run(world, "j1", "j2")
        world.submit(train())
        world.tell(inputs.Tick(), after_s=61)
        (kept,) = world.core.index.reserved
        world.tell(inputs.LinkDown(node=kept[0], why="gone"))
        world.tell(inputs.Tick(), after_s=61)
        assert list(world.core.index.reserved) == [device for device in ("a/cuda0", "b/cuda0") if device != kept]

    def test_nobody_makes_way_for_ever(self) -> None:
        world = fleet(rig("a"))
        (played,) = world.submit(play())
        for number in range(20):
            if played in places(world):
                run(world, played)
            world.submit(train(f"t{number}", config=f"c{number}"))
            for _ in range(3):
                world.tell(inputs.Tick(), after_s=61)
                stops = [each.attempt for each in world.commands if isinstance(each, commands.Stop)]
                world.tell(*[ended(each, signal=15, reason="stopped") for each in stops])
            world.tell(*[ended(world.state.jobs[name].attempt.id) for name in places(world) if name != played])
        assert world.state.jobs[played].preempted <= 5


class TestShares:
    def test_a_sweep_and_scripts_share_a_large_fleet(self) -> None:
        world = fleet(rig("a", count=20))
        world.submit(sweep("big", 0, 10**12))
        halves = []
        for _ in range(60):
            over = [
                ended(job.attempt.id, started_at=job.attempt.leased_at, ended_at=world.now)
                for job in world.state.jobs.values()
                if job.attempt is not None and world.now - job.attempt.leased_at >= 300
            ]
            done = [
                world.searched(min(device.chunks), elapsed_s=19.0)
                for device in world.state.devices.values()
                if device.chunks and not device.attempts
            ]
            waiting = sum(job.state is JobState.PENDING for job in world.state.jobs.values())
            if waiting < 10:
                world.submit(*[script("s") for _ in range(20)])
            world.tell(*over, *done, after_s=20)
            halves.append(sum(bool(device.attempts) for device in world.state.devices.values()))
        assert sum(halves[30:]) / 30 > 6, halves


class TestSafety:
    long = {"*": 100 * 3600.0}

    def test_long_work_does_not_wait_for_a_safe_node_that_is_not_there(self) -> None:
        world = fleet(rig("e", ephemeral=True))
        world.tell(inputs.NodeFound(node=rig("s")))
        world.submit(script("long", expected_s=self.long))
        assert places(world) == {"j1": ("e/cuda0",)}

    def test_it_waits_for_one_that_is(self) -> None:
        world = fleet(rig("e", ephemeral=True), rig("s"))
        world.submit(script("a", expected_s=self.long), script("b", expected_s=self.long))
        assert places(world) == {"j1": ("s/cuda0",)}

    @pytest.mark.parametrize("long_ones", [1, 4, 20])
    def test_long_ones_that_wait_do_not_hide_a_short_one(self, long_ones: int) -> None:
        world = fleet(rig("e", ephemeral=True), rig("s"))
        world.submit(*[script("a", expected_s=self.long) for _ in range(1 + long_ones)])
        world.submit(script("a", expected_s={"*": 60.0}))
        assert places(world) == {"j1": ("s/cuda0",), f"j{2 + long_ones}": ("e/cuda0",)}

    @pytest.mark.parametrize("order", [["short", "long"], ["long", "short"]])
    @pytest.mark.parametrize("nodes", [["e", "s"], ["s", "e"]])
    @pytest.mark.parametrize("work", [WorkKind.SCRIPT, WorkKind.EVALUATION])
    def test_of_two_the_shorter_goes_where_it_hardly_risks_anything(
        self, order: list[str], nodes: list[str], work: WorkKind
    ) -> None:
        """Both may go to either node: the longer one would survive there with odds of three to one."""
        world = fleet(*[rig(name, ephemeral=name == "e") for name in nodes])
        spans = {"short": 600.0, "long": 5400.0}
        world.submit(*[script(each, work_as=work, expected_s={"*": spans[each]}) for each in order])
        told = {order[int(name[1:]) - 1]: devices for name, devices in places(world).items()}
        assert told == {"short": ("e/cuda0",), "long": ("s/cuda0",)}

    def test_one_that_lives_is_not_kept_from_the_shorter_when_nothing_else_is_open(self) -> None:
        world = fleet(rig("e", ephemeral=True), rig("s"))
        world.submit(script("a"), script("b"))
        world.submit(script("long", expected_s={"*": 5400.0}), script("short", expected_s={"*": 600.0}))
        (holder,) = [job for job, devices in places(world).items() if devices == ("s/cuda0",)]
        world.tell(ended(f"{holder}.1"))
        assert places(world)["j4"] == ("s/cuda0",)

    def test_risk_does_not_outweigh_speed(self) -> None:
        """The long one is as fast on either, the short one five times as fast on the node that lives."""
        world = fleet(rig("e", model="RTX 3060", ephemeral=True), rig("s", model="H100"))
        world.submit(
            script("long", expected_s={"*": 5400.0}), script("short", expected_s={"RTX 3060": 3000.0, "H100": 600.0})
        )
        assert places(world) == {"j1": ("e/cuda0",), "j2": ("s/cuda0",)}


class TestRoundsKeepNothingIdle:
    rules = Rules(placement=PlacementRules(round_s=60.0))

    def test_shards_get_as_many_as_they_need(self) -> None:
        world = fleet(rig("a", count=4), rules=self.rules)
        need = Resources(vram_gb=60, shards=True)
        world.submit(script("s", resources=need, checkpoints=True, expected_s={"*": 9000.0}))
        for _ in range(3):
            world.tell(inputs.Tick(), after_s=60)
        assert len(places(world)["j1"]) == 3

    def test_nothing_is_kept_for_a_training_that_may_not_run(self) -> None:
        world = fleet(rig("a"), rig("b"), rules=self.rules)
        world.submit(train("t1", checkpoints=True, expected_s={"*": 9000.0}))
        world.submit(train("t2", checkpoints=True, expected_s={"*": 9000.0}), script("s"), script("s2"))
        for _ in range(5):
            world.tell(inputs.Tick(), after_s=60)
        assert len(places(world)) == 2


def slots(name: str = "c", count: int = 2) -> NodeSpec:
    devices = tuple(DeviceSpec(id=f"{name}/cpu{n}", node=name, kind=DeviceKind.CPU, index=n) for n in range(count))
    return NodeSpec(name=name, backend="test", devices=devices)


class TestLoopsOnMotleyFleets:
    need = Resources(vram_gb=8, tiers=(1, 2, 3), cpu_too=True)

    def test_training_keeps_to_gpus_where_there_are_any(self) -> None:
        world = fleet(slots(), rig("g"))
        world.submit(script("s"))
        world.submit(script("hold", resources=Resources(device="gpu")))
        world.submit(train(resources=self.need))
        told = explain_job(world.state, world.core.index, world.state.jobs["j3"])
        assert "j3" not in places(world), places(world)
        assert told.devices["c/cpu1"].startswith("device kind: a GPU fits it")

    def test_and_takes_a_cpu_slot_where_there_are_none(self) -> None:
        world = fleet(slots(), rig("g"))
        world.submit(script("hold", resources=Resources(device="gpu")))
        world.submit(train(resources=self.need))
        assert "j2" not in places(world)
        world.tell(inputs.LinkDown(node="g", why="gone"))
        assert "j2" in places(world)

    def test_what_shares_with_nobody_gets_a_device_that_others_share(self) -> None:
        world = fleet(rig("a"))
        shared = Resources(vram_gb=4, shared=True)
        world.submit(*[play(f"p{n}", config=f"c{n}", resources=shared) for n in range(6)])
        let_share(world)
        assert len(world.state.devices["a/cuda0"].attempts) > 1
        world.submit(script("alone"))
        for _ in range(6):
            first = world.state.devices["a/cuda0"].attempts[0]
            world.tell(ended(first), after_s=10)
            if "j7" in places(world):
                return
        raise AssertionError(f"the script waits behind {places(world)}")


class TestNothingIsForgotten:
    """What is kept off a device for a reason that goes by gets it then, though nothing happens to either."""

    def wait(self, world: Driver, seconds: float, every_s: float = 60.0) -> None:
        for _ in range(round(seconds / every_s)):
            world.tell(inputs.Tick(), after_s=every_s)

    def test_a_start_that_was_too_soon(self) -> None:
        world = fleet(rig("a", count=2, limits=NodeLimits(stagger_s=30.0)))
        world.submit(train("x", config="A"), train("y", config="B"))
        assert len(places(world)) == 1
        self.wait(world, 30.0, every_s=30.0)
        assert len(places(world)) == 2

    def test_a_look_that_is_far_away_does_not_stand_for_a_near_one(self) -> None:
        world = fleet(rig("a", count=2, limits=NodeLimits(stagger_s=30.0)))
        world.core.index.look_again("a/cuda1", world.now + 3600)
        world.submit(train("x", config="A"), train("y", config="B"))
        self.wait(world, 30.0, every_s=30.0)
        assert len(places(world)) == 2

    def test_long_work_that_has_waited_for_a_safe_node_for_too_long(self) -> None:
        need = Resources(vram_gb=20)
        world = fleet(rig("safe"), rig("e", ephemeral=True, lifetime_s=3600.0))
        world.submit(script("a", resources=need, priority=1), script("b", resources=need))
        world.tell(ended("j2.1"))
        world.submit(script("long", resources=need, expected_s={"*": 8 * 3600.0}))
        assert places(world) == {"j1": ("safe/cuda0",)}
        self.wait(world, 3600.0 + 2 * LOOK_EVERY_S)
        assert places(world) == {"j1": ("safe/cuda0",), "j3": ("e/cuda0",)}

    def fast_and_slow(self) -> Driver:
        """The fast device is at self-play that goes before everything."""
        world = fleet(rig("slow", model="RTX 3060", vram_gb=12), rig("fast", model="H100"))
        world.submit(play("p", config="Z", priority=5, resources=Resources(vram_gb=20)))
        run(world, "j1")
        return world

    def test_who_left_a_slow_device_for_the_sake_of_a_fast_one_that_is_not_to_be_had(self) -> None:
        world = self.fast_and_slow()
        world.submit(train("t", config="A"))
        assert places(world) == {"j1": ("fast/cuda0",)}
        self.wait(world, 600.0)
        assert places(world)["j2"] == ("slow/cuda0",)

    def test_what_others_leave_goes_to_who_wants_it(self) -> None:
        world = self.fast_and_slow()
        world.submit(script("x"))
        world.submit(train("t", config="A", priority=1), train("u", config="B"), play("q", config="C"))
        world.tell(ended("j2.1"))
        assert places(world)["j5"] == ("slow/cuda0",)

    def test_a_cpu_slot_where_no_gpu_may_be_paid(self) -> None:
        rules = replace(RULES, cost=Cost(max_price_per_h={WorkKind.TRAINING: 1.0}))
        world = fleet(rig("g", price_per_h=5.0), slots(count=1), rules=rules)
        world.submit(train("t", resources=Resources(cpu_too=True)))
        assert places(world) == {"j1": ("c/cpu0",)}

    def test_a_device_that_was_emptied_for_a_job_which_may_not_go_there_any_more(self) -> None:
        world = fleet(rig("a"), rig("b"))
        world.submit(play("p", config="A"), play("q", config="B"))
        run(world, "j1", "j2")
        world.submit(train("t", config="C"))
        self.wait(world, 90.0, every_s=10.0)
        ((name, kept_for),) = world.core.index.reserved.items()
        assert kept_for == "j3"
        node = name.partition("/")[0]
        unknown = dict.fromkeys(["load", "memory_total_gb", "memory_free_gb", "backlog_s"])
        full = {"devices": {}, "disk_total_gb": 100.0, "disk_free_gb": 1.0, **unknown}
        world.tell(inputs.Telemetry(node=node, at=world.now, **full))
        (holder,) = [job for job, devices in places(world).items() if devices == (name,)]
        world.tell(ended(f"{holder}.1"))
        world.tell(inputs.Tick(), after_s=10.0)
        assert name not in world.core.index.reserved
        assert list(world.core.index.reserved.values()) == ["j3"], "the other one is asked for instead"
