"""What of the work survives the end of an attempt: as much as was saved, and no more."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from hostler.core.loop import results
from hostler.model.commands import AttemptOrder, Launch, Stop
from hostler.model.inputs import Ended
from hostler.model.learning import SelfplayResult
from hostler.model.work import DeviceKind
from hostler.sim.agenda import Agenda
from hostler.sim.agent import NO_SPACE, SAVE_S, Fact, VirtualAgent
from hostler.sim.ground import firm_ground
from hostler.sim.lab import Lab
from hostler.sim.nature import Habits, Rated
from hostler.sim.programs import Script, script_job
from hostler.sim.telemetry import told
from tests.core.builders import node

LAB = Lab({"random": 0.0}, known=True)
GAME = {"factory": "f", "params": {"board": "hex8", "players": 2}}
SELFPLAY = {"stage": "selfplay", "config": "c", "games": 100, "segment_games": 10, "seed": 1, "game": GAME}


class Node:
    """A node with two GPUs as fast as an A100, and what its agent told."""

    def __init__(self, **habits: Any) -> None:
        self.agenda = Agenda()
        power = {f"n/cuda{index}": 624.0 for index in range(2)}
        usual: dict[str, Any] = {"noise": 0.0, "small_share": 1.0, "start_s": 60.0}
        self.ground = firm_ground(self.agenda, Rated(power, 1.0, 0, Habits(**{**usual, **habits})), LAB)
        self.spec = node(devices=2, kind=DeviceKind.CUDA, vram_gb=80.0)
        self.told: list[Ended] = []
        self.agent = self.another()

    def another(self) -> VirtualAgent:
        def hear(fact: Fact) -> None:
            if isinstance(fact.told, Ended):
                self.told.append(fact.told)

        return VirtualAgent("a", self.spec, self.ground, Random(1), hear)

    def launch(self, name: str, payload: Any, queue: str = "cuda0", grace_s: float = 30.0) -> None:
        argv, inputs = ((), payload) if isinstance(payload, dict) else (payload, None)
        order = AttemptOrder(
            id=name,
            queue=queue,
            argv=argv,
            env={},
            cwd=None,
            walltime_s=None,
            memory_bytes=None,
            grace_s=grace_s,
            inputs=inputs,
        )
        self.agent.obey(Launch(node="n", order=order))

    def stop(self, name: str) -> None:
        self.agent.obey(Stop(node="n", attempt=name, reason="preempted"))

    def until(self, seconds: float) -> None:
        while self.agenda.step(seconds):
            pass
        self.agenda.now = seconds


def training(checkpoint_s: float | None) -> tuple[str, ...]:
    payload = script_job("t", Script(seconds=1000.0, power=624.0, checkpoint_s=checkpoint_s)).payload
    assert payload.kind == "script"
    return payload.argv


def test_a_preempted_training_saves_its_work_within_its_grace_and_goes_on_elsewhere() -> None:
    node = Node()
    node.launch("j1.1", training(900.0))
    node.until(560.0)
    node.stop("j1.1")
    node.until(600.0)
    (end,) = node.told
    assert (end.reason, end.ended_at) == ("stopped", 560.0 + SAVE_S)
    node.launch("j1.2", training(900.0), queue="cuda1")
    node.until(10_000.0)
    assert node.told[-1].ended_at == pytest.approx(600.0 + 60.0 + (1000.0 - 500.0 - SAVE_S))
    assert node.told[-1].exit_code == 0
    assert node.ground.kept == {}


def test_who_does_not_save_begins_anew() -> None:
    node = Node()
    node.launch("j1.1", training(None))
    node.until(560.0)
    node.stop("j1.1")
    node.until(600.0)
    node.launch("j1.2", training(None))
    node.until(10_000.0)
    assert node.told[-1].ended_at == pytest.approx(1660.0)


def test_a_vanished_node_leaves_the_last_checkpoint() -> None:
    node = Node()
    node.launch("j1.1", training(200.0))
    node.until(60.0 + 599.0)
    node.agent.vanish()
    assert node.ground.kept["j1"] == pytest.approx(400.0)
    node.agent = node.another()
    node.launch("j1.2", training(200.0))
    node.until(10_000.0)
    assert node.told[-1].ended_at == pytest.approx(659.0 + 60.0 + 600.0)


def test_stopped_selfplay_tells_what_it_had_closed_and_the_rest_later() -> None:
    node = Node()
    node.launch("j1.1", SELFPLAY)
    node.until(60.0 + 200.0)
    node.stop("j1.1")
    node.until(300.0)
    left = results.read("selfplay", node.told[-1].result)
    assert isinstance(left, SelfplayResult)
    assert left.games == 50
    node.launch("j1.2", SELFPLAY)
    node.until(10_000.0)
    assert node.told[-1].ended_at == pytest.approx(300.0 + 60.0 + 400.0 - 205.0)
    assert node.told[-1].result["games"] == 100
    assert node.told[-1].result["segments"][:5] == list(node.told[0].result["segments"])


def test_lanes_share_and_gangs_join_devices() -> None:
    node = Node(start_s=0.0)
    for queue in ("cuda0", "cuda0.1"):
        node.launch(f"{queue[-1]}.1", SELFPLAY, queue=queue)
    node.until(10_000.0)
    assert [end.ended_at for end in node.told] == pytest.approx([800.0, 800.0])
    node.launch("j9.1", SELFPLAY, queue="cuda0+cuda1")
    node.until(20_000.0)
    assert node.told[-1].ended_at == pytest.approx(10_200.0)
    assert dict(node.agent.busy_s) == pytest.approx(
        {"cuda0": 800.0, "cuda1": 0.0, "cuda0.1": 800.0, "cuda0+cuda1": 200.0}
    )


def test_a_full_disk_fails_what_ends_on_it() -> None:
    node = Node()
    node.launch("j1.1", SELFPLAY)
    node.agent.disk_full = True
    node.until(10_000.0)
    assert (node.told[-1].exit_code, node.told[-1].result) == (1, {"schema": 1, "error": NO_SPACE})


def test_telemetry_is_the_truth_or_a_lie() -> None:
    node = Node()
    node.launch("j1.1", SELFPLAY)
    node.until(100.0)
    true = told(node.spec, node.agent, node.ground, None, None)
    assert true.at == 100.0
    assert true.devices["n/cuda0"].utilization == pytest.approx(0.7)
    assert true.devices["n/cuda1"].utilization == 0.0
    node.agent.disk_full = True
    node.until(200.0)
    later = told(node.spec, node.agent, node.ground, None, true)
    assert (later.disk_free_gb or 0.0) < 1.0 < (true.disk_free_gb or 0.0)
    assert told(node.spec, node.agent, node.ground, "frozen", true) == true
    zero = told(node.spec, node.agent, node.ground, "zero", true)
    assert {zero.memory_total_gb, zero.disk_free_gb, zero.devices["n/cuda0"].utilization} == {0.0}
    absurd = told(node.spec, node.agent, node.ground, "absurd", true)
    assert (absurd.devices["n/cuda0"].utilization or 0.0) < 0
