"""The scheduler on motley fleets under anything the world may say: nothing breaks, replay agrees, and all work ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from hostler.model import commands, inputs
from hostler.model.fleet import DeviceSpec, NodeLimits, NodeSpec
from hostler.model.rules import PlacementRules, Quota, Rules, Targets
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.work import DeviceKind, FailureClass, Resources, Retry, WorkKind
from hostler.policy import programme
from tests.core.builders import Driver, ended, link_up, replayed, script, snapshot
from tests.core.test_machine import facts

WHICH = st.integers(0, 30)
CONFIGS = ("a", "b", "c")
FEW = Retry(max_attempts=dict.fromkeys(FailureClass, 3), backoff_s=4)
LIMITS = st.sampled_from(
    [
        NodeLimits(),
        NodeLimits(scripts=1),
        NodeLimits(stagger_s=20),
        NodeLimits(memory_gb=8),
        NodeLimits(work=(*WorkKind,)),
    ]
)
NEEDS = st.sampled_from(
    [
        Resources(),
        Resources(gpus=2),
        Resources(vram_gb=20),
        Resources(vram_gb=30, shards=True),
        Resources(vram_gb=6, shared=True),
        Resources(cpus=1.5),
        Resources(memory_gb=3),
        Resources(tiers=(1, 2, 3)),
        Resources(vram_gb=6, shared=True, cpu_too=True, tiers=(2, 3)),
    ]
)
ENDS: list[dict[str, Any]] = [
    {},
    {},
    {"exit_code": 1, "evidence": "torch.OutOfMemoryError: CUDA out of memory"},
    {"exit_code": 1, "evidence": "RuntimeError: CUDA error: uncorrectable ECC error encountered"},
    {"exit_code": 1, "evidence": "ModuleNotFoundError: No module named 'torch'"},
    {"signal": 9},
    {"reason": "lost"},
]
RULES = [
    Rules(),
    Rules(quotas=(Quota(pattern="a", share=0.5), Quota(pattern="b*", share=0.25, tier=3))),
    Rules(placement=PlacementRules(round_s=60.0, preempt_after_s=5.0), targets=Targets(lanes_max=3)),
    Rules(placement=PlacementRules(preempt=False, hold_s=0.0)),
]


def rig(name: str, count: int, **fields: Any) -> NodeSpec:
    """A node with GPUs of 24 GB and one CPU slot."""
    gpus = [
        DeviceSpec(id=f"{name}/cuda{n}", node=name, kind=DeviceKind.CUDA, index=n, model="RTX 4090", vram_gb=24.0)
        for n in range(count)
    ]
    slot = DeviceSpec(id=f"{name}/cpu0", node=name, kind=DeviceKind.CPU, index=0)
    return NodeSpec(name=name, backend="test", devices=(*gpus, slot), cpus=4, **fields)


class MotleyMachine(RuleBasedStateMachine):
    """Inputs in any order; the driver validates after each."""

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.nodes = {"n": rig("n", 4), "m": rig("m", 1)}
        self.driver.tell(inputs.Begin(version="test", epoch=1))
        for name, node in self.nodes.items():
            self.tell(inputs.NodeFound(node=node), link_up(name, agent=name))

    @rule(
        work=st.sampled_from([WorkKind.SCRIPT, WorkKind.SELFPLAY, WorkKind.TRAINING, WorkKind.EVALUATION]),
        config=st.sampled_from(CONFIGS),
        need=NEEDS,
        count=st.integers(1, 3),
        checkpoints=st.booleans(),
        expected=st.sampled_from([{}, {"*": 100.0}, {"RTX 4090": 5000.0}]),
        priority=st.sampled_from([0, 0, 0, 1]),
    )
    def submit(self, work: WorkKind, config: str, need: Resources, count: int, priority: int, **fields: Any) -> None:
        named: dict[str, Any] = {} if work is WorkKind.SCRIPT else {"work_as": work, "config": config}
        spec = {"checkpoints": fields["checkpoints"], "expected_s": fields["expected"], "priority": priority}
        jobs = [script(f"{work}{n}", resources=need, retry=FEW, **named, **spec) for n in range(count)]
        self.tell(inputs.Submit(specs=tuple(jobs)))

    @rule(rules=st.sampled_from(RULES))
    def configure(self, rules: Rules) -> None:
        self.tell(inputs.Configure(rules=rules))

    @rule(name=st.sampled_from(["n", "m"]), count=st.integers(0, 4), limits=LIMITS, ephemeral=st.booleans())
    def describe(self, name: str, count: int, limits: NodeLimits, ephemeral: bool) -> None:
        self.nodes[name] = rig(name, count, limits=limits, ephemeral=ephemeral, price_per_h=1.0)
        self.tell(inputs.NodeFound(node=self.nodes[name]))

    @rule(name=st.sampled_from(["n", "m"]), lost=st.booleans())
    def down_and_up(self, name: str, lost: bool) -> None:
        self.tell(inputs.LinkDown(node=name, why="cut"))
        held = [] if lost else self.held(name)
        self.tell(link_up(name, agent=f"{name}{self.driver.now}" if lost else self.agent(name), attempts=held))

    @rule(
        name=st.sampled_from(["n", "m"]),
        busy=st.sampled_from([None, 0.0, 0.3, 1.0]),
        disk=st.sampled_from([None, 1, 90]),
    )
    def hear(self, name: str, busy: float | None, disk: float | None) -> None:
        told = {
            device.id: DeviceTelemetry(utilization=busy, vram_used_gb=None, temperature_c=None)
            for device in self.nodes[name].devices
            if device.kind is not DeviceKind.CPU
        }
        self.tell(
            inputs.Telemetry(
                node=name,
                at=self.driver.now,
                load=None,
                memory_total_gb=None,
                memory_free_gb=None,
                disk_total_gb=None if disk is None else 100.0,
                disk_free_gb=disk,
                backlog_s=None,
                devices=told,
            )
        )

    @rule(which=WHICH, end=st.sampled_from(ENDS), lasted=st.sampled_from([1.0, 100.0, 20_000.0]))
    def end(self, which: int, end: dict[str, Any], lasted: float) -> None:
        held = [*self.held("n"), *self.held("m")]
        if held:
            now = self.driver.now
            self.tell(ended(held[which % len(held)], started_at=now - lasted, ended_at=now, **end))

    @rule(which=WHICH)
    def start(self, which: int) -> None:
        held = [*self.held("n"), *self.held("m")]
        if held:
            self.tell(inputs.Started(attempt=held[which % len(held)], pid=1, pid_start=1))

    @rule(seconds=st.sampled_from([1.0, 20.0, 70.0, 400.0, 90_000.0]))
    def wait(self, seconds: float) -> None:
        self.driver.tell(inputs.Tick(), after_s=seconds)
        self.answer()

    @rule(which=WHICH)
    def cancel(self, which: int) -> None:
        if self.driver.state.jobs:
            name = list(self.driver.state.jobs)[which % len(self.driver.state.jobs)]
            self.tell(inputs.Cancel(job=name))

    @precondition(lambda self: self.driver.entries)
    @rule()
    def restart(self) -> None:
        core = replayed(self.driver.entries)
        assert facts(core.state) == facts(self.driver.state)
        assert facts(replayed([], snapshot(self.driver.state)).state) == facts(self.driver.state)
        self.driver.core = core
        self.tell(inputs.Begin(version="test", epoch=self.driver.state.epoch + 1))
        for name in self.nodes:
            self.tell(link_up(name, agent=self.agent(name), attempts=self.held(name)))

    def teardown(self) -> None:
        """Whatever happened: once all nodes are there and all processes end well, everything that fits is done."""
        self.tell(inputs.Configure(rules=Rules()))
        for name in self.nodes:
            self.nodes[name] = rig(name, 4)
            self.tell(inputs.NodeFound(node=self.nodes[name]))
            self.tell(link_up(name, agent=self.agent(name), attempts=self.held(name)))
        for _ in range(300):
            held = [*self.held("n"), *self.held("m")]
            if not held and all(job.state.final for job in self.driver.state.jobs.values()):
                break
            self.tell(*(ended(name) for name in held))
            self.driver.tell(inputs.Tick(), after_s=1000.0)
            self.answer()
        unfinished = {name: job.why for name, job in self.driver.state.jobs.items() if not job.state.final}
        assert not unfinished
        assert not self.driver.core.index.reserved

    def tell(self, *given: inputs.Input) -> None:
        self.driver.tell(*given)
        self.answer()

    def answer(self) -> None:
        """Nodes stop what they are asked to stop; the slow loop answers."""
        for _ in range(100):
            stops = [each for each in self.driver.commands if isinstance(each, commands.Stop)]
            asked = [each for each in self.driver.commands if isinstance(each, commands.Solve)]
            if not stops and not asked:
                return
            answers: list[inputs.Input] = [
                ended(each.attempt, exit_code=None, signal=15, reason="stopped", started_at=None) for each in stops
            ]
            plans = [programme.plan_without_solver(each.instance) for each in asked]
            answers += [inputs.Planned(plan=plan) for plan in plans if plan is not None]
            if not answers:
                return
            self.driver.tell(*answers)
        raise AssertionError("the core asks and asks")

    def held(self, node: str) -> list[str]:
        devices = (each for each in self.driver.state.devices.values() if each.spec.node == node)
        return list(dict.fromkeys(name for device in devices for name in device.attempts))

    def agent(self, name: str) -> str:
        return self.driver.state.nodes[name].agent or name


class TestMotley(MotleyMachine.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=8, stateful_step_count=30, suppress_health_check=list(HealthCheck))


@pytest.mark.long
class TestManyMotley(MotleyMachine.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(max_examples=300, stateful_step_count=30, suppress_health_check=list(HealthCheck))


def test_a_job_is_asked_to_go_from_devices_of_which_one_is_no_more() -> None:
    state = MotleyMachine()
    work, two = {"work": WorkKind.SCRIPT, "config": "a", "expected": {}, "priority": 0}, Resources(gpus=2)
    state.submit(checkpoints=True, count=2, need=two, **work)
    state.describe(count=1, ephemeral=False, limits=NodeLimits(), name="n")
    state.submit(checkpoints=False, count=1, need=Resources(), **work)
    state.start(which=0)
    state.configure(rules=RULES[2])
    assert state.driver.state.jobs["j1"].preempted == 1
    state.teardown()
