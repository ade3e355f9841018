"""Virtual time: what is due when."""

from __future__ import annotations

import heapq
from collections.abc import Callable

Action = Callable[[], None]


class Agenda:
    """Actions in the order they are due; of those due together, the one entered first comes first."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, Action]] = []
        self._entered = 0

    def later(self, delay_s: float, action: Action) -> None:
        """Do `action` when `delay_s` seconds have passed."""
        self.at(self.now + delay_s, action)

    def at(self, moment: float, action: Action) -> None:
        """Do `action` at a time that is not over yet; two at the same one in order, as sums of delays need not be."""
        self._entered += 1
        heapq.heappush(self._due, (moment, self._entered, action))

    def step(self, until_s: float) -> bool:
        """Go on to the next action and do it; whether there was one no later than `until_s`."""
        if not self._due or self._due[0][0] > until_s:
            return False
        self.now, _, action = heapq.heappop(self._due)
        action()
        return True
