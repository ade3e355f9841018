"""Signs of life of the controller's parts: when each last did something, and how late the event loop is."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from hostler.runtime.clock import Clock

P = ParamSpec("P")
T = TypeVar("T")

LOOK_S = 0.5
KEPT = 120
"""Looks at the loop that are kept: those of a minute."""


class Vitals:
    """Notes what happens; asks nothing of anybody."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: dict[str, tuple[float, int]] = {}
        self._lags: deque[float] = deque(maxlen=KEPT)
        self.looked_at: float | None = None

    @property
    def last(self) -> Mapping[str, tuple[float, int]]:
        """By part: when it last did something, and how often it has."""
        return self._last

    @property
    def lag_s(self) -> float | None:
        """By how much the loop was late at worst within the last minute; `None`: not measured yet."""
        return max(self._lags, default=None)

    def beat(self, part: str) -> None:
        """A part has done something."""
        _, times = self._last.get(part, (0.0, 0))
        self._last[part] = (self._clock.now(), times + 1)

    def beside(self, part: str, call: Callable[P, T]) -> Callable[P, T]:
        """`call`, noted each time as something that the part has done."""

        def noted(*args: P.args, **kwargs: P.kwargs) -> T:
            self.beat(part)
            return call(*args, **kwargs)

        return noted

    async def watch(self) -> None:
        """Look, until cancelled, how late the loop wakes up who wants to be woken."""
        while True:
            began = self._clock.now()
            await self._clock.sleep(LOOK_S)
            self.looked_at = self._clock.now()
            self._lags.append(max(self.looked_at - began - LOOK_S, 0.0))
