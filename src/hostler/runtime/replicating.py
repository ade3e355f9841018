"""Copies are made until there are as many as are wanted, and read again from time to time.

What stages made is read back in the controller's own store as soon as it is told of, and copied from there only then.
Nothing is remembered here: what lacks copies the catalogue says, what to copy next `policy.replication`; what was read
back is told to the core, whose facts the catalogue follows. A controller that is killed in between copies again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from hostler.model.artifacts import HUB, SUFFIXES, Place, ReplicationRules, Wanted
from hostler.model.errors import FilesError, LinkError, LinkLost
from hostler.model.inputs import GivePlaceUp
from hostler.model.record import record
from hostler.policy import replication
from hostler.policy.replication import Held
from hostler.runtime import places
from hostler.runtime.clock import Clock
from hostler.runtime.copying import Copier, Move, parcels
from hostler.runtime.pacing import Stopped
from hostler.runtime.places import Absences, Places
from hostler.runtime.threads import AT_ONCE, Threads
from hostler.runtime.verdicts import Verdicts
from hostler.store import Journal, catalogue
from hostler.store.settling import Marks, Rules
from hostler.stores.base import ObjectName

LOOK_S = 30.0
"""How often it is looked for what lacks copies, if nobody says that there is something new."""
LOOK_SHARE = 4.0
"""So many times of what a look took there is none, though there be news: where much lacks copies, looking is dear."""
REACH_SHARE = 50.0
"""What is out of reach is not looked for so many times of what it took: it walks through all that lacks copies."""
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


class Found(NamedTuple):
    """What a look came to."""

    backlog: Backlog
    new: Sequence[ObjectName]
    """What was never read in the controller's own store."""
    moves: Mapping[str, Sequence[Move]]
    """What is to be done next, by the place other than the controller's own; the most urgent first."""


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
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._journal = journal
        self._located = located
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
        self._copier = Copier(located, root, clock, verdicts)
        self._looking = Threads("looks at")
        """Others: copies take as long as they take, and one that looks must not wait for them."""
        self._looks: dict[str, asyncio.Task[None]] = {}
        self._timer = timer
        self._look_took_s = 0.0
        self._out_of_reach: Sequence[str] = ()
        self._reach_at = float("-inf")
        """When it may be looked again for what is out of reach."""
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
                await self._turn_or_say_why_not(thorough=self._clock.now() >= self._reach_at)
                await self._rest()
        finally:
            for each in self._located.values():
                each.bandwidth.stop()
            await asyncio.gather(*self._running.values(), return_exceptions=True)
            self._copier.close()
            self._looking.close()

    async def turn(self, *, thorough: bool = True) -> None:
        """Look once at what lacks copies, and begin as much as may run at the same time.

        `thorough`: what can be read nowhere now is looked for, too; else it is what was found the last time.
        """
        await self._give_up_who_left()
        await self._look_at_places()
        begun = self._timer()
        found = await asyncio.to_thread(self._look, set(self._running), thorough=thorough)
        self._look_took_s = self._timer() - begun
        self.backlog = found.backlog
        seen = places.seen(self._located, self._clock.now())
        await self._search_for_lost(seen)
        if found.new and seen[HUB].reachable:
            self._begin(HUB, [NEWS], partial(self._read_new, found.new))
        for place, moves in found.moves.items():
            for some in parcels(moves, AT_ONCE - self._busy[place]):
                self._begin(place, [each.name.sha256 for each in some], partial(self._copier.move, some))

    async def settled(self) -> None:
        """Wait until nothing more can be done: all has its copies, or what could hold them does not answer."""
        vain = 0
        while vain < VAIN:
            before = self._verdicts.told
            await self._turn_or_say_why_not(thorough=True)
            if not self._running and (rest_s := self._back_in_s()) is None:
                return
            if not self._running:
                await self._clock.sleep(rest_s or 0.0)
            while self._running:
                await asyncio.wait(set(self._running.values()))
            vain = 0 if self._verdicts.told > before else vain + 1

    def _back_in_s(self) -> float | None:
        """Until a place is asked again that did not answer; `None`: nothing lacks copies, or it is away for long."""
        now = self._clock.now()
        rests = [each.away_until - now for each in self._located.values() if each.away_until > now]
        soonest = min(rests, default=None)
        return None if not self.backlog.artifacts or soonest is None or soonest > PATIENCE_S else soonest

    async def _turn_or_say_why_not(self, *, thorough: bool) -> None:
        """What is wrong with a database or a disk for a while must not end the controller; it is said once."""
        try:
            await self.turn(thorough=thorough)
        except Exception as error:  # noqa: BLE001 - recorded, and the next turn comes all the same
            words = f"what lacks copies cannot be looked for: {type(error).__name__}: {error}"
            if words != self._said:
                self._trouble(words)
            self._said = words
        else:
            self._said = ""

    def _begin(self, place: str, names: Sequence[str], work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        if self._busy[place] >= AT_ONCE or any(each in self._running for each in names):
            return
        self._busy[place] += 1
        task = asyncio.create_task(work())
        self._running |= dict.fromkeys(names, task)
        task.add_done_callback(lambda _: self._over(names, place, task))

    def _over(self, names: Sequence[str], place: str, task: asyncio.Task[Any]) -> None:
        """Whoever is told of copies wakes us; what failed is left for the next look, or it would be tried on and on."""
        for name in names:
            del self._running[name]
        self._busy[place] -= 1
        if not task.cancelled() and (error := task.exception()) is not None:
            what = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
            self._trouble(f"{what} cannot be copied: {type(error).__name__}: {error}")

    async def _rest(self) -> None:
        await self._clock.sleep(LOOK_SHARE * self._look_took_s)
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
            self._begin(place, [f"what is lost, in {place}"], partial(self._search, place, lost))
        self._searched.update(() if lost else unsearched)

    def _lost(self) -> Mapping[str, ObjectName]:
        with self._journal.catalogue() as connection:
            known = catalogue.by_name(connection, catalogue.lost(connection))
        return {name: ObjectName(name, SUFFIXES[each.kind]) for name, each in known.items()}

    async def _search(self, place: str, lost: Mapping[str, ObjectName]) -> None:
        located, there = self._located[place], list[ObjectName]()

        def look() -> None:
            for each in located.store.listed():
                located.bandwidth.pace(0)  # a list may be long, and the controller end before it does
                if lost.get(each.name.sha256) == each.name:
                    there.append(each.name)

        try:
            await self._copier.in_thread(place, look)
        except Stopped:
            return
        except LinkError as error:
            places.failed(located, error, self._clock.now())
            return
        except (FilesError, OSError) as error:
            self._trouble(f"{place} cannot be searched for artifacts that nobody else has: {error}")
        self._searched.add(place)
        for name in there:
            await self._copier.read(name, place)

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

    def _look(self, busy: Collection[str], *, thorough: bool) -> Found:
        """What lacks copies, and what to do about it; waits. What is `busy` is done already."""
        now, rules = self._clock.now(), self._rules
        seen = places.seen(self._located, now)
        held, names = self._open(seen, now, thorough=thorough)
        idle = [each for each in held if each.sha256 not in busy and not self._is_new(each)]
        reads = (
            Move(names[each.sha256], each.bytes, place, place)
            for each in idle
            for place in replication.unread(each, seen, now, rules)
        )
        transfers = (
            Move(names[each.sha256], each.bytes, each.source, each.target)
            for each in replication.transfers(idle, seen, now, rules)
        )
        return Found(_backlog(held, seen, now, rules), self._unread_here(), _by_place(chain(reads, transfers)))

    def _open(
        self, seen: Mapping[str, Place], now: float, *, thorough: bool
    ) -> tuple[Sequence[Held], Mapping[str, ObjectName]]:
        """Artifacts that lack copies which the places there are could hold, as the catalogue has them."""
        short = self._short(seen, now, thorough=thorough)
        names = list(dict.fromkeys([*short, *self._out_of_reach]))
        with self._journal.catalogue() as connection:
            known, copies = catalogue.by_name(connection, names), catalogue.copies_of(connection, names)
            standings = catalogue.standings(connection, names)
        held = [
            Held(
                sha256=name,
                bytes=known[name].bytes,
                standing=standings[name].standing,
                made_at=known[name].made_at,
                copies=tuple(copies[name]),
            )
            for name in names
        ]
        back = {each.sha256 for each in held if replication.is_readable(each, seen)} - set(short)
        paths = {name: ObjectName(name, SUFFIXES[each.kind]) for name, each in known.items()}
        return [each for each in held if each.sha256 not in back], paths

    def _short(self, seen: Mapping[str, Place], now: float, *, thorough: bool) -> list[str]:
        """What can be read somewhere; what is out of reach is remembered, and may be in reach again by now."""
        domains = {name: each.domain for name, each in seen.items() if each.keeps}
        since = now - self._rules.verified_within_s
        rules = Rules({each: possible(wanted, domains) for each, wanted in self._rules.wanted.items()}, domains)
        readable = [name for name, each in seen.items() if each.reachable]
        names = self._marks.short_of(rules, since, MOST, readable)
        if thorough:
            begun = self._timer()
            self._out_of_reach = self._marks.out_of_reach(rules, since, MOST, readable)
            self._reach_at = now + REACH_SHARE * (self._timer() - begun)
        return names

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

    async def _read_new(self, new: Sequence[ObjectName]) -> None:
        self._puzzling |= {each.sha256 for each in await self._copier.read_new(new)}
        self.wake()  # there may be more

    @property
    def looked_at(self) -> float | None:
        """When places were last asked for their room; `None`: not yet."""
        return None if self._looked_at == float("-inf") else self._looked_at


def _by_place(moves: Iterable[Move]) -> Mapping[str, Sequence[Move]]:
    """One at a time of each file: the first of them."""
    first: dict[str, Move] = {}
    for each in moves:
        first.setdefault(each.name.sha256, each)
    found: dict[str, list[Move]] = {}
    for each in first.values():
        found.setdefault(each.other, []).append(each)
    return found


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
