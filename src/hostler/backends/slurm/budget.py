"""How often Slurm is asked: its controller serves a whole cluster, and sites lock out who asks too much."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Protocol

WINDOW_S = 60.0
REST_S, REST_MAX_S = 5.0, 300.0
"""Rest after a first failure, doubled after each further one, and the longest."""


class Clock(Protocol):
    """As much as is needed of `hostler.runtime.clock.Clock`."""

    def now(self) -> float:
        """The time in seconds."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


class Budget:
    """Commands that only look may be so many in any minute, and rest after failures.

    Submissions and cancellations are counted, and wait for nothing: who has decided on them is not held up.
    """

    def __init__(self, clock: Clock, per_minute: int, chance: Callable[[], float]) -> None:
        """`chance` gives numbers in [0, 1): rests are spread from half to one and a half times their length."""
        if per_minute < 1:
            raise ValueError(f"a budget of {per_minute} calls per minute never lets anybody ask; give at least 1")
        self.counts: Counter[str] = Counter()
        """Commands that were run, by their names."""
        self._clock = clock
        self._per_minute = per_minute
        self._chance = chance
        self._made: deque[float] = deque()
        self._failures = 0
        self._rest_until = float("-inf")
        self._queue = asyncio.Lock()

    @property
    def failures(self) -> int:
        """How many commands have failed in a row."""
        return self._failures

    def wait_s(self) -> float:
        """How long the next look has to wait; 0: not at all."""
        now = self._clock.now()
        while self._made and self._made[0] + WINDOW_S <= now:  # in the same words as below: these are rounded
            self._made.popleft()
        full = len(self._made) >= self._per_minute
        until = max(self._rest_until, self._made[0] + WINDOW_S if full else now)
        return max(0.0, until - now)

    async def turn(self, command: str) -> None:
        """Wait until a command may look; those who wait go in the order they came."""
        async with self._queue:
            while (rest := self.wait_s()) > 0:
                await self._clock.sleep(rest)
            self._made.append(self._clock.now())
            self.count(command)

    def count(self, command: str) -> None:
        """Note a command that is run."""
        self.counts[command] += 1

    def succeeded(self) -> None:
        """Slurm has answered: the next failure is a first one."""
        self._failures = 0
        self._rest_until = float("-inf")

    def failed(self) -> None:
        """Slurm could not be asked: looks rest for a while."""
        length = min(REST_S * 2.0 ** min(self._failures, 30), REST_MAX_S)
        self._failures += 1
        self._rest_until = self._clock.now() + length * (0.5 + self._chance())
