"""Orders that a real agent never got, or has forgotten, are settled by what it says when it is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from hostler.backends.base import Store
from hostler.backends.local import LocalNode
from hostler.core import confirming
from hostler.model.commands import AttemptOrder
from hostler.model.errors import LinkLost
from hostler.model.inputs import Cancel, Ended
from hostler.model.work import JobState
from hostler.runtime.statedir import StateDir
from tests.runtime.conftest import running, script, submit, until_state

pytestmark = pytest.mark.anyio


class Forgetful(LocalNode):
    """An agent that never hears of the first orders, as one does that forgot their ids; the link takes them."""

    deaf = 0

    async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        if self.deaf > 0:
            self.deaf -= 1
            return ()
        return await super().launch(orders)


@pytest.fixture
async def node(directory: StateDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Forgetful]:
    monkeypatch.setattr(confirming, "SILENT_S", 0.3)
    store = Store(results=tmp_path / "results", artifacts=tmp_path / "artifacts")
    made = Forgetful("here", tmp_path / "here", controller="c", store=store, cpu_slots=1, gpus=False)
    yield made
    channel = await made.connect(99)
    await channel.send({"type": "shutdown", "when": "now"})
    with suppress(LinkLost):  # it hangs up as it ends
        async for _ in channel.messages():
            continue
    channel.close()


async def test_launch_that_the_agent_does_not_know_is_begun_again_under_another_number(
    directory: StateDir, node: Forgetful
) -> None:
    node.deaf = 1
    async with running(directory, node) as controller:
        await submit(controller, script("a"))
        await until_state(controller, "a", JobState.DONE)
        await controller.ended(until_idle=True)
    assert (node.deaf, controller.job("a").job.attempts) == (0, 2)


async def test_cancel_of_what_the_agent_does_not_know_is_settled(directory: StateDir, node: Forgetful) -> None:
    node.deaf = 1
    async with running(directory, node) as controller:
        await submit(controller, script("a", "sleep", "3600", grace_s=0.1))
        await until_state(controller, "a", JobState.LAUNCHING)
        await controller.tell(Cancel(job="j1", reason="not wanted"))
        await until_state(controller, "a", JobState.CANCELLED)
        await controller.ended(until_idle=True)


async def test_attempt_that_runs_stays_however_often_it_is_asked_for(directory: StateDir, node: Forgetful) -> None:
    async with running(directory, node) as controller:
        await submit(controller, script("a", "sleep", "1.5"), script("b"))
        await until_state(controller, "b", JobState.DONE)
        assert controller.job("a").job.attempts == controller.job("b").job.attempts == 1
        await controller.ended(until_idle=True)
