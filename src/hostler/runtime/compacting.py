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
SHARE, MOST = 0.2, 0.8
"""Of the time a step is under way, usually, and at most: whoever writes waits for one."""
FASTER, LATE_S, JUDGED = 1.5, 60.0, 10
"""Every so many steps the share is changed by this factor, where what is due is later than that."""
TURN_S, TIMEOUT_S = 300.0, 600.0
SOON_S, AGAIN_S = 300.0, 3600.0
"""After that it is tried again where the store cannot be written, of which the writer tells at once, and where entries
cannot be compacted, which does not pass by itself."""


class Pace:
    """What share of the time steps may take: more while entries become due faster than they are packed, and less as
    soon as less would do. A backlog that becomes smaller, be it slowly, is no reason for haste.
    """

    def __init__(self) -> None:
        self.share = SHARE
        self._steps = 0
        self._began: tuple[float, float] | None = None

    def stepped(self, now: float, due_at: float) -> None:
        """A step has packed what was due at that time."""
        if self._began is None:
            self._began = now, due_at
        self._steps += 1
        if self._steps <= JUDGED:
            return
        took_s, packed_s = now - self._began[0], due_at - self._began[1]
        if now - due_at <= LATE_S or packed_s > took_s * FASTER**2:
            self.share = max(SHARE, self.share / FASTER)
        elif packed_s < took_s:
            self.share = min(MOST, self.share * FASTER)
        self._steps, self._began = 1, (now, due_at)

    def is_done(self) -> None:
        """Nothing more is due."""
        self.share, self._steps, self._began = SHARE, 0, None

    def rest_s(self, took_s: float) -> float:
        """How long to rest after a step that took so long."""
        return max(REST_S, took_s * (1 - self.share) / self.share)


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
        self._pace = Pace()

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
            await self._clock.sleep(self._pace.rest_s(monotonic() - step_at))

    async def _step(self) -> bool:
        try:
            made = await asyncio.to_thread(partial(self._journal.compact, self._rules, self._clock.now()))
        except StoreFenced:
            return False  # another leads by now, which the writer finds out and tells, too
        except (CorruptState, StoreError) as error:
            self._rests_until = self._clock.now() + (AGAIN_S if isinstance(error, CorruptState) else SOON_S)
            raise
        if made is None:
            self._pace.is_done()
            return False
        self._pace.stepped(self._clock.now(), made.last_at + self._rules.after_s)
        return True
