"""Given what every pair is worth, who gets what?

The best pairs first; then whoever can make room by moving does so; then swaps, as long as the sum grows. Within one
priority: what a higher one has got stays as it is. A few milliseconds for hundreds of bidders, no solver.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple, TypeAlias

EPSILON = 1e-9
"""A gain must be larger than this, or rounding would swap two equals for ever."""

LOOKS_MAX = 5000
"""Pairs of classes that are looked at for a better plan, at most: some milliseconds, one round for 64 classes."""

Heap: TypeAlias = list[tuple[float, str]]
Pair: TypeAlias = tuple[float, str, str]
"""A wish and a class, and what they are worth to each other, negated: the best is the least."""


class Wish(NamedTuple):
    """Who wants devices, how many of one class at once, and what one device of each class that fits is worth."""

    name: str
    priority: int
    devices: int
    worth: Mapping[str, float]


def assign(wishes: Sequence[Wish], capacity: Mapping[str, int], repairs: int) -> dict[str, str]:
    """Name -> class, for those that get devices; at most so many `repairs` of the first draft.

    Deterministic: equals go by name. Nobody gets what a higher priority would take, and while there is one size only,
    as many of the highest priority are served as can be at all.
    """
    left = {cls: room for cls, room in capacity.items() if room > 0}
    placed: dict[str, str] = {}
    for priority in sorted({wish.priority for wish in wishes}, reverse=True):
        level = _Level([wish for wish in wishes if wish.priority == priority], left)
        level.fill()
        level.make_room()
        level.mend(repairs)
        placed.update(level.placed)
    return placed


class _Step(NamedTuple):
    """A change of the draft: everyone named goes to that class, or (`None`) waits."""

    gain: float
    moves: tuple[tuple[str, str | None], ...]


class _Level:
    """The draft of one priority; takes what it uses out of `left`."""

    def __init__(self, wishes: Sequence[Wish], left: dict[str, int]) -> None:
        self.wishes = {wish.name: wish for wish in wishes}
        self.left = left
        self.placed: dict[str, str] = {}

    def fill(self) -> None:
        """The best pair that still has room, again and again."""
        left, rankings = self.left, dict[str, list[Pair]]()
        best = [min(pairs) for wish in self.wishes.values() if (pairs := _pairs(wish, left))]
        heapify(best)
        while best:
            _, name, cls = heappop(best)
            wish = self.wishes[name]
            if left[cls] >= wish.devices:
                self.put(name, cls)
                continue
            # Most get what is best for them; whole rankings are made for the others alone.
            if name not in rankings:
                rankings[name] = sorted(_pairs(wish, left), reverse=True)
            if rankings[name]:
                heappush(best, rankings[name].pop())

    def make_room(self) -> None:
        """Serve more of those that take one device: others move on, to where they fit as well, nobody is evicted."""
        if not any(self.left.values()):
            return
        closed: set[str] = set()
        for wish in sorted(self._waiting(1), key=lambda wish: (-max(wish.worth.values(), default=0.0), wish.name)):
            if not any(self.left.values()):
                return
            if not closed.issuperset(wish.worth):
                closed |= self._chain(wish)

    def mend(self, steps: int) -> None:
        """Moves and swaps that gain something, at most so many for each size."""
        for devices in sorted({wish.devices for wish in self.wishes.values()}):
            bench = _Bench(self, devices)
            for _ in range(steps):
                step = bench.next()
                if step is None:
                    break
                bench.take(step)

    def _chain(self, wish: Wish) -> set[str]:
        """Move along the shortest chain of classes that ends where there is room; the classes seen if there is none."""
        came: dict[str, tuple[str, str] | None] = {cls: None for cls in wish.worth if cls in self.left}
        queue = deque(came)
        while queue:
            cls = queue.popleft()
            if self.left[cls] > 0:
                self._shift(wish.name, cls, came)
                return set()
            for name in [name for name, at in self.placed.items() if at == cls and self.wishes[name].devices == 1]:
                for onward in self.wishes[name].worth:
                    if onward not in came and onward in self.left:
                        came[onward] = (name, cls)
                        queue.append(onward)
        return set(came)

    def _shift(self, name: str, cls: str, came: Mapping[str, tuple[str, str] | None]) -> None:
        while (step := came[cls]) is not None:
            mover, before = step
            self.put(mover, cls)
            cls = before
        self.put(name, cls)

    def _waiting(self, devices: int) -> list[Wish]:
        return [wish for name, wish in self.wishes.items() if wish.devices == devices and name not in self.placed]

    def put(self, name: str, cls: str | None) -> None:
        """Give it devices of this class, or none, instead of those it has."""
        before = self.placed.pop(name, None)
        if before is not None:
            self.left[before] += self.wishes[name].devices
        if cls is not None:
            self.placed[name] = cls
            self.left[cls] -= self.wishes[name].devices


def _pairs(wish: Wish, left: Mapping[str, int]) -> list[Pair]:
    """The wish with each class that has room for it."""
    name, devices = wish.name, wish.devices
    return [(-worth, name, cls) for cls, worth in wish.worth.items() if left.get(cls, 0) >= devices]


class _Bench:
    """What could be gained by moving those of one size: for each two classes, the movers from one to the other.

    Heaps that are cleaned when looked at: who has left its class since is dropped then.
    """

    def __init__(self, level: _Level, devices: int) -> None:
        self.level = level
        self.devices = devices
        self.classes = sorted(level.left)
        self.looks = 0
        self.movers: defaultdict[str | None, dict[str, Heap]] = defaultdict(lambda: {cls: [] for cls in self.classes})
        """From a class, or from waiting, to a class."""
        self.weakest: defaultdict[str, Heap] = defaultdict(list)
        for name, wish in level.wishes.items():
            if wish.devices == devices:
                self._enter(name)
        for heap in (*(heap for heaps in self.movers.values() for heap in heaps.values()), *self.weakest.values()):
            heapify(heap)
        self.rest = self._pairs()

    def next(self) -> _Step | None:
        """The next step that gains something, in a round through all pairs of classes; `None` when there is none."""
        for _ in range(2):
            for one, other in self.rest:
                self.looks += 1
                if self.looks > LOOKS_MAX:
                    return None
                step = self._step(one, other)
                if step is not None:
                    return step
            self.rest = self._pairs()
        return None

    def take(self, step: _Step) -> None:
        """Change the draft, and enter those who moved where they are now."""
        for name, _ in step.moves:
            self.level.put(name, None)
        for name, cls in step.moves:
            self.level.put(name, cls)
        for name, _ in step.moves:
            self._enter(name, heappush)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        ones = (one for one in self.classes if one in self.movers)
        return ((one, other) for one in ones for other, heap in self.movers[one].items() if heap)

    def _step(self, one: str, other: str) -> _Step | None:
        """What gains most: one moves on; two swap; one moves on, the weakest there waits, a waiting one comes in."""
        mover = self._first((one, other))
        if mover is None:
            return None
        gain, name = -mover[0], mover[1]
        if self.level.left[other] >= self.devices:
            return _Step(gain, ((name, other),)) if gain > EPSILON else None
        back, waiting, weakest = self._first((other, one)), self._first((None, one)), self._weakest(other)
        swap = gain - back[0] if back is not None else 0.0
        turn = gain - weakest[0] - waiting[0] if weakest is not None and waiting is not None else 0.0
        if back is not None and swap >= turn and swap > EPSILON:
            return _Step(swap, ((name, other), (back[1], one)))
        if weakest is not None and waiting is not None and turn > EPSILON:
            return _Step(turn, ((name, other), (weakest[1], None), (waiting[1], one)))
        return None

    def _enter(self, name: str, add: Callable[[Heap, tuple[float, str]], None] = list.append) -> None:
        cls = self.level.placed.get(name)
        worth, movers = self.level.wishes[name].worth, self.movers[cls]
        here = 0.0
        if cls is not None:
            here = worth[cls]
            add(self.weakest[cls], (here, name))
        for other, there in worth.items():
            if other in movers and other != cls:
                add(movers[other], (here - there, name))

    def _first(self, way: tuple[str | None, str]) -> tuple[float, str] | None:
        """Who loses least (a negative loss is a gain) by going this way."""
        return self._valid(self.movers[way[0]][way[1]], way[0]) if way[0] in self.movers else None

    def _weakest(self, cls: str) -> tuple[float, str] | None:
        return self._valid(self.weakest[cls], cls) if cls in self.weakest else None

    def _valid(self, heap: Heap, cls: str | None) -> tuple[float, str] | None:
        placed = self.level.placed
        while heap and placed.get(heap[0][1]) != cls:
            heappop(heap)
        return heap[0] if heap else None
