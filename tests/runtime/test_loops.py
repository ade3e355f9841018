from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from hostler.runtime.clock import SteadyClock
from hostler.runtime.loops import every
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.anyio


class Clock:
    """Sleeps take no time; after `turns` of them the loop is ended."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.slept: list[float] = []

    def now(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if len(self.slept) == self.turns:
            raise asyncio.CancelledError


async def run(work, clock: Clock, timeout_s: float = PATIENCE_S) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
    failures: list[tuple[str, str]] = []
    with suppress(asyncio.CancelledError):
        await every(7.0, "it", work, clock=clock, timeout_s=timeout_s, on_failure=lambda *told: failures.append(told))
    return failures


async def test_every_turn_comes_and_rests() -> None:
    turns: list[int] = []

    async def work() -> None:
        turns.append(1)

    clock = Clock(3)
    assert await run(work, clock) == []
    assert len(turns) == 3
    assert clock.slept == [7.0, 7.0, 7.0]


async def test_a_failure_is_recorded_and_the_loop_goes_on() -> None:
    turns: list[int] = []

    async def work() -> None:
        turns.append(1)
        if len(turns) == 1:
            raise ValueError("first time")

    assert await run(work, Clock(2)) == [("it", "ValueError: first time")]
    assert len(turns) == 2


async def test_a_turn_that_hangs_is_ended_and_recorded() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    failures = await run(work, Clock(1), timeout_s=0.01)
    assert failures == [("it", "a turn took longer than 0.01 s and was ended")]


async def test_it_ends_though_a_turn_ends_in_the_moment_in_which_it_is_told_to() -> None:
    """Found in CI: a controller that was done never ended."""

    async def work() -> None:
        asyncio.get_running_loop().call_soon(loop.cancel)

    def failed(*told: str) -> None:
        pytest.fail(f"it failed: {told}")

    loop = asyncio.create_task(every(0.0, "it", work, clock=SteadyClock(), timeout_s=PATIENCE_S, on_failure=failed))
    done, _ = await asyncio.wait({loop}, timeout=PATIENCE_S)
    assert done
    assert loop.cancelled()
