"""Searching an interval of seeds, slice by slice, on one thread or on many.

A slice is one kernel call, sized to take about :data:`SLICE_S`, so that whoever drives the search is never away longer.
"""

import math
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.judge import Survivor, judge
from hostler.workloads.sieve.methods.choosing import choose
from hostler.workloads.sieve.spec import Spec

SLICE_S = 0.25
FIRST_SLICE = 1 << 10
GROWTH = 8.0
MAX_HITS = 4096

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Slice:
    """A searched interval ``[start, stop)`` and the items in it that make the draws, ascending."""

    start: int
    stop: int
    survivors: list[Survivor]

    @property
    def items(self) -> list[int]:
        """The survivors' items."""
        return [survivor.item for survivor in self.survivors]


class Searcher:
    """Searches for one spec, one call at a time, by the method that is cheapest for all of its items.

    Making it compiles what the method needs, unless numba has it cached.
    """

    def __init__(self, spec: Spec, items: int | None = None) -> None:
        self._spec, self._without = spec, frozenset[str]()
        self.choice = choose(spec, spec.size if items is None else items)
        self._finder = self.choice.offer.make()

    def solve(self) -> None:
        """Have a method that finds all items at once do so now: every interval is answered from that afterwards."""
        if math.isinf(self.choice.offer.items_per_s):
            self._candidates(0, 0)

    def search(self, start: int, stop: int) -> Slice:
        """All survivors in ``[start, stop)``; raises :class:`TooManyHits` beyond :data:`MAX_HITS`."""
        candidates = self._candidates(start, stop)
        if len(candidates) > MAX_HITS:
            raise TooManyHits(too_many(start, stop))
        judged = (judge(self._spec, candidate) for candidate in candidates)
        return Slice(start, stop, [survivor for survivor in judged if survivor is not None])

    def _candidates(self, start: int, stop: int) -> list[int]:
        try:
            return self._finder.find(start, stop)
        except TooManyHits:
            if self.choice.offer.items_per_s < math.inf or stop - start >= self._spec.size:
                raise
        # A method that solves for all items at once fails where there are many, however few of them lie in an interval.
        self._without |= {self.choice.name}
        self.choice = choose(self._spec, stop - start, self._without)
        self._finder = self.choice.offer.make()
        return self._candidates(start, stop)


class Pace:
    """How many seeds to search next: grows or shrinks towards :data:`SLICE_S` a slice, by at most :data:`GROWTH`."""

    def __init__(self) -> None:
        self.size = FIRST_SLICE

    def took(self, seeds: int, seconds: float) -> None:
        """Learn from a slice of ``seeds`` that took ``seconds``; a last, shortened slice teaches nothing."""
        if seeds < self.size:
            return
        factor = SLICE_S / max(seconds, SLICE_S / GROWTH)
        self.size = max(1, int(self.size * max(factor, 1 / GROWTH)))


class Intervals:
    """An interval handed out from its start in pieces, to any number of threads."""

    def __init__(self, start: int, stop: int) -> None:
        self._position, self._stop = start, stop
        self._lock = threading.Lock()

    def take(self, size: int) -> tuple[int, int] | None:
        """The next piece of at most ``size`` seeds, or ``None`` when nothing is left."""
        with self._lock:
            start = self._position
            self._position = min(start + size, self._stop)
            return (start, self._position) if start < self._position else None

    def trim(self, stop: int) -> None:
        """Hand out nothing from ``stop`` on."""
        with self._lock:
            self._stop = max(self._position, min(self._stop, stop))

    @property
    def reached(self) -> int:
        """Up to where it has been handed out."""
        with self._lock:
            return self._position

    def close(self) -> None:
        """Hand out nothing more."""
        with self._lock:
            self._stop = self._position


def slices(searcher: Searcher, intervals: Intervals, clock: Clock) -> Iterator[Slice]:
    """Search what ``intervals`` hands out, one slice after another; ``clock`` counts seconds."""
    pace = Pace()
    while piece := intervals.take(pace.size):
        began = clock()
        yield (result := searcher.search(*piece))
        pace.took(result.stop - result.start, clock() - began)


def search_parallel(spec: Spec, start: int, stop: int, threads: int, clock: Clock) -> Iterator[Slice]:
    """Search ``[start, stop)`` on ``threads`` threads; slices come as they are done, in no order.

    Closing the iterator early, or an error in a thread, ends all threads after their current slice.
    """
    intervals = Intervals(start, stop)
    results: queue.SimpleQueue[Slice | BaseException | None] = queue.SimpleQueue()
    searchers = [Searcher(spec, stop - start) for _ in range(threads)]  # the first one compiles
    workers = [threading.Thread(target=_search_into, args=(results, each, intervals, clock)) for each in searchers]
    try:
        for worker in workers:
            worker.start()
        yield from _until_ended(results, threads)
    finally:
        intervals.close()
        for worker in workers:
            worker.join()


def too_many(start: int, stop: int) -> str:
    """What to tell when ``[start, stop)`` holds more survivors than can be reported."""
    return f"more than {MAX_HITS} seeds in [{start}, {stop}) reproduce the draws; give more known draws"


def _search_into(
    results: "queue.SimpleQueue[Slice | BaseException | None]", searcher: Searcher, intervals: Intervals, clock: Clock
) -> None:
    try:
        for result in slices(searcher, intervals, clock):
            results.put(result)
    except BaseException as error:  # noqa: BLE001  # raised again by the thread that reads the results
        results.put(error)
    else:
        results.put(None)


def _until_ended(results: "queue.SimpleQueue[Slice | BaseException | None]", threads: int) -> Iterator[Slice]:
    while threads:
        result = results.get()
        if isinstance(result, BaseException):
            raise result
        if result is None:
            threads -= 1
        else:
            yield result
