"""The search for damaged rows of the journal that no start reads, since a snapshot covers them: once after a start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hostler.model.errors import StoreError
from hostler.runtime.clock import Clock, monotonic
from hostler.store import Journal
from hostler.store.checking import damaged

AGAIN_S = 60.0
"""After that it is tried again where the store cannot be read."""


class RowCheck:
    """Compares the checksums of all rows, half of the time, while the controller works."""

    def __init__(self, journal: Journal, clock: Clock, record: Callable[[str, str], None]) -> None:
        self._journal = journal
        self._clock = clock
        self._record = record
        self.trouble: str | None = None
        """The first damaged row, and what to do."""

    async def run(self) -> None:
        """Look once through all rows."""
        after: int | None = 0
        while after is not None and self.trouble is None:
            began = monotonic()
            try:
                fault, after = await asyncio.to_thread(self._journal.check, after)
            except StoreError:
                await self._clock.sleep(AGAIN_S)  # the writer reports it, where it lasts
                continue
            if fault is not None:
                self.trouble = str(damaged(fault.seq, fault.what))
                self._record("journal", self.trouble)
            await self._clock.sleep(monotonic() - began)
