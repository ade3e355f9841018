"""`hostler up`: what is under way when it is told to leave at once."""

from __future__ import annotations

import asyncio

import pytest

from hostler.runtime.up import _unless

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
    async with asyncio.timeout(5):
        await _unless(leave, hangs())
    assert ended == [1]


async def test_what_goes_wrong_meanwhile_is_heard() -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await _unless(asyncio.Event(), fails())
