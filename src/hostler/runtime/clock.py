"""The one clock of a controller, passed to whoever needs time."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Protocol

from hostler.client.small_files import read_small


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
        self.ahead_s = 0.0
        """How far it is ahead of the machine's clock at the start."""

    def now(self) -> float:
        """The time."""
        return self._offset + self.ahead_s + time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def reach(self, at: float, kept: Path) -> float:
        """Be no earlier than `at`, the last entry of the journal; returns how far ahead of the machine's clock it is.

        A journal may have been written under a clock that was ahead. The core then continues from the newest entry by
        itself; here all other parts of the controller do so, and time passes while no controller runs, too: the file
        `kept` holds the lead. Raises `OSError`.
        """
        before = _kept(kept)
        self.ahead_s = max(self.ahead_s, before)
        self.ahead_s += max(0.0, at - self.now())
        if self.ahead_s - before > NOTED_S:
            kept.write_text(json.dumps({"ahead_s": self.ahead_s}) + "\n")
        return self.ahead_s


NOTED_S = 1.0
"""A lead by less passes within a start."""


def _kept(path: Path) -> float:
    """The lead that was kept; 0 where there is none, or no such number: then it follows from the journal again."""
    try:
        found = float(json.loads(read_small(path))["ahead_s"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return 0.0
    return found if 0.0 <= found < float("inf") else 0.0
