"""The journal's old entries go into segments, a step at a time, while the controller works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from hostler.model.errors import CorruptState, StoreError, StoreFenced
from hostler.model.rules import CompactRules
from hostler.runtime.clock import Clock, monotonic
from hostler.runtime.loops import every
from hostler.store import Journal

LOOK_S = 30.0
"""How often it is looked whether anything may go."""
REST_S = 0.1
SHARE = 0.2
"""Of the time, at most, a step is under way: whoever writes waits for one."""
TURN_S, TIMEOUT_S = 300.0, 600.0
SOON_S, AGAIN_S = 300.0, 3600.0
"""After that it is tried again where the store cannot be written, of which the writer tells at once, and where entries
cannot be compacted, which does not pass by itself."""


class Compactor:
    """Does what `rules` say. Only the leader has one: each step goes through its fence."""

    def __init__(
        self,
        journal: Journal,
        rules: CompactRules,
        clock: Clock,
        on_failure: Callable[[str, str], None],
        beat: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._rules = rules
        self._clock = clock
        self._on_failure = on_failure
        self._beat = beat
        self._rests_until = 0.0

    async def run(self) -> None:
        """Go on until cancelled; what goes wrong is told."""
        turn, told = self.turn, self._on_failure
        await every(LOOK_S, "compaction", turn, clock=self._clock, timeout_s=TIMEOUT_S, on_failure=told)

    async def turn(self) -> None:
        """Take what may go, for a while. Raises `StoreError`, `CorruptState`."""
        began = monotonic()
        while self._clock.now() >= self._rests_until and monotonic() - began < TURN_S:
            step_at = monotonic()
            if not await self._step():
                return
            self._beat()
            await self._clock.sleep(max(REST_S, (monotonic() - step_at) * (1 - SHARE) / SHARE))

    async def _step(self) -> bool:
        try:
            made = await asyncio.to_thread(partial(self._journal.compact, self._rules, self._clock.now()))
        except StoreFenced:
            return False  # another leads by now, which the writer finds out and tells, too
        except (CorruptState, StoreError) as error:
            self._rests_until = self._clock.now() + (AGAIN_S if isinstance(error, CorruptState) else SOON_S)
            raise
        return made is not None
