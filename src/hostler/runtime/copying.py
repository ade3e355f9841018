"""Copies files between places, and reads them there, many one after the other; what was right is told together.

A fact for each file would cost more than copying it where files are small: each is written to disk, and wakes all who
follow artifacts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from hostler.model.artifacts import HUB
from hostler.model.errors import FilesError, LinkError
from hostler.model.inputs import CopiesTold
from hostler.runtime import places
from hostler.runtime.clock import Clock
from hostler.runtime.pacing import Stopped
from hostler.runtime.places import Places
from hostler.runtime.threads import Threads
from hostler.runtime.verdicts import Verdicts
from hostler.stores.base import ObjectName

TOLD_S = 1.0
"""What was found right is told at least so often, while more is copied."""
PARCEL_BYTES = 1 << 23
"""About so much goes to one who copies before it is looked again what is most urgent; a larger file goes alone."""
FILE_BYTES = 1 << 17
"""What opening, syncing and naming a file costs, as bytes that could be moved in that time."""


Result = TypeVar("Result")


class Move(NamedTuple):
    """A file that is to come from one place to another; from a place to itself: it is read there."""

    name: ObjectName
    bytes: int
    source: str
    target: str

    @property
    def other(self) -> str:
        """The place that is not the controller's own store, if there is one."""
        return self.source if self.target == HUB else self.target


def parcels(moves: Sequence[Move], count: int) -> list[list[Move]]:
    """Deal moves out to at most `count` who work side by side, the first of them first, until each has enough.

    What does not fit is left out: it is looked for again, and by then something else may be more urgent.
    """
    hands: list[list[Move]] = [[] for _ in range(min(count, len(moves)))]
    weights = [0] * len(hands)
    for move in moves:
        if not hands or min(weights) >= PARCEL_BYTES:
            break
        least = weights.index(min(weights))
        hands[least].append(move)
        weights[least] += move.bytes + FILE_BYTES
    return hands


class Copier:
    """Moves files. `root` is the folder of the controller's own store."""

    def __init__(self, located: Places, root: Path, clock: Clock, verdicts: Verdicts) -> None:
        self._located = located
        self._root = root
        self._clock = clock
        self._verdicts = verdicts
        self._threads = Threads("copies")

    async def move(self, moves: Sequence[Move]) -> None:
        """One after the other; the rest is left when a place of it does not answer, or has no room."""
        right = _Right(self._verdicts, self._clock)
        for each in moves:
            if not self._is_able(each):
                break
            if await self._moved(each):
                await right.add(each)
        await right.tell()

    async def read(self, name: ObjectName, place: str) -> bool | None:
        """As `Verdicts.done`, and that it is right is told."""
        right = await self._is_right(name, place)
        if right:
            await self._verdicts.say(CopiesTold(place=place, verified=(name.sha256,)))
        return right

    async def read_new(self, names: Sequence[ObjectName]) -> Sequence[ObjectName]:
        """Read in the controller's own store what nobody has read there yet. Returns what nothing follows of.

        One fact for all that is right; what may be wrong with any other is found out by reading it by itself.
        """
        right = await self.in_thread(HUB, partial(self._right_ones, names))
        if right:
            await self._verdicts.say(CopiesTold(place=HUB, verified=tuple(right)))
        puzzling = []
        for name in [each for each in names if each.sha256 not in right]:
            if self._clock.now() < self._located[HUB].away_until:
                break
            if await self.read(name, HUB) is None:
                puzzling.append(name)
        return puzzling

    async def in_thread(self, place: str, work: Callable[[], Result]) -> Result:
        """Do it in a thread of those of a place."""
        return await asyncio.get_running_loop().run_in_executor(self._threads.of(place), work)

    def close(self) -> None:
        """Begin nothing more; what hangs is not waited for."""
        self._threads.close()

    def _is_able(self, move: Move) -> bool:
        now, other = self._clock.now(), self._located[move.other]
        is_full = move.source != move.target and now < self._located[move.target].full_until
        return now >= other.away_until and not other.refused and not is_full

    async def _moved(self, move: Move) -> bool:
        if move.source == move.target:
            return bool(await self._is_right(move.name, move.source))
        store, pace = self._located[move.other].store, self._located[move.other].bandwidth.pace
        step = store.get if move.target == HUB else store.put
        work = partial(step, move.name, self._root / move.name.path, pace)
        if not await self._verdicts.done(move.source, move.other, move.name, work, self._threads.of(move.other)):
            return False
        return move.target != HUB or await self._has_come(move.name)

    async def _has_come(self, name: ObjectName) -> bool:
        """Who puts reads back what it has put; who gets has read it elsewhere only."""
        right = await self._is_right(name, HUB)
        if right is False:
            places.failed(self._located[HUB], FilesError(places.forgets(name)), self._clock.now())
        return bool(right)

    async def _is_right(self, name: ObjectName, place: str) -> bool | None:
        located = self._located[place]
        work = partial(located.store.check, name, located.bandwidth.pace)
        return await self._verdicts.done(place, place, name, work, self._threads.of(place))

    def _right_ones(self, names: Sequence[ObjectName]) -> dict[str, None]:
        """Those that are as they should be, in order, until the controller ends; waits."""
        hub, right = self._located[HUB], dict[str, None]()
        for name in names:
            try:
                hub.store.check(name, hub.bandwidth.pace)
            except Stopped:
                break
            except (LinkError, FilesError, OSError):
                continue  # what that means is told by whoever reads it by itself
            right[name.sha256] = None
        return right


class _Right:
    """What was found right, until it is told."""

    def __init__(self, verdicts: Verdicts, clock: Clock) -> None:
        self._verdicts = verdicts
        self._clock = clock
        self._told_at = clock.now()
        self._untold: dict[str, list[str]] = {}

    async def add(self, move: Move) -> None:
        """It is right in its target; told now, if it was some time ago that anything was."""
        self._untold.setdefault(move.target, []).append(move.name.sha256)
        if self._clock.now() - self._told_at >= TOLD_S:
            await self.tell()

    async def tell(self) -> None:
        """All that was not told yet."""
        untold, self._untold = self._untold, {}
        for place, names in untold.items():
            await self._verdicts.say(CopiesTold(place=place, verified=tuple(names)))
        self._told_at = self._clock.now()
