"""What a link gives to the pump: every input with its node, and faults of a node that closed it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from hostler.backends.base import Report
from hostler.backends.bounds import LimitBroken, NodeFault
from hostler.model.commands import AttemptOrder, Launch
from hostler.model.errors import NotFound
from hostler.model.inputs import Ended, Input, LinkDown, Reported, Trouble
from hostler.runtime.keptlogs import KeptLogs
from hostler.runtime.link import FAULT_REST_S, Link, Secrets
from hostler.runtime.pump import Pump
from tests.backends.fake import FakeNode
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.anyio


LAUNCH = Launch(
    node="fake",
    order=AttemptOrder(
        id="j1.1", queue="cpu0", argv=("true",), env={}, cwd=None, walltime_s=None, memory_bytes=None, grace_s=1.0,
        inputs=None,
    ),
)  # fmt: skip


class Inbox:
    """Stands for the pump."""

    def __init__(self) -> None:
        self.given: list[Input] = []
        self.has_end = asyncio.Event()

    def post(self, *inputs: Input, done: Callable[[Sequence[Any]], None] | None = None) -> None:
        self.given += inputs
        if any(isinstance(each, Reported) and isinstance(each.given, Ended) for each in inputs):
            self.has_end.set()
        if done is not None:
            done(())


class Clock:
    """A clock that only a sleep moves; a link sleeps `most` times, and then for ever."""

    def __init__(self, most: int = 1) -> None:
        self.slept: list[float] = []
        self.most = most

    def now(self) -> float:
        return 1000.0 + sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) >= self.most:
            await asyncio.Event().wait()
        await asyncio.sleep(0)


async def gather(_: Any) -> None:
    return None


async def observed(
    node: FakeNode, tmp_path: Path, clock: Clock, *commands: Any, secrets: Secrets | None = None
) -> list[Input]:
    """What a link gives until its clock stands still."""
    inbox = Inbox()
    link = Link("fake", node, cast(Pump, inbox), clock, KeptLogs(tmp_path / "logs"), gather, secrets=secrets)
    task = asyncio.create_task(link.run(1))
    link.give(commands)
    for _ in range(200):
        await asyncio.sleep(0)
    if secrets is not None:  # they are read in a thread
        async with asyncio.timeout(PATIENCE_S):
            await inbox.has_end.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return inbox.given


class Faulty(FakeNode):
    """A node whose link ends with an error of its own doing after its first report."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def observe(self, epoch: int) -> AsyncIterator[Report]:
        async for report in super().observe(epoch):
            yield report
            raise self.error


async def test_every_input_carries_the_node_that_reports_it(tmp_path: Path) -> None:
    given = await observed(FakeNode(), tmp_path, Clock(), LAUNCH)
    kinds = {type(each.given).__name__ for each in given if isinstance(each, Reported)}
    assert {"NodeFound", "LinkUp", "Launched", "Started", "Ended"} <= kinds
    assert [each for each in given if not isinstance(each, Reported) or each.node != "fake"] == []


@pytest.mark.parametrize("error", [LimitBroken("a line is too long"), NodeFault("nonsense"), RuntimeError("odd")])
async def test_fault_that_ends_a_link_is_recorded_with_its_node(tmp_path: Path, error: Exception) -> None:
    given = await observed(Faulty(error), tmp_path, Clock())
    told = [each.given for each in given if isinstance(each, Reported)]
    faults = [each for each in told if isinstance(each, Trouble)]
    assert [each.where for each in faults] == ["node fake"]
    assert str(error) in faults[0].what
    assert any(isinstance(each, LinkDown) for each in told)


async def test_node_that_breaks_limits_again_and_again_is_connected_to_ever_later(tmp_path: Path) -> None:
    clock = Clock(most=12)
    await observed(Faulty(LimitBroken("a line is too long")), tmp_path, clock)
    rests = [each for each in clock.slept if each in FAULT_REST_S]
    assert rests[:4] == list(FAULT_REST_S[:4])


async def test_ends_that_a_backend_returns_carry_the_node_too(tmp_path: Path) -> None:
    class Refusing(FakeNode):
        async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
            return [Ended(attempt=each.id, ended_at=0.0, reason="spawn", error="no") for each in orders]

    given = await observed(Refusing(), tmp_path, Clock(), LAUNCH)
    assert [each for each in given if isinstance(each, Reported) and isinstance(each.given, Ended)]
    assert all(isinstance(each, Reported) for each in given)


class Seen(FakeNode):
    """A node that keeps the orders it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.orders: list[AttemptOrder] = []

    async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        self.orders += orders
        return await super().launch(orders)


SECRET_LAUNCH = replace(LAUNCH, order=replace(LAUNCH.order, secrets={"HF_TOKEN": "hf"}))


async def test_values_of_secrets_are_read_for_the_launch_and_shown_by_no_representation(tmp_path: Path) -> None:
    node = Seen()
    given = await observed(
        node, tmp_path, Clock(), SECRET_LAUNCH, secrets=lambda names: dict.fromkeys(names, "planted-value")
    )
    (order,) = node.orders
    assert order.secret_values == {"HF_TOKEN": "planted-value"}
    assert "planted-value" not in repr((node.orders, given, SECRET_LAUNCH))


async def test_attempt_whose_secret_is_missing_ends_without_its_node(tmp_path: Path) -> None:
    def missing(names: Mapping[str, str]) -> dict[str, str]:
        raise NotFound(f"there is no secret {names['HF_TOKEN']}")

    node = Seen()
    given = await observed(node, tmp_path, Clock(), SECRET_LAUNCH, secrets=missing)
    ends = [each.given for each in given if isinstance(each, Reported) and isinstance(each.given, Ended)]
    assert [(each.attempt, each.reason, each.error) for each in ends] == [("j1.1", "secret", "there is no secret hf")]
    assert node.orders == []


class Slow(Inbox):
    """A pump whose journal writes nothing until it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[Sequence[Any]], None]] = []

    def post(self, *inputs: Input, done: Callable[[Sequence[Any]], None] | None = None) -> None:
        self.given += inputs
        if done is not None:
            self.waiting.append(done)


async def test_facts_are_acknowledged_after_they_are_durable_and_not_before(tmp_path: Path) -> None:
    inbox, node = Slow(), FakeNode()
    link = Link("fake", node, cast(Pump, inbox), Clock(), KeptLogs(tmp_path / "logs"), gather)
    task = asyncio.create_task(link.run(1))
    link.give([LAUNCH])
    for _ in range(50):
        await asyncio.sleep(0)
    assert inbox.waiting, "facts have come"
    assert node.acknowledged == 0
    for done in inbox.waiting:
        done(())
    for _ in range(50):
        await asyncio.sleep(0)
    assert node.acknowledged > 0
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
