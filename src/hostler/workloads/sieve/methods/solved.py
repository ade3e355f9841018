"""A finder that solves for all items the first time it is asked, and answers every interval from what it found."""

from bisect import bisect_left
from collections.abc import Callable, Iterable

from hostler.workloads.sieve.errors import TooManyHits

MOST = 4096
"""How many items one answer may carry."""
MOST_S = 30.0
"""CPU-seconds that it may take to solve: a worker does so while it is opened, for which it has two minutes on
whatever machine that is."""


class Solved:
    """Candidates of any interval, from ``solve()``, which gives the candidates among all items, in any order."""

    def __init__(self, solve: Callable[[], Iterable[int]]) -> None:
        self._solve = solve
        self._items: list[int] | None = None

    def find(self, start: int, stop: int) -> list[int]:
        """The candidates in ``[start, stop)``, ascending; raises :class:`TooManyHits` beyond :data:`MOST`."""
        if self._items is None:
            self._items = sorted(set(self._solve()))
        found = self._items[bisect_left(self._items, start) : bisect_left(self._items, stop)]
        if len(found) > MOST:
            raise TooManyHits(too_many(f"[{start}, {stop})"))
        return found


def too_many(where: str) -> str:
    """What to tell when ``where`` holds more candidates than an answer may carry."""
    return f"more than {MOST} items of {where} reproduce the draws; give more known draws"
