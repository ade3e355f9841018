"""Periodic work that cannot stop silently: each turn is bounded, each failure recorded, and the loop goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from hostler.model.codec import error_words
from hostler.runtime.clock import Clock


async def every(
    interval_s: float,
    name: str,
    work: Callable[[], Awaitable[None]],
    *,
    clock: Clock,
    timeout_s: float,
    on_failure: Callable[[str, str], None],
) -> None:
    """Do `work` every `interval_s` until cancelled.

    A turn that takes longer than `timeout_s`, or raises, is told to `on_failure(name, what)` and the next turn comes
    all the same: a loop that hangs or dies is how systems stop without anybody noticing.
    """
    while True:
        try:
            # Not `wait_for`: before Python 3.12 that forgets to be cancelled when the turn ends in the same moment.
            async with asyncio.timeout(timeout_s):
                await work()
        except TimeoutError:
            on_failure(name, f"a turn took longer than {timeout_s:g} s and was ended")
        except Exception as error:  # noqa: BLE001 - recorded, and the loop goes on
            on_failure(name, error_words(error))
        await clock.sleep(interval_s)
