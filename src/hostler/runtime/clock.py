"""The one clock of a controller, passed to whoever needs time."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol


def monotonic() -> float:
    """Seconds that never go back, and go on while the machine sleeps: by these it is known who may still lead."""
    return time.clock_gettime(_EVER)


_EVER = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """Time that never goes back, in Unix seconds."""

    def now(self) -> float:
        """The time."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class SteadyClock:
    """Unix time at the start, and steady from then on: somebody who sets the machine's clock changes nothing here."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """The time."""
        return self._offset + time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
