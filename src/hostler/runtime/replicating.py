"""Copies are made until there are as many as are wanted, and read again from time to time.

Nothing is remembered here: what lacks copies the catalogue says, what to copy next `policy.replication`; what was read
back is told to the core, whose facts the catalogue follows. A controller that is killed in between copies again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from hostler.model.artifacts import HUB, SUFFIXES, Place, ReplicationRules, Wanted
from hostler.model.errors import FilesChanged, FilesError, LinkError
from hostler.model.inputs import CopiesTold, Input
from hostler.model.record import record
from hostler.policy import replication
from hostler.policy.replication import Held, Transfer
from hostler.runtime import places
from hostler.runtime.clock import Clock
from hostler.runtime.pacing import Stopped
from hostler.runtime.places import Places
from hostler.store import Journal, catalogue
from hostler.stores.base import Damaged, Missing, ObjectName

LOOK_S = 30.0
"""How often it is looked for what lacks copies, if nobody says that there is something new."""
AT_ONCE = 4
"""Transfers at the same time."""
VAIN = 3
"""Rounds that may come to nothing, one after the other, before whoever waits for copies waits no more."""
MOST = 500
"""Artifacts that are looked at, at once."""
LOOKED_S = 60.0
"""How often places are asked for their room."""

Tell: TypeAlias = Callable[[Input], Awaitable[object]]


@record
class Backlog:
    """What lacks copies: how much, and since when."""

    artifacts: int
    bytes: int
    at_risk: int
    """Of these, what no place holds for certain."""
    oldest_due_at: float | None
    shortfalls: tuple[str, ...]
    """Why nothing can be done about some of it, each reason once."""


NOTHING = Backlog(artifacts=0, bytes=0, at_risk=0, oldest_due_at=None, shortfalls=())


class Replicator:
    """Makes the copies that are wanted. `root` is the folder of the controller's own store."""

    def __init__(
        self,
        journal: Journal,
        located: Places,
        root: Path,
        rules: ReplicationRules,
        clock: Clock,
        tell: Tell,
        trouble: Callable[[str], None],
    ) -> None:
        self._journal = journal
        self._located = located
        self._root = root
        self._rules = rules
        self._clock = clock
        self._tell = tell
        self._trouble = trouble
        self._new = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._names: Mapping[str, ObjectName] = {}
        self._looked_at = float("-inf")
        self._told = 0
        self._said = ""
        self.backlog = NOTHING

    def wake(self) -> None:
        """There is something new, or a place is back."""
        self._new.set()

    async def run(self) -> None:
        """Until cancelled; what is under way ends with it."""
        try:
            while True:
                self._new.clear()
                await self._turn_or_say_why_not()
                await self._rest()
        finally:
            for each in self._located.values():
                each.bandwidth.stop()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def turn(self) -> None:
        """Look once at what lacks copies, and begin as much as may run at the same time."""
        await self._look_at_places()
        held = await asyncio.to_thread(self._open)
        now, rules = self._clock.now(), self._rules
        seen = places.seen(self._located, now)
        self.backlog = _backlog(held, seen, now, rules)
        for each in held:
            for place in replication.unread(each, seen, now, rules):
                self._begin(each.sha256, partial(self._read, each.sha256, place))
        for transfer in replication.transfers(held, seen, HUB, now, rules):
            self._begin(transfer.sha256, partial(self._copy, transfer))

    async def settled(self) -> None:
        """Wait until nothing more can be done: all has its copies, or what could hold them does not answer."""
        vain = 0
        while vain < VAIN:
            before = self._told
            await self._turn_or_say_why_not()
            if not self._running:
                return
            while self._running:
                await asyncio.wait(list(self._running.values()))
            vain = 0 if self._told > before else vain + 1

    async def _turn_or_say_why_not(self) -> None:
        """What is wrong with a database or a disk for a while must not end the controller; it is said once."""
        try:
            await self.turn()
        except Exception as error:  # noqa: BLE001 - recorded, and the next turn comes all the same
            words = f"what lacks copies cannot be looked for: {type(error).__name__}: {error}"
            if words != self._said:
                self._trouble(words)
            self._said = words
        else:
            self._said = ""

    def _begin(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if name in self._running or len(self._running) >= AT_ONCE:
            return
        task = self._running[name] = asyncio.create_task(work())
        task.add_done_callback(lambda _: self._over(name, task))

    def _over(self, name: str, task: asyncio.Task[None]) -> None:
        """Whoever is told of a copy wakes us; what failed is left for the next look, or it would be tried on and on."""
        del self._running[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._trouble(f"{name} cannot be copied: {type(error).__name__}: {error}")

    async def _rest(self) -> None:
        woken = asyncio.ensure_future(self._new.wait())
        slept = asyncio.ensure_future(self._clock.sleep(LOOK_S))
        try:
            await asyncio.wait({woken, slept}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
            slept.cancel()

    async def _look_at_places(self) -> None:
        if self._clock.now() - self._looked_at < LOOKED_S:
            return
        self._looked_at = self._clock.now()
        await asyncio.gather(*(asyncio.to_thread(places.look, each, self._clock) for each in self._located.values()))

    def _open(self) -> list[Held]:
        """Artifacts that lack copies which the places there are could hold, as the catalogue has them."""
        rules = self._rules
        domains = {name: each.domain for name, each in self._located.items() if each.keeps}
        since = self._clock.now() - rules.verified_within_s
        with self._journal.catalogue() as connection:
            names = [
                name
                for standing, wanted in rules.wanted.items()
                for name in catalogue.short_of(connection, standing, possible(wanted, domains), domains, since, MOST)
            ]
            known, copies = catalogue.by_name(connection, names), catalogue.copies_of(connection, names)
            standings = catalogue.standings(connection, names)
        self._names = {name: ObjectName(name, SUFFIXES[each.kind]) for name, each in known.items()}
        return [
            Held(
                sha256=name,
                bytes=known[name].bytes,
                standing=standings[name].standing,
                made_at=known[name].made_at,
                copies=tuple(copies[name]),
            )
            for name in names
        ]

    async def _copy(self, transfer: Transfer) -> None:
        """Into the controller's store from elsewhere, or from there to elsewhere."""
        name, comes = self._names[transfer.sha256], transfer.target == HUB
        other = transfer.source if comes else transfer.target
        store, pace = self._located[other].store, self._located[other].bandwidth.pace
        move = store.get if comes else store.put
        if await self._done(transfer.source, other, name, lambda: move(name, self._root / name.path, pace)):
            await self._say(CopiesTold(place=transfer.target, verified=(transfer.sha256,)))

    async def _read(self, sha256: str, place: str) -> None:
        name, located = self._names[sha256], self._located[place]
        if await self._done(place, place, name, lambda: located.store.check(name, located.bandwidth.pace)):
            await self._say(CopiesTold(place=place, verified=(sha256,)))

    async def _done(self, source: str, other: str, name: ObjectName, work: Callable[[], object]) -> bool:
        """Do it in a thread; what is wrong with the copy in `source` is told, what is wrong with `other` remembered."""
        located = self._located[other]
        try:
            await asyncio.to_thread(work)
        except Stopped:
            return False
        except (Damaged, FilesChanged) as error:
            await self._set_aside(source, name)
            await self._say(CopiesTold(place=source, damaged=(name.sha256,), why=str(error)))
            return False
        except Missing as error:
            await self._say(CopiesTold(place=source, gone=(name.sha256,), why=str(error)))
            return False
        except (FilesError, LinkError) as error:
            places.failed(located, error, self._clock.now())
            return False
        except OSError as error:
            places.failed(located, FilesError(f"{name.path} cannot be read or written: {error}"), self._clock.now())
            return False
        places.answered(located)
        return True

    async def _set_aside(self, place: str, name: ObjectName) -> None:
        try:
            await asyncio.to_thread(self._located[place].store.set_aside, name)
        except (FilesError, LinkError, OSError) as error:  # it counts no more all the same
            self._trouble(f"a damaged copy stays where it is: {error}")

    async def _say(self, told: CopiesTold) -> None:
        self._told += 1
        await self._tell(told)


def possible(wanted: Wanted, domains: Mapping[str, str]) -> Wanted:
    """As much of it as the places there are could ever hold; what is beyond that nobody has to look for."""
    return replace(
        wanted,
        copies=max(min(wanted.copies, len(domains)), 1),
        domains=max(min(wanted.domains, len(set(domains.values()))), 1),
    )


def _backlog(held: Sequence[Held], seen: Mapping[str, Place], now: float, rules: ReplicationRules) -> Backlog:
    short = [(each, replication.shortfall(each, seen, now, rules)) for each in held]
    due = [each.made_at + rules.wanted[each.standing].within_s for each in held]
    return Backlog(
        artifacts=len(held),
        bytes=sum(each.bytes for each in held),
        at_risk=sum(replication.is_at_risk(each, seen, now, rules) for each in held),
        oldest_due_at=min(due, default=None),
        shortfalls=tuple(sorted({missing.why for _, missing in short if missing.why is not None})),
    )
