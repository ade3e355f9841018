"""Clients that ask for jobs again and again: they get the end of one before a drained controller leaves."""

from __future__ import annotations

from collections.abc import Callable

from hostler.runtime.clock import Clock

RECENT_S = 30.0
"""A client that has not asked for so long waits no more."""
LINGER_S = 2.5
"""How long the end of a job stays to be asked for: `hostler wait` asks each second."""
PER_JOB_S = 0.001
"""The same for each further job that was asked for: of many jobs, clients ask less often."""
LINGER_MOST_S = 15.0
MOST = 100_000


class Askers:
    """The jobs and groups that had not ended when they were last asked for, with the time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[str, float] = {}

    def shown(self, name: str) -> None:
        """A job or group that has not ended was shown to a client."""
        now = self._clock.now()
        self._open.pop(name, None)
        self._open[name] = now
        while len(self._open) > MOST or self._open[next(iter(self._open))] < now - RECENT_S:
            del self._open[next(iter(self._open))]

    async def answered(self, ended_at: Callable[[str], float | None]) -> None:
        """Wait until ends of the last seconds can have been asked for; at once where no client waits for one."""
        now = self._clock.now()
        asked = [name for name, at in self._open.items() if at >= now - RECENT_S]
        ends = [at for at in map(ended_at, asked) if at is not None]
        linger_s = min(LINGER_S + PER_JOB_S * max(len(asked) - 1, 0), LINGER_MOST_S)
        left_s = max(ends, default=-linger_s) + linger_s - now
        if left_s > 0:
            await self._clock.sleep(min(left_s, linger_s))
