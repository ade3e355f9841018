"""What trainings by reinforcement tell of themselves, for alerts and metrics: their output, read from time to time.

Of each that has devices what is new in its output is read, as for the pages; the training knows nothing of it. What
cannot be read is not told, and gets old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from hostler.model.inputs import RlTelemetry
from hostler.runtime.clock import Clock
from hostler.runtime.loops import every
from hostler.web.rl.figures import telemetry
from hostler.web.rl.trails import Trails

EVERY_S = 15.0
TURN_S = 120.0
"""How long a turn may take: a node that does not answer is waited for some seconds, for all at once."""

Learning: TypeAlias = Callable[[], Sequence[tuple[str, str]]]
Tell: TypeAlias = Callable[..., Awaitable[Sequence[Any]]]


class Hearing:
    """Listens to those that `learning` names, jobs with their attempts, and tells the core."""

    def __init__(
        self, trails: Trails, learning: Learning, tell: Tell, clock: Clock, record: Callable[[str, str], None]
    ) -> None:
        self._trails = trails
        self._learning = learning
        self._tell = tell
        self._clock = clock
        self._record = record
        self._told: dict[str, RlTelemetry] = {}
        """By job: what was told last."""

    async def run(self) -> None:
        """Until cancelled."""
        await every(EVERY_S, "trainings", self.listen, clock=self._clock, timeout_s=TURN_S, on_failure=self._record)

    async def listen(self) -> None:
        """Read what is new, and tell what has changed."""
        learning = self._learning()
        heard = await asyncio.gather(*(self._hear(job, attempt) for job, attempt in learning))
        now = {each.job: each for each in heard if each is not None}
        fresh = [each for job, each in now.items() if self._told.get(job) != each]
        self._told = now
        if fresh:
            await self._tell(*fresh)

    async def _hear(self, job: str, attempt: str) -> RlTelemetry | None:
        trail = await self._trails.look(attempt)
        return telemetry(job, attempt, trail.account)
