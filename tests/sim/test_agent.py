"""The virtual agent keeps the promises of docs/reference/agent-protocol.md that the core relies on."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from hostler.model.commands import (
    AttemptOrder,
    CanaryOrder,
    ChunkOrder,
    CloseWorker,
    Launch,
    Lend,
    Prove,
    Recall,
    Stop,
    Trim,
    WorkerOrder,
)
from hostler.model.inputs import DeviceProved, Ended, Input, Returned, Searched, Started
from hostler.model.work import DeviceKind
from hostler.sim.agenda import Agenda
from hostler.sim.agent import CHECKPOINT_S, WORKER_START_S, WRONG, Fact, VirtualAgent
from hostler.sim.ground import firm_ground
from hostler.sim.nature import Plain
from tests.core.builders import node

DIGEST = "1" * 64
SPEED = 100.0


class Bench:
    """An agent with one or two queues, and everything it told."""

    def __init__(self, devices: int = 1, wrong_digest: float = 0.0) -> None:
        self.agenda = Agenda()
        self.told: list[Input] = []
        self.ground = firm_ground(self.agenda, Plain(defaultdict(lambda: SPEED)))
        self.ground.wrong_digest = wrong_digest
        self.agent = VirtualAgent("a", node(devices=devices), self.ground, Random(1), self.hear)

    def hear(self, fact: Fact) -> None:
        self.told.append(fact.told)

    def launch(self, name: str, seconds: float = 1.0, fails: float = 0.0, walltime_s: float | None = None) -> None:
        order = AttemptOrder(
            id=name,
            queue="cpu0",
            argv=("virtual", repr(seconds), repr(fails)),
            env={},
            cwd=None,
            walltime_s=walltime_s,
            memory_bytes=None,
            grace_s=1.0,
            inputs=None,
        )
        self.agent.obey(Launch(node="n", order=order))

    def lend(self, name: str, start: int, stop: int, *planted: int) -> None:
        worker = WorkerOrder(
            id="w-j7-cpu0",
            queue="cpu0",
            argv=("virtual",),
            env={},
            digest=DIGEST,
            params={"planted": list(planted)},
            silence_s=30.0,
            start_s=60.0,
        )
        self.agent.obey(Lend(node="n", worker=worker, chunk=ChunkOrder(id=name, start=start, stop=stop)))

    def until(self, seconds: float) -> None:
        while self.agenda.step(seconds):
            pass
        self.agenda.now = seconds

    def ends(self) -> dict[str, Ended]:
        return {each.attempt: each for each in self.told if isinstance(each, Ended)}

    def returns(self) -> dict[str, Returned]:
        return {each.chunk: each for each in self.told if isinstance(each, Returned)}

    def results(self) -> dict[str, Searched]:
        return {each.chunk: each for each in self.told if isinstance(each, Searched)}


class TestAttempts:
    def test_one_after_the_other_in_a_queue(self) -> None:
        bench = Bench()
        bench.launch("j1.1", 2.0)
        bench.launch("j2.1", 3.0, fails=1.0)
        bench.until(10.0)
        assert [(end.ended_at, end.exit_code) for end in bench.ends().values()] == [(2.0, 0), (5.0, 1)]
        assert bench.agent.busy_s == {"cpu0": 5.0}

    def test_an_id_is_carried_out_once(self) -> None:
        bench = Bench()
        for _ in range(2):
            bench.launch("j1.1")
            bench.until(bench.agenda.now + 5.0)
        assert len(bench.told) == 2

    @pytest.mark.parametrize("began", [True, False])
    def test_stop(self, began: bool) -> None:
        bench = Bench()
        if not began:
            bench.launch("j0.1", 100.0)
        bench.launch("j1.1", 100.0)
        bench.agent.obey(Stop(node="n", attempt="j1.1", reason=""))
        bench.until(5.0)
        end = bench.ends()["j1.1"]
        assert (end.reason, end.signal) == ("stopped", 15 if began else None)

    def test_stop_of_what_it_does_not_have(self) -> None:
        bench = Bench()
        bench.agent.obey(Stop(node="n", attempt="j1.1", reason=""))
        assert bench.ends()["j1.1"].reason == "unknown"

    def test_wall_time(self) -> None:
        bench = Bench()
        bench.launch("j1.1", 100.0, walltime_s=3.0)
        bench.until(200.0)
        assert (bench.ends()["j1.1"].reason, bench.ends()["j1.1"].ended_at) == ("walltime", 3.0)


class TestChunks:
    def test_results_carry_digest_interval_and_hits(self) -> None:
        bench = Bench()
        bench.lend("j7.1", 0, 100, 5, 99, 100)
        bench.until(10.0)
        result = bench.results()["j7.1"]
        assert (result.digest, result.start, result.stop, result.elapsed_s) == (DIGEST, 0, 100, 1.0)
        assert [hit["at"] for hit in result.hits] == [5, 99]

    def test_attempts_go_before_the_next_chunk(self) -> None:
        bench = Bench()
        bench.lend("j7.1", 0, 100)
        bench.lend("j7.2", 100, 200)
        bench.launch("j1.1", 10.0)
        bench.until(5.0)
        assert list(bench.results()) == ["j7.1"]
        assert any(isinstance(each, Started) for each in bench.told)

    def test_a_killed_worker_gives_back_what_is_behind_its_last_checkpoint(self) -> None:
        bench = Bench()
        bench.lend("j7.1", 1000, 2000, 1001, 1500)
        bench.until(WORKER_START_S + 2.5 * CHECKPOINT_S)
        bench.agent.kill_worker()
        back = bench.returns()["j7.1"]
        assert (back.position, back.reason, back.digest) == (
            1000 + int(2 * CHECKPOINT_S * SPEED),
            "worker_died",
            DIGEST,
        )
        assert [hit["at"] for hit in back.hits] == [1001]

    def test_before_the_first_checkpoint_there_is_no_position(self) -> None:
        bench = Bench()
        bench.lend("j7.1", 0, 1000)
        bench.until(1.0)
        bench.agent.kill_worker()
        assert (bench.returns()["j7.1"].position, bench.returns()["j7.1"].digest) == (None, None)

    def test_recall(self) -> None:
        bench = Bench()
        bench.lend("j7.1", 0, 1000)
        bench.lend("j7.2", 1000, 2000)
        for name in ("j7.2", "j7.1", "j7.9"):
            bench.agent.obey(Recall(node="n", chunk=name, reason=""))
        assert list(bench.returns()) == ["j7.2", "j7.1", "j7.9"]
        bench.until(50.0)
        assert bench.results() == {}

    def test_a_chunk_that_is_shortened_ends_earlier(self) -> None:
        bench = Bench()
        bench.lend("j7.1", 0, 10_000)
        bench.lend("j7.2", 10_000, 20_000)
        bench.until(1.0)
        for name, stop in (("j7.1", 500), ("j7.2", 10_010), ("j7.2", 10_500), ("j7.9", 5)):
            bench.agent.obey(Trim(node="n", chunk=name, stop=stop))
        bench.until(1000.0)
        told = [(each.start, each.stop) for each in bench.told if isinstance(each, Searched)]
        assert told == [(0, 500), (10_000, 10_010)]

    def test_a_worker_is_warm_until_it_is_closed(self) -> None:
        bench = Bench()
        bench.lend("j7.1", 0, 1)
        bench.until(5.0)
        assert bench.agent.workers() == {"w-j7-cpu0"}
        bench.agent.obey(CloseWorker(node="n", worker="w-j7-cpu0"))
        assert bench.agent.workers() == frozenset()

    def test_wrong_digests(self) -> None:
        bench = Bench(wrong_digest=1.0)
        bench.lend("j7.1", 0, 1, 0)
        bench.until(5.0)
        assert (bench.results()["j7.1"].digest, bench.results()["j7.1"].hits) == (WRONG, ())


class TestSurvival:
    def test_facts_and_inventory_stay_until_acknowledged(self) -> None:
        bench = Bench()
        bench.launch("j1.1")
        bench.lend("j7.1", 0, 1)
        bench.until(10.0)
        assert (bench.agent.hello().attempts, bench.agent.hello().chunks) == (("j1.1",), ("j7.1",))
        assert [fact.seq for fact in bench.agent.facts] == [1, 2, 3]
        bench.agent.acknowledge(2)
        assert (bench.agent.hello().attempts, bench.agent.hello().chunks) == ((), ("j7.1",))
        bench.agent.acknowledge(3)
        assert (bench.agent.facts, bench.agent.hello().chunks) == ([], ())

    def test_a_restarted_agent_adopts_attempts_and_gives_chunks_back(self) -> None:
        bench = Bench(devices=2)
        bench.launch("j1.1", 10.0)
        bench.lend("j7.1", 0, 1000)
        bench.agent.restart()
        bench.until(20.0)
        assert bench.returns()["j7.1"].reason == "agent_restarted"
        assert bench.ends()["j1.1"].ended_at == 10.0
        assert (bench.agent.hello().agent, bench.agent.hello().incarnation) == ("a", 2)

    def test_a_reboot_ends_what_ran_and_keeps_what_waited(self) -> None:
        bench = Bench()
        bench.launch("j1.1", 10.0)
        bench.launch("j2.1", 10.0)
        bench.until(5.0)
        bench.agent.reboot()
        bench.until(50.0)
        assert (bench.ends()["j1.1"].reason, bench.ends()["j2.1"].exit_code) == ("lost", 0)
        assert bench.agent.hello().boot == "2"

    def test_a_lost_agent_says_nothing_more(self) -> None:
        bench = Bench()
        bench.launch("j1.1", 10.0)
        bench.agent.vanish()
        bench.until(50.0)
        assert bench.ends() == {}


def test_a_canary_tells_a_bad_device_from_a_good_one() -> None:
    bench = Bench(devices=2)
    bench.ground.bad_devices = frozenset({"a/cpu1"})
    for queue in ("cpu0", "cpu1"):
        order = CanaryOrder(device=f"a/{queue}", kind=DeviceKind.CPU, queue=queue, argv=(), env={})
        bench.agent.obey(Prove(node="a", order=order))
    told = [(each.device, each.ok) for each in bench.told if isinstance(each, DeviceProved)]
    assert told == [("a/cpu0", True), ("a/cpu1", False)]
