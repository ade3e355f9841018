"""What a watcher has seen of a number since it began, and that as a line of bars."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import pairwise

BARS = "▁▂▃▄▅▆▇█"
GAP = "·"
"""Where nothing is known."""
KEPT_S = 3600.0
LEAST_BAR_S = 2.0
"""A bar stands for that much time at least."""


class Seen:
    """Samples of a number of the last hour. `counts` tells that it only grows, and its slope is what matters."""

    def __init__(self, *, counts: bool) -> None:
        self._counts = counts
        self._samples: deque[tuple[float, float | None]] = deque()

    @property
    def since(self) -> float | None:
        """When the oldest sample was taken."""
        return self._samples[0][0] if self._samples else None

    def add(self, at: float, value: float | None) -> None:
        """A sample taken at `at` (Unix seconds); older ones than `KEPT_S` go."""
        if self._samples and at <= self._samples[-1][0]:
            return
        self._samples.append((at, value))
        while self._samples[0][0] < at - KEPT_S:
            self._samples.popleft()

    def per_s(self) -> float | None:
        """Mean of what was seen, of a count its slope; `None` before anything can be told."""
        if len(self._samples) < 2:
            return None
        return self._mean(self._samples[0][0], self._samples[-1][0])

    def bars(self, count: int) -> list[float | None]:
        """The time since the first sample in so many parts, each by its mean; `None` where nothing was seen."""
        if len(self._samples) < 2:
            return [None] * count
        end = self._samples[-1][0]
        part_s = max((end - self._samples[0][0]) / count, LEAST_BAR_S)
        begin = end - part_s * count
        return [self._mean(begin + n * part_s, begin + (n + 1) * part_s) for n in range(count)]

    def _mean(self, begin: float, end: float) -> float | None:
        """Weighted by time; between two samples a count grows evenly, and another number is as it was before."""
        total = known_s = 0.0
        for (at, value), (then, later) in pairwise(self._samples):
            overlap_s = min(then, end) - max(at, begin)
            if overlap_s <= 0 or value is None or (self._counts and later is None):
                continue
            # What was counted may be taken back, as when a failed job is tried again; that is no negative speed.
            rate = max((later or 0.0) - value, 0.0) / (then - at) if self._counts else value
            total, known_s = total + rate * overlap_s, known_s + overlap_s
        return total / known_s if known_s else None


def sparkline(values: Sequence[float | None]) -> str:
    """A bar for each value, in proportion to the largest; `GAP` where it is not known."""
    most = max((value for value in values if value is not None), default=0.0)
    return "".join(GAP if value is None else _bar(value, most) for value in values)


def _bar(value: float, most: float) -> str:
    return BARS[min(int(value / most * len(BARS)), len(BARS) - 1)] if most > 0 else BARS[0]
