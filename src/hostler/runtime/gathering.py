"""What work needs lies in the controller's own store before it is sent: what only other places have is fetched."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from hostler.model.artifacts import HUB, SUFFIXES, Copy
from hostler.model.errors import FilesError, LinkLost
from hostler.model.inputs import CopiesTold
from hostler.model.record import record
from hostler.runtime import places
from hostler.runtime.clock import Clock
from hostler.runtime.places import Places
from hostler.runtime.threads import Threads
from hostler.runtime.verdicts import Verdicts
from hostler.snapshots.reserve import RESERVE
from hostler.store import Journal, catalogue
from hostler.stores.base import ObjectName


@record
class Lacking:
    """An artifact that is not in the controller's own store, and where else it should be."""

    name: ObjectName
    bytes: int
    elsewhere: tuple[str, ...]
    """Places, those first whose copies were read last."""


class Gatherer:
    """Brings artifacts into the controller's own store, the folder `root`."""

    def __init__(self, journal: Journal, located: Places, root: Path, clock: Clock, verdicts: Verdicts) -> None:
        self._journal = journal
        self._located = located
        self._root = root
        self._clock = clock
        self._verdicts = verdicts
        self._threads = Threads("gathers from")
        self._coming: dict[str, asyncio.Task[None]] = {}

    def close(self) -> None:
        """Begin nothing more."""
        self._threads.close()

    async def gather(self, names: Collection[str]) -> None:
        """Have these artifacts lie in the controller's own store; names of none that is known are passed over.

        Raises `FilesError` where one can be read nowhere any more, `LinkLost` where what has it does not answer now,
        and `OSError` where there is no room for them.
        """
        lacking = await asyncio.to_thread(self._lacking, sorted(names))
        if not lacking:
            return
        await asyncio.to_thread(self._expect_room, sum(each.bytes for each in lacking))
        found = await asyncio.gather(*map(self._joined, lacking), return_exceptions=True)
        faults = [each for each in found if each is not None]
        # What is lost for good is told before what may come yet.
        for fault in sorted(faults, key=lambda each: isinstance(each, LinkLost)):
            raise fault

    def _lacking(self, names: Sequence[str]) -> list[Lacking]:
        with self._journal.catalogue() as connection:
            known = catalogue.by_name(connection, names)
            objects = {name: ObjectName(name, SUFFIXES[each.kind]) for name, each in known.items()}
            absent = [name for name, each in objects.items() if not (self._root / each.path).is_file()]
            copies = catalogue.copies_of(connection, absent)
        return [
            Lacking(name=objects[each], bytes=known[each].bytes, elsewhere=_elsewhere(copies[each])) for each in absent
        ]

    def _expect_room(self, size: int) -> None:
        RESERVE.expect(self._root, size)

    async def _joined(self, lacking: Lacking) -> None:
        """What two need is fetched once, and goes on though one of them needs it no more."""
        name = lacking.name.sha256
        task = self._coming.get(name)
        if task is None:
            task = self._coming[name] = asyncio.create_task(self._fetch(lacking))
            task.add_done_callback(partial(self._over, name))
        await asyncio.shield(task)

    def _over(self, name: str, task: asyncio.Task[None]) -> None:
        del self._coming[name]
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may have

    async def _fetch(self, lacking: Lacking) -> None:
        silent = []
        for place in lacking.elsewhere:
            came = await self._got(lacking.name, place)
            if came:
                return
            if came is None:
                silent.append(place)
        raise self._nowhere(lacking, silent)

    async def _got(self, name: ObjectName, place: str) -> bool | None:
        """Whether it came from there; `None`: nothing follows for whether it is there."""
        located = self._located.get(place)
        if located is None:
            return False
        if self._clock.now() < located.away_until:
            return None
        work = partial(located.store.get, name, self._root / name.path, located.bandwidth.pace)
        came = await self._verdicts.done(place, place, name, work, self._threads.of(place))
        return await self._is_right_here(name) if came else came

    async def _is_right_here(self, name: ObjectName) -> bool:
        """Read back what came: that it was right on its way says nothing of how it lies here."""
        own = self._located[HUB]
        check = partial(own.store.check, name, own.bandwidth.pace)
        right = await self._verdicts.done(HUB, HUB, name, check, self._threads.of(HUB))
        if right is None:
            raise LinkLost(f"{name.path} has come, and cannot be read here now: {own.trouble or 'the controller ends'}")
        if right:
            await self._verdicts.say(CopiesTold(place=HUB, verified=(name.sha256,)))
        else:
            places.failed(own, FilesError(places.forgets(name)), self._clock.now())
        return right

    def _nowhere(self, lacking: Lacking, silent: Sequence[str]) -> FilesError | LinkLost:
        name = lacking.name.sha256
        if silent:
            said = "; ".join(f"{place}: {self._located[place].trouble or 'it does not answer'}" for place in silent)
            return LinkLost(f"{name}, which it needs, is not in the controller's own store, but in {said}")
        where, here = ", ".join(lacking.elsewhere) or "no other place", self._located[HUB].trouble
        return FilesError(
            f"{name}, which it needs, is not in the controller's own store, and cannot be read elsewhere any more "
            f"(it was said to be in: {where}{'' if here is None else f'; here: {here}'}); "
            f"`hostler artifact show {name[:16]}` tells what is known of it"
        )


def _elsewhere(copies: Sequence[Copy]) -> tuple[str, ...]:
    there = (each for each in copies if each.place != HUB and not each.damaged)
    return tuple(each.place for each in sorted(there, key=lambda each: (-(each.verified_at or 0.0), each.place)))
