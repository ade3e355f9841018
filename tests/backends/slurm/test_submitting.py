"""What is gathered before it is submitted: arrays while earlier tasks wait in the queue, everything else at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hostler.backends import wire
from hostler.backends.outbox import Outbox
from hostler.backends.slurm.berths import Batch, Berth, Holdings
from hostler.backends.slurm.cluster import Cluster
from hostler.backends.slurm.submitting import GATHER_S, GLANCE_S, PATIENCE_S, Submitter, Wish
from hostler.backends.slurm.terms import Terms
from hostler.model.batch import Ask
from hostler.model.commands import AttemptOrder
from hostler.model.inputs import Requested
from hostler.model.pools import Mode, Span
from hostler.model.work import DeviceKind, WorkKind

ASK = Ask(work=WorkKind.SELFPLAY, kind=DeviceKind.CPU, devices=1)
TIME = Span(seconds=60.0, longest=False, saves=False)


class Clock:
    """Time passes where somebody sleeps, for all of them together."""

    def __init__(self) -> None:
        self.time = 0.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        woken = asyncio.Event()
        self._sleepers.append((self.time + seconds, woken))
        await woken.wait()

    async def pass_until(self, moment: float) -> None:
        while True:
            await asyncio.sleep(0)
            due = min((at for at, _ in self._sleepers), default=moment + 1)
            if due > moment:
                self.time = moment
                return
            self.time = due
            for each in [each for each in self._sleepers if each[0] <= due]:
                self._sleepers.remove(each)
                each[1].set()
            for _ in range(3):
                await asyncio.sleep(0)


class World:
    """A submitter, and what it has asked the journal to note: when, and for which slots."""

    def __init__(self) -> None:
        self.clock, self.holdings = Clock(), Holdings()
        self.asked: list[tuple[float, list[str]]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.array_max = 1000
        cluster = cast(Cluster, SimpleNamespace(clock=self.clock, array_max=self._most))
        terms = cast(Terms, SimpleNamespace(in_words=lambda *_: "a slot", time=lambda *_: TIME))
        outbox = cast(Outbox, SimpleNamespace(post=self._note))
        limits = wire.Limits(log_bytes=1, result_bytes=1)
        shared = self.holdings, terms, limits, self._start
        self.submitter = Submitter("n", "test", 1, cluster, outbox, *shared)

    def _note(self, *inputs: object, then: object = None) -> None:
        for each in inputs:
            assert isinstance(each, Requested)
            self.asked.append((self.clock.now(), [task.slot for task in each.tasks]))

    async def _most(self) -> int:
        return self.array_max

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    def ask_for(self, slot: str, mode: Mode = "array") -> None:
        order = AttemptOrder(
            id=f"{slot}.1",
            queue=slot,
            argv=("true",),
            env={},
            cwd=None,
            walltime_s=None,
            memory_bytes=None,
            grace_s=1.0,
            inputs=None,
        )
        self.submitter.ask_for(Wish(slot=slot, mode=mode, ask=ASK, attempt=order))

    def waiting(self) -> Berth:
        """A task that waits in the queue of the cluster."""
        berth = Berth(token="t", task=0, slot="cpu9")
        batch = Batch(token="t", mode="array", ask=ASK, wants="", time=TIME, berths=[berth], job="823")
        self.holdings.batches["t"] = batch
        return berth


async def test_what_comes_together_is_one_array_at_once_where_nothing_waits() -> None:
    world = World()
    world.ask_for("cpu0")
    await world.clock.pass_until(GATHER_S / 2)
    world.ask_for("cpu1")
    await world.clock.pass_until(60.0)
    assert world.asked == [(GATHER_S, ["cpu0", "cpu1"])]


async def test_an_array_has_no_more_tasks_than_the_cluster_allows() -> None:
    world = World()
    world.array_max = 2
    for at in range(5):
        world.ask_for(f"cpu{at}")
    await world.clock.pass_until(60.0)
    assert [slots for _, slots in world.asked] == [["cpu0", "cpu1"], ["cpu2", "cpu3"], ["cpu4"]]


async def test_while_a_task_waits_in_the_queue_more_are_gathered_until_it_has_begun() -> None:
    world = World()
    berth = world.waiting()
    world.ask_for("cpu0")
    await world.clock.pass_until(5.0)
    world.ask_for("cpu1")
    await world.clock.pass_until(7.0)
    assert world.asked == []
    berth.run = 0
    await world.clock.pass_until(60.0)
    ((at, slots),) = world.asked
    assert slots == ["cpu0", "cpu1"]
    assert 7.0 < at <= 7.0 + GLANCE_S


async def test_patience_ends() -> None:
    world = World()
    world.waiting()
    world.ask_for("cpu0")
    await world.clock.pass_until(60.0)
    ((at, _),) = world.asked
    assert GATHER_S + PATIENCE_S <= at <= GATHER_S + PATIENCE_S + GLANCE_S


@pytest.mark.parametrize("mode", ["job", "pilot"])
async def test_single_jobs_and_pilots_wait_for_nobody(mode: Mode) -> None:
    world = World()
    world.waiting()
    world.ask_for("cpu0")
    world.ask_for("cpu1", mode)
    await world.clock.pass_until(GATHER_S)
    assert world.asked == [(GATHER_S, ["cpu1"])]


async def test_what_is_not_wanted_any_more_is_not_gathered() -> None:
    world = World()
    world.waiting()
    world.ask_for("cpu0")
    world.ask_for("cpu1")
    await world.clock.pass_until(1.0)
    assert world.submitter.drop(["cpu0.1"], ()) == {"cpu0.1"}
    await world.clock.pass_until(60.0)
    assert [slots for _, slots in world.asked] == [["cpu1"]]


def test_secrets_are_in_the_first_words_of_a_task_alone() -> None:
    world = World()
    order = AttemptOrder(
        id="j1.1", queue="cpu0", argv=("true",), env={}, cwd=None, walltime_s=None, memory_bytes=None, grace_s=1.0,
        inputs=None, secrets={"HF_TOKEN": "hf"}, secret_values={"HF_TOKEN": "planted-value"},
    )  # fmt: skip
    berth = Berth(token="t", task=0, slot="cpu0", orders={order.id: order})
    batch = Batch(token="t", mode="array", ask=ASK, wants="", time=TIME, berths=[berth])
    submitter = cast(Any, world.submitter)
    submitter._cluster.desk = SimpleNamespace(hello={"root": "/shared"})
    submitter._terms.script = lambda *_, **__: "#!/bin/bash\n"
    files = submitter._files(batch, [Wish(slot="cpu0", mode="array", ask=ASK, attempt=order)])
    assert [name for name, text in files.items() if "planted-value" in text] == ["0/first.in"]
    assert "planted-value" not in repr((batch, berth, order))
