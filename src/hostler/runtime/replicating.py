"""Copies are made until there are as many as are wanted, and read again from time to time.

What stages made is read back in the controller's own store as soon as it is told of, and copied from there only then.
Nothing is remembered here: what lacks copies the catalogue says, what to copy next `policy.replication`; what was read
back is told to the core, whose facts the catalogue follows. A controller that is killed in between copies again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from hostler.model.artifacts import HUB, SUFFIXES, Place, ReplicationRules, Wanted
from hostler.model.errors import FilesError, LinkError, LinkLost
from hostler.model.inputs import CopiesTold, GivePlaceUp
from hostler.model.record import record
from hostler.policy import replication
from hostler.policy.replication import Held, Transfer
from hostler.runtime import places
from hostler.runtime.clock import Clock
from hostler.runtime.pacing import Stopped
from hostler.runtime.places import Absences, Places
from hostler.runtime.threads import AT_ONCE, Threads
from hostler.runtime.verdicts import Verdicts
from hostler.store import Journal, catalogue
from hostler.store.settling import Marks, Rules
from hostler.stores.base import ObjectName

LOOK_S = 30.0
"""How often it is looked for what lacks copies, if nobody says that there is something new."""
VAIN = 3
"""Rounds that may come to nothing, one after the other, before whoever waits for copies waits no more."""
PATIENCE_S = 20.0
"""How long whoever waits for copies waits for a place that does not answer, each time."""
MOST = 500
"""Artifacts of a standing that are looked at, at once; and as many that can be read nowhere now."""
LOOKED_S = 60.0
"""How often places are asked for their room."""
NEWS = "what is new"
NEW_FILES = 1000
NEW_BYTES = 1 << 28
"""What is new is read back so much at a time, and told of in one fact; a larger file is read alone."""
ANSWERS_S = 30.0
"""A place that has not told its room by then does not answer: others do not wait for it."""


@record
class Backlog:
    """What lacks copies: how much, and since when."""

    artifacts: int
    bytes: int
    at_risk: int
    """Of these, what no place holds for certain; what is new does once it was read back."""
    oldest_due_at: float | None
    shortfalls: tuple[str, ...]
    """Why nothing can be done about some of it, each reason once."""
    at: float | None = None
    """When it was looked; `None`: not yet."""


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
        verdicts: Verdicts,
        trouble: Callable[[str], None],
        remember: Callable[[Absences], None] | None = None,
    ) -> None:
        self._journal = journal
        self._located = located
        self._root = root
        self._rules = rules
        self._clock = clock
        self._verdicts = verdicts
        self._trouble = trouble
        self._remember = remember
        self._remembered: Absences = places.absences(located)
        self._new = asyncio.Event()
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._busy: Counter[str] = Counter()
        """Of these, by place."""
        self._threads = Threads("copies")
        self._looking = Threads("looks at")
        """Others: copies take as long as they take, and one that looks must not wait for them."""
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._names: Mapping[str, ObjectName] = {}
        self._looked_at = float("-inf")
        self._said = ""
        self._marks = Marks(journal)
        self._gave_up = False
        self._searched: set[str] = set()
        self._puzzling: set[str] = set()
        """What is new and could not be read, of which nothing follows: it is treated as what is old."""
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
            self._threads.close()
            self._looking.close()

    async def turn(self) -> None:
        """Look once at what lacks copies, and begin as much as may run at the same time."""
        await self._give_up_who_left()
        await self._look_at_places()
        held, new = await asyncio.to_thread(self._open), await asyncio.to_thread(self._unread_here)
        now, rules = self._clock.now(), self._rules
        seen = places.seen(self._located, now)
        await self._search_for_lost(seen)
        self.backlog = _backlog(held, seen, now, rules)
        if new and seen[HUB].reachable:
            self._begin(NEWS, HUB, partial(self._read_back, new))
        held = [each for each in held if not self._is_new(each)]
        for each in held:
            for place in replication.unread(each, seen, now, rules):
                self._begin(each.sha256, place, partial(self._read, self._names[each.sha256], place))
        for transfer in replication.transfers(held, seen, HUB, now, rules):
            self._begin(transfer.sha256, _other(transfer), partial(self._copy, transfer))

    async def settled(self) -> None:
        """Wait until nothing more can be done: all has its copies, or what could hold them does not answer."""
        vain = 0
        while vain < VAIN:
            before = self._verdicts.told
            await self._turn_or_say_why_not()
            if not self._running and (rest_s := self._back_in_s()) is None:
                return
            if not self._running:
                await self._clock.sleep(rest_s or 0.0)
            while self._running:
                await asyncio.wait(list(self._running.values()))
            vain = 0 if self._verdicts.told > before else vain + 1

    def _back_in_s(self) -> float | None:
        """Until a place is asked again that did not answer; `None`: nothing lacks copies, or it is away for long."""
        now = self._clock.now()
        rests = [each.away_until - now for each in self._located.values() if each.away_until > now]
        soonest = min(rests, default=None)
        return None if not self.backlog.artifacts or soonest is None or soonest > PATIENCE_S else soonest

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

    def _begin(self, name: str, place: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        if name in self._running or self._busy[place] >= AT_ONCE:
            return
        self._busy[place] += 1
        task = self._running[name] = asyncio.create_task(work())
        task.add_done_callback(lambda _: self._over(name, place, task))

    def _over(self, name: str, place: str, task: asyncio.Task[Any]) -> None:
        """Whoever is told of a copy wakes us; what failed is left for the next look, or it would be tried on and on."""
        del self._running[name]
        self._busy[place] -= 1
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

    async def _give_up_who_left(self) -> None:
        """Once: what is no place of this fleet any more holds nothing that counts; what that was is said before."""
        if self._gave_up:
            return
        for place, held in (await asyncio.to_thread(self._left)).items():
            self._trouble(
                f"the store {place} is in the fleet file no more: the {held.copies} copies there count no longer, and "
                f"{held.only} artifacts have no other; what lacks copies is copied. If it is put back, what lies there "
                "is read and counts again"
            )
            await self._verdicts.give_up(GivePlaceUp(place=place, who="the fleet file", why="it is not in it any more"))
        self._gave_up = True

    def _left(self) -> dict[str, catalogue.Holding]:
        with self._journal.catalogue() as connection:
            left = [each for each in catalogue.places(connection) if each not in self._located]
            return {each: catalogue.holding(connection, each) for each in left}

    async def _search_for_lost(self, seen: Mapping[str, Place]) -> None:
        """Once in each place that answers, if there is anything that nobody is known to have: it may lie there still.

        A place that was out of the fleet file for a while was given up with all that only it had.
        """
        unsearched = [name for name, each in seen.items() if each.reachable and name not in self._searched]
        lost = await asyncio.to_thread(self._lost) if unsearched else {}
        for place in unsearched if lost else ():
            self._begin(f"what is lost, in {place}", place, partial(self._search, place, lost))
        self._searched.update(() if lost else unsearched)

    def _lost(self) -> Mapping[str, ObjectName]:
        with self._journal.catalogue() as connection:
            known = catalogue.by_name(connection, catalogue.lost(connection))
        return {name: ObjectName(name, SUFFIXES[each.kind]) for name, each in known.items()}

    async def _search(self, place: str, lost: Mapping[str, ObjectName]) -> None:
        located, threads, there = self._located[place], self._threads.of(place), list[ObjectName]()

        def look() -> None:
            for each in located.store.listed():
                located.bandwidth.pace(0)  # a list may be long, and the controller end before it does
                if lost.get(each.name.sha256) == each.name:
                    there.append(each.name)

        try:
            await asyncio.get_running_loop().run_in_executor(threads, look)
        except Stopped:
            return
        except LinkError as error:
            places.failed(located, error, self._clock.now())
            return
        except (FilesError, OSError) as error:
            self._trouble(f"{place} cannot be searched for artifacts that nobody else has: {error}")
        self._searched.add(place)
        for name in there:
            await self._read(name, place)

    async def _look_at_places(self) -> None:
        now = self._clock.now()
        self._leave_alone(self._looks)
        if now - self._looked_at < LOOKED_S:
            return
        self._looked_at = now
        asked = [name for name, each in self._located.items() if now >= each.away_until and name not in self._looks]
        looks = {name: asyncio.create_task(self._look_at(name)) for name in asked}
        self._looks |= looks
        for name, task in looks.items():
            task.add_done_callback(partial(self._looked, name))
        if looks:
            await asyncio.wait(looks.values(), timeout=ANSWERS_S)
        self._leave_alone(name for name, task in looks.items() if not task.done())
        await self._remember_who_is_away()

    async def _look_at(self, name: str) -> None:
        await asyncio.get_running_loop().run_in_executor(self._looking.of(name), self._verdicts.look, name)

    def _leave_alone(self, silent: Iterable[str]) -> None:
        """A thread waits for these, maybe for ever, as for a file system whose server is gone."""
        now = self._clock.now()
        for name in list(silent):
            if now >= self._located[name].away_until:
                places.failed(self._located[name], LinkLost(f"it has not answered for {ANSWERS_S:g} s"), now)

    def _looked(self, name: str, task: asyncio.Task[None]) -> None:
        del self._looks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            self._trouble(f"the store {name} cannot be asked for its room: {type(error).__name__}: {error}")

    async def _remember_who_is_away(self) -> None:
        absent = places.absences(self._located)
        if self._remember is not None and absent != self._remembered:
            await asyncio.to_thread(self._remember, absent)
            self._remembered = absent

    def _open(self) -> list[Held]:
        """Artifacts that lack copies which the places there are could hold, as the catalogue has them."""
        rules = self._rules
        now = self._clock.now()
        domains = {name: each.domain for name, each in self._located.items() if places.counts(each, now)}
        since = now - rules.verified_within_s
        wanted = {standing: possible(each, domains) for standing, each in rules.wanted.items()}
        readable = [name for name, each in places.seen(self._located, now).items() if each.reachable]
        names = self._marks.short_of(Rules(wanted, domains), since, MOST, readable)
        with self._journal.catalogue() as connection:
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

    def _unread_here(self) -> list[ObjectName]:
        """What was never read in the controller's own store, as much of it as is read at once."""
        with self._journal.catalogue() as connection:
            found = catalogue.never_read(connection, HUB, NEW_FILES + len(self._puzzling))
        new, size = list[ObjectName](), 0
        for each in found:
            if each.sha256 in self._puzzling:
                continue
            size += each.bytes
            if new and size > NEW_BYTES:
                break
            new.append(ObjectName(each.sha256, SUFFIXES[each.kind]))
        return new[:NEW_FILES]

    def _is_new(self, held: Held) -> bool:
        """Whether it is read here first, before it is copied from here."""
        return held.sha256 not in self._puzzling and any(
            copy.place == HUB and copy.verified_at is None and not copy.damaged for copy in held.copies
        )

    async def _read_back(self, new: Sequence[ObjectName]) -> None:
        """One fact for all that is right; what may be wrong with any other is found out by reading it by itself."""
        loop, hub = asyncio.get_running_loop(), self._located[HUB]
        right = await loop.run_in_executor(self._threads.of(HUB), self._right_ones, new)
        if right:
            await self._verdicts.say(CopiesTold(place=HUB, verified=tuple(right)))
        for name in [each for each in new if each.sha256 not in right]:
            if self._clock.now() < hub.away_until:
                break
            if await self._read(name, HUB) is None:
                self._puzzling.add(name.sha256)
        self.wake()  # there may be more

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

    async def _copy(self, transfer: Transfer) -> None:
        """Into the controller's store from elsewhere, or from there to elsewhere."""
        name, comes = self._names[transfer.sha256], transfer.target == HUB
        other = _other(transfer)
        store, pace = self._located[other].store, self._located[other].bandwidth.pace
        move = store.get if comes else store.put
        work = partial(move, name, self._root / name.path, pace)
        if not await self._verdicts.done(transfer.source, other, name, work, self._threads.of(other)):
            return
        if comes:
            await self._read_what_came(name)
        else:
            await self._verdicts.say(CopiesTold(place=transfer.target, verified=(transfer.sha256,)))

    async def _read_what_came(self, name: ObjectName) -> None:
        """Who puts reads back what it has put; who gets has read it elsewhere only."""
        if await self._read(name, HUB) is False:
            places.failed(self._located[HUB], FilesError(places.forgets(name)), self._clock.now())

    async def _read(self, name: ObjectName, place: str) -> bool | None:
        """As `Verdicts.done`, and that it is right is told."""
        located = self._located[place]
        work = partial(located.store.check, name, located.bandwidth.pace)
        right = await self._verdicts.done(place, place, name, work, self._threads.of(place))
        if right:
            await self._verdicts.say(CopiesTold(place=place, verified=(name.sha256,)))
        return right

    @property
    def looked_at(self) -> float | None:
        """When places were last asked for their room; `None`: not yet."""
        return None if self._looked_at == float("-inf") else self._looked_at


def _other(transfer: Transfer) -> str:
    """The place of a transfer that is not the controller's own store."""
    return transfer.source if transfer.target == HUB else transfer.target


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
        at=now,
    )
