"""How often an endpoint is asked, and when it is left alone. Clocks are passed in, as seconds that only grow."""

from __future__ import annotations

from math import ceil

from hostler.workloads.gameboy.advice.settings import Rests

KEEPS_S = 10.0
"""So long a call may be put off where one of many has less than one in that time."""


class Bucket:
    """So many calls a second; what was not used is saved up for a second, or for one call.

    `shares`: it is a small part of a budget. A call that was not made within `KEEPS_S` lapses then: did hundreds of
    workers save up one each, they would ask all at once some day.
    """

    def __init__(self, rate: float, *, filled: float = 0.0, shares: bool = False) -> None:
        self._rate = rate
        self._lapses = shares and rate * KEEPS_S < 1
        self._most = max(rate, 1.0)
        self._tokens = filled
        self._at: float | None = None

    def take(self, now: float) -> bool:
        """Whether there may be a call now; if so, it is counted."""
        if self._at is not None:
            self._tokens = self._kept(self._tokens + (now - self._at) * self._rate)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _kept(self, tokens: float) -> float:
        if not self._lapses:
            return min(tokens, self._most)
        return tokens - max(ceil(tokens - 1 - self._rate * KEEPS_S), 0)


class Breaker:
    """Leaves an endpoint alone that does not answer: closed, then open for a rest, then half open for one call.

    `spread`, 0 to 1, makes rests longer by up to a quarter: many workers do not all come back at once.
    """

    def __init__(self, rests: Rests, *, spread: float = 0.0) -> None:
        self._rests = rests
        self._stretch = 1 + spread / 4
        self._failures = 0
        self._rest_s = 0.0
        self._until: float | None = None
        """When the rest is over; `None`: it is closed."""
        self._trying = False

    @property
    def is_open(self) -> bool:
        """Open, or half open."""
        return self._until is not None

    def allows(self, now: float) -> bool:
        """Whether the endpoint may be asked."""
        return self._until is None or (now >= self._until and not self._trying)

    def asked(self) -> None:
        """It is asked."""
        self._trying = self.is_open

    def good(self) -> None:
        """It has answered as it should."""
        self._failures, self._rest_s, self._until, self._trying = 0, 0.0, None, False

    def bad(self, now: float, pause_s: float | None = None) -> None:
        """It has not; `pause_s`: it wants to be left alone for so long."""
        if self.is_open and not self._trying:
            return  # asked before it was opened: that is known
        self._failures += 1
        rest_s = min(pause_s or 0.0, self._rests.longest_s)
        if self._failures >= self._rests.after:
            self._rest_s = min(max(2 * self._rest_s, self._rests.first_s), self._rests.longest_s)
            rest_s = max(rest_s, self._rest_s)
        if rest_s > 0:
            self._until = now + rest_s * self._stretch
        self._trying = False
