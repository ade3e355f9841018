"""A controller that waits for its turn: it follows the journal, shows what that says, and takes over when it may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import structlog

from hostler import __version__
from hostler.core.readings import readings
from hostler.model.alert_views import TargetView
from hostler.model.artifacts import ReplicationRules
from hostler.model.disks import CleanView, DoomedFile, RetentionView, TombView
from hostler.model.errors import HostlerError, LinkLost, SchemaMismatch, StandsBy, StoreBusy, StoreError
from hostler.model.events import Entry
from hostler.model.inputs import Asked, Drain, Input, NoteSecret, Trouble
from hostler.model.readings import LoopReading, Part, Readings
from hostler.model.views import LogChunk, Output, Status
from hostler.policy.leadership import LOOK_S, Watch
from hostler.runtime.artifacts import Artifacts
from hostler.runtime.broadcast import Broadcast
from hostler.runtime.clock import Clock, monotonic
from hostler.runtime.contents import Contents
from hostler.runtime.keptlogs import KeptLogs
from hostler.runtime.keys import usable
from hostler.runtime.looking import Looks
from hostler.runtime.parts import parts
from hostler.runtime.past import PastJobs
from hostler.runtime.places import Places
from hostler.runtime.replicating import Replicator
from hostler.runtime.snapshots import recovered
from hostler.runtime.statedir import StateDir
from hostler.runtime.stock import Stock
from hostler.runtime.term import Term, end, take
from hostler.runtime.vault import Vault
from hostler.runtime.verdicts import Verdicts
from hostler.runtime.vitals import Vitals
from hostler.snapshots.store import SnapshotStore
from hostler.store import Journal, Leader, open_journal
from hostler.web.desk import Piece
from hostler.web.rl.trails import Trails

SLICE = 1000
"""Entries that are folded at once: more would let a GET wait for too long."""
FOLLOWING = "following"


class Standby(Looks):
    """One waiting controller on one state directory. `async with`: what it has for showing is let go of at the end.

    Its state is the leader's, as of the last entry that was read, at most about `LOOK_S` ago; what a leader knows by
    its links alone (telemetry, progress) is unknown here.
    """

    def __init__(
        self,
        directory: StateDir,
        fleet: str,
        clock: Clock,
        *,
        places: Places,
        copies: ReplicationRules,
        alert_origins: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._directory = directory
        self._fleet = fleet
        self._clock = clock
        self._places = places
        self._links = {}
        self._alert_origins = alert_origins
        self._log = structlog.get_logger()
        self._journal: Journal = open_journal(directory.place)
        self._core = recovered(self._journal, self._on_damage)
        self._past = PastJobs(self._core, self._journal)
        self._broadcast = Broadcast(self._journal)
        self._vitals = Vitals(clock)
        self._logs = KeptLogs(directory.logs)
        self._watch = Watch()
        self._leaving = asyncio.Event()
        self._beside: list[asyncio.Task[None]] = []
        self._is_over = False
        self._has_lost = False
        """Whether it has read what the journal has no more."""
        self.leader = Leader()
        self.lives = False
        """Whether the leader was seen to do something."""
        self.store_trouble: StoreError | None = None
        verdicts = Verdicts(self._journal, places, clock, self._refuse, self._trouble)
        self._replicator = Replicator(
            self._journal, places, directory.artifacts, copies, clock, verdicts, self._trouble
        )
        self._stock = Stock(self._journal, places, copies, clock, self._trouble)
        self._artifacts = Artifacts(self._journal, places, copies, clock)
        self._contents = Contents(self._artifacts, places, directory.fetched, clock, verdicts)
        self._vault = Vault(directory.secrets_file, clock.now, partial(usable, directory.identity))
        self.trails = Trails(self, clock.now)

    async def __aenter__(self) -> Standby:
        self._directory.artifacts.mkdir(parents=True, exist_ok=True)
        await asyncio.to_thread(self._contents.begin)
        self._beside = [
            asyncio.create_task(self._stock.run(), name="stock"),
            asyncio.create_task(self._vitals.watch(), name="vitals"),
        ]
        return self

    async def __aexit__(self, *exception: object) -> None:
        for task in self._beside:
            task.cancel()
        await asyncio.wait(self._beside)
        self._broadcast.close()
        self._contents.close()
        if not self._is_over:
            await asyncio.to_thread(self._journal.close)

    async def turn(self, *, unless_led: bool = False) -> Term | None:
        """Follow the journal until it is our turn to lead; `None`: somebody asked this controller to end.

        With `unless_led` also as soon as the leader was seen to live. Raises `CorruptState`, `Conflict` where the
        journal was taken elsewhere, and `SchemaMismatch` where a newer version has it.
        """
        while not (self._leaving.is_set() or (unless_led and self.lives)):
            term = await self.look()
            if term is not None:
                return term
            await self._rest()
        return None

    async def look(self) -> Term | None:
        """Read what is new, and take over if it is time: then journal and core are the term's."""
        try:
            seen, unheld = await asyncio.to_thread(self._seen)
            await self._follow()
        except StoreError as error:
            self._watch.blind()
            self._note(error)
            return None
        self._note(None)
        self.lives = self.lives or (self.leader.epoch > 0 and (seen.epoch, seen.beat) != self.leader[:2])
        self.leader = seen
        if not self._may_lead(seen, unheld):
            return None
        try:
            term = await asyncio.to_thread(take, self._directory, self._clock, self._journal, self._core, seen)
        except StoreBusy as error:
            self._log.info("another controller was quicker, or lives", why=str(error))
            return None
        except SchemaMismatch:
            raise  # no waiting helps: a newer version has changed the tables
        except StoreError as error:
            self._note(error)
            return None
        self._is_over = True
        if await self._catch_up():
            term.core, term.lost = self._core, term.lost or self._has_lost  # both may have changed meanwhile
            return term
        await asyncio.to_thread(end, term)
        return None

    def _seen(self) -> tuple[Leader, bool]:
        seen = self._journal.leader()
        return seen, not self._journal.is_held(seen.epoch)

    def _may_lead(self, seen: Leader, unheld: bool) -> bool:
        """At once where nobody leads: its controller has given up, or was the one before us in this directory."""
        # Ours, and no connection of it: we hold this directory. With one it is a copy of this directory elsewhere.
        own = unheld and seen.controller == self._directory.own_id()
        vacant = seen.epoch == 0 or not seen.holder or own
        return self._watch.look(seen.epoch, seen.beat, monotonic(), given_up=vacant, unheld=unheld)

    async def _catch_up(self) -> bool:
        """Read the last that the one before has written, however long the database lets us wait for it; `False`:
        somebody asked this controller to end meanwhile."""
        while not self._leaving.is_set():
            try:
                await self._follow()
            except StoreError as error:
                self._note(error)
                await self._rest()
            else:
                return True
        return False

    async def _follow(self) -> None:
        while entries := await self._unread():
            self._core.replay(entries)
            self._past.written(self._core.state.seq)
            self._broadcast.publish(entries)
            self._stock.wake()
            self._vitals.beat(FOLLOWING)
            await asyncio.sleep(0)

    async def _unread(self) -> list[Entry]:
        """What the core has to be told next; a new core, where the journal has lost what the old one was told."""
        page = await asyncio.to_thread(self._page)
        if page is None:
            await self._begin_anew()
            page = await asyncio.to_thread(self._page)
        return page or []

    def _page(self) -> list[Entry] | None:
        """The entries after the last one that was read; `None`: the journal has that one no more."""
        last = self._core.last
        if last is None:
            return list(self._journal.read(limit=SLICE))
        found = list(self._journal.read(after=last.seq - 1, limit=SLICE + 1))
        return found[1:] if found and found[0] == last else None

    async def _begin_anew(self) -> None:
        """A database that fails over to a replica that lagged goes on with another history. Raises `CorruptState`."""
        self._log.warning("the journal has lost entries that were read", last=self._core.state.seq)
        await asyncio.to_thread(self._journal.note_lost)
        self._has_lost = True
        self._core = await asyncio.to_thread(recovered, self._journal, self._on_damage)
        self._past = PastJobs(self._core, self._journal)
        self._broadcast.close()  # who listens has heard what is no more, and would miss what has its numbers now
        self._broadcast = Broadcast(self._journal)

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(LOOK_S):
                await self._leaving.wait()
        except TimeoutError:
            return

    def _on_damage(self, why: str) -> None:
        self._log.warning("a snapshot is passed over", why=why)

    def _trouble(self, what: str) -> None:
        self._log.warning("trouble", what=what)

    def _note(self, error: StoreError | None) -> None:
        if (error is None) != (self.store_trouble is None):
            self._log.warning("the journal", trouble=None if error is None else str(error))
        self.store_trouble = error

    # What only one that leads has, or does.

    def status(self) -> Status:
        """The fleet in numbers, and who leads."""
        return replace(super().status(), leader=self.leader.shown)

    def readings(self) -> Readings:
        """What instruments read; nothing of links."""
        made = readings(self._core.state, self._core.index, self._clock.now(), __version__, self._fleet, ())
        sent = self._broadcast
        loop = LoopReading(lag_s=self._vitals.lag_s, readers=sent.readers, readers_lost=sent.lost)
        return replace(made, loop=loop, replication=self.replication(), leads=False)

    def parts(self) -> Sequence[Part]:
        """What it is made of: what follows, and the journal."""
        last_at, times = self._vitals.last.get(FOLLOWING, (None, 0))
        fault = None if self.store_trouble is None else str(self.store_trouble)
        does = f"reads what {self.leader.shown} writes, and takes over when that is silent"
        return [
            Part(name=FOLLOWING, does=does, last_at=last_at, times=times, fault=fault),
            *parts(self._vitals, self._core, (), self.store_trouble),
        ]

    def targets(self) -> Sequence[TargetView]:
        """Nobody is told from here."""
        return ()

    def retention(self, node: str | None = None) -> RetentionView:
        """Only the leader's disk is looked through."""
        self._refuse_now()

    def tombs(self, limit: int, after: Sequence[str] = ()) -> Sequence[TombView]:
        """Nothing was deleted here."""
        return ()

    async def doomed(
        self, limit: int, after: Sequence[str] = (), *, fresh: bool, node: str | None = None
    ) -> Sequence[DoomedFile]:
        """Only the leader knows."""
        self._refuse_now()

    async def clean_disk(
        self, ask: str, who: str, files: Sequence[str] | None, most: int, node: str | None = None
    ) -> CleanView:
        """Nothing is deleted here."""
        self._refuse_now()

    async def undo_cleaning(self, ask: str, who: str, files: Sequence[str] | None) -> CleanView:
        """Nothing was deleted here."""
        self._refuse_now()

    def cleaned(self, ask: str) -> CleanView:
        """Only the leader knows."""
        self._refuse_now()

    def snapshots(self) -> SnapshotStore:
        """Only the leader takes files."""
        self._refuse_now()

    async def log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        """What was kept here while this controller led; raises `LinkLost` for what only nodes have."""
        kept = await asyncio.to_thread(self._logs.read, attempt, stream, offset, limit)
        if kept is None:
            raise LinkLost(f"{attempt} is on a node that only the leader reaches; ask {self.leader.shown}")
        return kept

    async def output(self, attempt: str, out: int, err: int, limit: int) -> Output:
        """Likewise, of both streams."""
        kept = await asyncio.to_thread(self._logs.output, attempt, out, err, limit)
        if kept is None:
            raise LinkLost(f"{attempt} is on a node that only the leader reaches; ask {self.leader.shown}")
        return kept

    async def tell(self, *inputs: Input) -> Sequence[Any]:
        """Refused, but for being asked to end, and for what went wrong in showing: that goes into the log."""
        return [self._answer(each) for each in inputs]

    def entries(self, after: int | None) -> AsyncIterator[Entry]:
        """Journal entries as they are read."""
        return self._broadcast.entries(after)

    def pieces(self, after: int | None) -> AsyncIterator[Piece]:
        """The same, several at a time."""
        return self._broadcast.pieces(after)

    def drain(self) -> None:
        """End; the leader goes on."""
        self._leaving.set()

    def _answer(self, given: Input) -> HostlerError | None:
        if isinstance(given, Asked) and isinstance(given.given, Drain | NoteSecret):  # secrets are those of a machine
            return None
        if isinstance(given, Trouble):
            self._log.error("trouble", where=given.where, what=given.what)
            return None
        return self._refusal()

    async def _refuse(self, given: Input) -> NoReturn:
        self._refuse_now()

    def _refuse_now(self) -> NoReturn:
        raise self._refusal()

    def _refusal(self) -> StandsBy:
        return StandsBy(f"this controller stands by and changes nothing; {self.leader.shown} leads: ask that one")
