"""A database that has lost what it had confirmed: nodes may know of what was in there, so no number of that is given
again. The journal goes on as one that was restored from a backup does (`core.restoring`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hostler.core import Core
from hostler.model.errors import StoreError
from hostler.model.inputs import Restored
from hostler.runtime.clock import Clock
from hostler.runtime.loops import every
from hostler.store import Journal

JOBS, PARTS = 1_000_000, 1_000_000
"""Numbers of jobs, and of attempts of any of them or chunks of any sweep, that may have been given in what is lost."""
LOOK_S = 5.0
TIMEOUT_S = 120.0


def left_out(core: Core, now: float) -> Restored:
    """What the core is told where entries are lost."""
    return Restored(made_at=now if core.last is None else core.last.at, jobs=JOBS, parts=PARTS)


class Losses:
    """Looks whether somebody has found, and noted, that entries are lost, while this controller leads.

    `is_told`: the core knows already, and only the note is left.
    """

    def __init__(
        self, journal: Journal, core: Core, clock: Clock, tell: Callable[..., Awaitable[Any]], *, is_told: bool
    ) -> None:
        self._journal = journal
        self._core = core
        self._clock = clock
        self._tell = tell
        self._is_told = is_told

    async def run(self, on_failure: Callable[[str, str], None]) -> None:
        """Go on until cancelled."""
        clock, told = self._clock, on_failure
        await every(LOOK_S, "lost entries", self.look, clock=clock, timeout_s=TIMEOUT_S, on_failure=told)

    async def look(self) -> None:
        """Once. Raises `StoreError` where it cannot be noted that this is done."""
        try:
            leader = await asyncio.to_thread(self._journal.leader)
        except StoreError:
            return  # who renews the lead finds that out within a second, and tells
        if not leader.lost:
            self._is_told = False  # what is noted from here on is another loss
            return
        if not self._is_told:
            await self._tell(left_out(self._core, self._clock.now()), patient=True)
            self._is_told = True
        await asyncio.to_thread(self._journal.left_out)
        self._is_told = False
