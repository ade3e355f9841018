"""How often to look at files in which something may have been written: often after news, seldom in silence."""

from __future__ import annotations

import time

LINGER_S = 0.2
"""For so long after the last news the pauses stay short: an answer takes two looks, one on each side."""


class Pace:
    """The pauses between looks, in seconds: from the shortest one on they double up to the longest."""

    def __init__(self, shortest_s: float, longest_s: float) -> None:
        self._shortest_s = shortest_s
        self._longest_s = longest_s
        self._pause_s = shortest_s
        self._news_at = time.monotonic()

    @property
    def is_slow(self) -> bool:
        """Whether the pause of now is worth cutting short."""
        return self._pause_s > self._shortest_s

    def hurry(self) -> float:
        """There was news, or there will be. Returns the next pause."""
        self._news_at = time.monotonic()
        self._pause_s = self._shortest_s
        return self._pause_s

    def next(self, has_news: bool) -> float:
        """The pause after a look."""
        if has_news:
            return self.hurry()
        if time.monotonic() - self._news_at > LINGER_S:
            self._pause_s = min(2 * self._pause_s, self._longest_s)
        return self._pause_s
