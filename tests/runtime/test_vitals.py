"""Signs of life: what parts last did, how late the loop was, and what a real controller says of itself."""

from __future__ import annotations

import asyncio

import pytest

from hostler.model.work import JobState
from hostler.runtime.statedir import StateDir
from hostler.runtime.vitals import KEPT, LOOK_S, Vitals
from tests.backends.fake import FakeNode
from tests.runtime.conftest import running, script, submit, until, until_state

pytestmark = pytest.mark.anyio


class Late:
    """A clock whose sleeps last longer than asked for, by what is left in `by`."""

    def __init__(self, *by: float) -> None:
        self.time = 100.0
        self._by = list(by)

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        if not self._by:
            await asyncio.Event().wait()
        self.time += seconds + self._by.pop(0)


async def watched(*by: float) -> Vitals:
    """Vitals after so many looks."""
    vitals = Vitals(Late(*by))
    task = asyncio.create_task(vitals.watch())
    await until(lambda: vitals.looked_at == pytest.approx(100.0 + len(by) * LOOK_S + sum(by)), "the last look")
    task.cancel()
    return vitals


async def test_the_worst_lag_of_the_last_minute_is_kept() -> None:
    assert Vitals(Late()).lag_s is None
    assert (await watched(0.25, 2.0, 0.0)).lag_s == pytest.approx(2.0)
    assert (await watched(2.0, *[0.125] * KEPT)).lag_s == pytest.approx(0.125)


def test_what_is_done_beside_a_part_is_noted_and_done() -> None:
    clock = Late()
    vitals = Vitals(clock)
    add = vitals.beside("adder", lambda one, two: one + two)
    assert "adder" not in vitals.last
    assert (add(1, 2), add(3, two=4)) == (3, 7)
    clock.time = 105.0
    vitals.beat("adder")
    assert vitals.last["adder"] == (105.0, 3)


async def test_a_controller_tells_what_its_parts_did_and_what_came_of_it(directory: StateDir) -> None:
    node = FakeNode()
    async with running(directory, node) as controller:
        (name,) = await submit(controller, script("a"))
        await until_state(controller, name, JobState.DONE)
        await until(lambda: controller.readings().loop.lag_s is not None, "a look at the loop")
        parts = {part.name: part for part in controller.parts()}
        gist, readings = controller.gist(), controller.readings()
    assert {"journal", "commands", "ratings", "plans", "snapshots", "event loop"} <= parts.keys()
    assert parts["journal"].times
    assert parts["commands"].times
    assert (parts["ratings"].last_at, parts["ratings"].times) == (None, 0)
    assert parts[f"node {node.name}"].fault is None
    done = next(work for work in gist.works if work.jobs[JobState.DONE])
    assert done.attempts["done"] == 1
    assert readings.loop.readers == readings.loop.readers_lost == 0
    assert [each.name for each in readings.nodes] == [node.name]


async def test_a_node_that_left_the_fleet_is_read_no_more(directory: StateDir) -> None:
    async with running(directory, FakeNode()) as controller:
        (name,) = await submit(controller, script("a"))
        await until_state(controller, name, JobState.DONE)
    async with running(directory) as controller:
        assert controller.nodes()
        readings, gist = controller.readings(), controller.gist()
        assert (readings.nodes, readings.devices, gist.nodes, gist.devices) == ((), (), 0, 0)
        assert next(work for work in gist.works if work.attempts).attempts["done"] == 1
