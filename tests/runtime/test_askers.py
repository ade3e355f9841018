"""Clients that wait for the end of a job get it before a drained controller leaves."""

from __future__ import annotations

import asyncio

import pytest

from hostler.model.inputs import Ended
from hostler.model.work import JobState
from hostler.runtime.askers import LINGER_MOST_S, LINGER_S, RECENT_S, Askers
from hostler.runtime.statedir import StateDir
from tests.backends.fake import FakeNode
from tests.patience import PATIENCE_S
from tests.runtime.conftest import running, script, submit, until_state

pytestmark = pytest.mark.anyio


class Clock:
    """A clock that moves by sleeping alone."""

    def __init__(self) -> None:
        self.at = 1000.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.mark.parametrize(
    ("asked_s", "ended_s", "lingered_s"),
    [
        (0.4, 0.1, LINGER_S - 0.1),
        (0.4, None, 0.0),
        (0.4, LINGER_S + 1, 0.0),
        (RECENT_S + 1, 0.1, 0.0),
    ],
)
async def test_end_of_a_job_that_was_asked_for_stays_to_be_asked_for(
    asked_s: float, ended_s: float | None, lingered_s: float
) -> None:
    clock = Clock()
    askers = Askers(clock)
    askers.shown("j1")
    clock.at += asked_s
    now = clock.at
    await askers.answered(lambda name: None if ended_s is None else now - ended_s)
    assert clock.at - now == pytest.approx(lingered_s, abs=1e-3)


async def test_ends_of_many_jobs_stay_longer_and_not_for_ever() -> None:
    clock = Clock()
    askers = Askers(clock)
    for number in range(50_000):
        askers.shown(f"j{number}")
    await askers.answered(lambda name: 1000.0)
    assert clock.at == 1000.0 + LINGER_MOST_S


async def test_end_that_nobody_asked_for_is_not_waited_for() -> None:
    clock = Clock()
    await Askers(clock).answered(lambda name: clock.at)
    assert clock.at == 1000.0


@pytest.mark.parametrize("by", ["name", "id"])
async def test_drained_controller_stays_until_the_end_can_have_been_asked_for(directory: StateDir, by: str) -> None:
    node = FakeNode(slots=1, behave=lambda order: None)
    async with running(directory, node) as controller:
        (name,) = await submit(controller, script("a"))
        await until_state(controller, name, JobState.RUNNING)
        clock = Clock()
        clock.at = controller._clock.now()
        controller._askers = Askers(clock)
        before = clock.at
        await (controller.named([name]) if by == "name" else controller.having(name))
        controller.drain()
        node.finish(Ended(attempt=f"{name}.1", started_at=1.0, ended_at=2.0, exit_code=0))
        async with asyncio.timeout(PATIENCE_S):
            await controller.ended(until_idle=False)
        await controller.answered()
        assert clock.at - before == pytest.approx(LINGER_S, abs=0.1)
