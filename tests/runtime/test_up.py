"""`hostler up`: what is under way when it is told to leave at once."""

from __future__ import annotations

import asyncio
from io import StringIO

import pytest

from hostler.model.errors import StoreLost
from hostler.runtime.clock import SteadyClock
from hostler.runtime.up import _once_back, _unless
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.anyio


async def test_what_is_done_while_nobody_leaves_is_done() -> None:
    done = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append(1)

    await _unless(asyncio.Event(), work())
    assert done == [1]


async def test_who_leaves_at_once_waits_for_nothing() -> None:
    leave, ended = asyncio.Event(), []

    async def hangs() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(1)

    asyncio.get_running_loop().call_later(0.05, leave.set)
    async with asyncio.timeout(PATIENCE_S):
        await _unless(leave, hangs())
    assert ended == [1]


async def test_who_was_overtaken_waits_for_a_database_that_is_away() -> None:
    """It once ended: it was overtaken as the database was started anew, and then there was nobody to take over."""
    tries = []

    async def turn() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise StoreLost("the database does not answer")

    class Impatient(SteadyClock):
        async def sleep(self, seconds: float) -> None:
            await asyncio.sleep(0)

    out = StringIO()
    assert await _once_back(turn, Impatient(), out) is None
    assert len(tries) == 3
    assert out.getvalue() == "hostler: the database does not answer\n"


async def test_what_goes_wrong_meanwhile_is_heard() -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await _unless(asyncio.Event(), fails())
