"""The controller: one core, one journal, the links to its nodes. It is the `Desk` that the web looks through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from hostler import __version__
from hostler.backends.base import Backend, KeepsEnvironments, KeepsStock, Remembers, SelectsGpus
from hostler.core import cordons, groups
from hostler.core.alerting import learners, views as alerting
from hostler.core.naming import by_handle
from hostler.core.readings import readings
from hostler.core.views import find_job
from hostler.model.alert_views import AlertView, TargetView
from hostler.model.artifacts import ReplicationRules
from hostler.model.commands import Command, Fit, NodeCommand, Solve
from hostler.model.disks import CleanView, DoomedFile, Keeping, RetentionView, TombView
from hostler.model.errors import LinkError, LinkLost, NotFound, StoreBusy, StoreError, StoreFull
from hostler.model.events import Entry, job_of
from hostler.model.fleet import NodeSpec
from hostler.model.groups import GroupView
from hostler.model.inputs import Begin, Drain, Input, NodeFound, Trouble
from hostler.model.readings import LoopReading, Part, Readings
from hostler.model.rules import CompactRules
from hostler.model.views import JobView, LogChunk, Output, Status
from hostler.model.work import JobState, StagePayload
from hostler.runtime.artifacts import Artifacts
from hostler.runtime.askers import Askers
from hostler.runtime.broadcast import Broadcast
from hostler.runtime.clock import Clock
from hostler.runtime.compacting import Compactor
from hostler.runtime.contents import Contents
from hostler.runtime.disks.cleaning import Cleaner
from hostler.runtime.disks.needs import Orders, is_full, needed_on, needs
from hostler.runtime.disks.nodes import NodeCleaner
from hostler.runtime.disks.surveying import Survey
from hostler.runtime.ending import is_done, is_drained, left_behind
from hostler.runtime.fitting import Fitter
from hostler.runtime.gathering import Gatherer
from hostler.runtime.hearing import Hearing
from hostler.runtime.inheriting import inherit
from hostler.runtime.job_files import SecretPruner, SnapshotPruner
from hostler.runtime.keptlogs import KeptLogs
from hostler.runtime.keys import usable
from hostler.runtime.link import Link, hang_up_in_time
from hostler.runtime.looking import Looks
from hostler.runtime.loops import every
from hostler.runtime.losing import Losses, left_out
from hostler.runtime.notifying import Notifier
from hostler.runtime.outputs import Outputs, leased_on
from hostler.runtime.parts import COMMANDS, COMPACTION, JOURNAL, PLANS, RATINGS, SNAPSHOTS, parts
from hostler.runtime.past import JobLooks, PastJobs
from hostler.runtime.places import Places, located, recall, troubles
from hostler.runtime.planner import Planner
from hostler.runtime.pump import Pump
from hostler.runtime.replicating import Replicator
from hostler.runtime.rowcheck import RowCheck
from hostler.runtime.scrubbing import Scrubber
from hostler.runtime.slicing import vetted
from hostler.runtime.snapshots import fold_in_background, snapshot_of
from hostler.runtime.statedir import StateDir, user_name
from hostler.runtime.stock import Stock
from hostler.runtime.term import Term, begin, end
from hostler.runtime.usage import YEAR_S, Hours
from hostler.runtime.vault import Vault
from hostler.runtime.verdicts import Verdicts
from hostler.runtime.vitals import Vitals
from hostler.runtime.writer import Writer
from hostler.settings import Telling
from hostler.snapshots.store import SnapshotStore
from hostler.store.catalogue import NOTED
from hostler.web.desk import Piece
from hostler.web.rl.trails import Trails

SNAPSHOT_CHECK_S = 5.0
SNAPSHOT_TIMEOUT_S = 600.0
WRITER_PATIENCE_S = 5.0
STATUS_S = 2.0
"""How long the journal is waited for before it is shown what it had before."""
NO_ANSWER = "its database or disk does not answer"
HURRIED_S = 0.2
"""The same of a controller that was told to leave while its journal cannot be written."""
RELEASE_S = 30.0
"""How long a controller that leaves waits for its nodes, all together, to let go of what idles there."""
USUAL = ReplicationRules()
COMPACT = CompactRules()
DRY_RUN = Keeping()
ANSWER_AGAIN_S = 1.0
AWAY_S = 3.0
"""A node that is out of reach for less than this is not worth a word."""


class Controller(Looks):
    """One running controller on one state directory.

    `retired` makes the backend of a node that is no part of the fleet any more but still holds work, or has something
    in the queue of its cluster: what it has is awaited, nothing new is put on it. It is given the node and its agent.

    `async with Controller(...) as controller` recovers the state and starts everything; leaving the block stops it.
    What runs on the nodes runs on. `places` is where artifacts lie, by default the state directory alone, and `copies`
    how many of them there should be. Hours of usage stay for `keep_usage_s`. `term` is the right to lead; without one
    the controller takes it, whoever leads.
    """

    def __init__(
        self,
        directory: StateDir,
        fleet: str,
        backends: Mapping[str, Backend],
        clock: Clock,
        snapshot_every: int,
        retired: Callable[[NodeSpec, str | None], Backend] | None = None,
        *,
        telling: Telling | None = None,
        alert_origins: Mapping[str, Mapping[str, str]] | None = None,
        places: Places | None = None,
        copies: ReplicationRules = USUAL,
        keeping: Keeping = DRY_RUN,
        compact: CompactRules = COMPACT,
        keep_usage_s: float = YEAR_S,
        log_bytes: int = 10 << 20,
        shared_jobs: bool | None = None,
        term: Term | None = None,
    ) -> None:
        self._directory = directory
        self._fleet = fleet
        self._clock = clock
        self._snapshot_every = snapshot_every
        self._shared_jobs = shared_jobs
        self._log = structlog.get_logger()
        self._term = term or begin(directory, clock, self._on_damaged_snapshot)
        self._journal, self._core = self._term.journal, self._term.core
        self._snapshot_seq = self._core.state.seq
        self._broadcast = Broadcast(self._journal)
        self._past = PastJobs(self._core, self._journal)
        self._askers = Askers(clock)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fault: Exception | None = None
        """What the writer died of."""
        self._writer = Writer(self._journal, self._on_store_trouble, self._on_writer_death, self._term.tenure)
        self._term.settled()
        self._vitals = vitals = Vitals(clock)
        execute, publish = vitals.beside(COMMANDS, self._execute), vitals.beside(JOURNAL, self._publish)
        self._compactor = Compactor(self._journal, compact, clock, self.record, partial(vitals.beat, COMPACTION))
        self._status = self.status()
        self._rows = RowCheck(self._journal, clock, self.record)
        self._pump = Pump(self._core, self._writer, clock, execute, publish)
        self._fleet_nodes = frozenset(backends)
        self._logs = KeptLogs(directory.logs, log_bytes)
        self._snapshots = SnapshotStore(directory.snapshots)
        self._vault = Vault(directory.secrets_file, clock.now, partial(usable, directory.identity))
        self._fitter = Fitter(vitals.beside(RATINGS, self._pump.post))
        self._planner = Planner(vitals.beside(PLANS, self._pump.post))
        self._alert_origins = alert_origins or {}
        self._notifier = Notifier(
            telling, fleet, self._journal, self._core.state.seq, clock, self.entries, self._find_alert, self.record,
            before=directory.told_before(),
        )  # fmt: skip
        self._losses = Losses(self._journal, self._core, clock, self.tell, is_told=self._term.lost)
        self.trails = Trails(self, clock.now)
        self._hearing = Hearing(self.trails, self._learning, self.tell, clock, self.record)
        self._keep_artifacts(places or located((), directory.artifacts, "here"), copies, keeping)
        old = {} if retired is None else dict(self._retired(retired))
        self._links = {name: self._linked(name, each) for name, each in {**backends, **old}.items()}
        self._node_cleaner = self._cleaner_of_nodes(keeping, copies)
        self._hours = Hours(self._core, self._journal, self._now, self.tell, keep_usage_s)
        self._outputs = Outputs(
            self._logs, clock, self._backend_of, self.story, self._executing, partial(self.record, "outputs")
        )
        self._writer_death: asyncio.Future[None] | None = None
        self._running: asyncio.Task[None] | None = None
        self._draining = asyncio.Event()
        self._hurried = False
        self._until_idle = False
        self._over = asyncio.Event()
        self.store_trouble: StoreError | None = None

    def _keep_artifacts(self, places: Places, copies: ReplicationRules, keeping: Keeping) -> None:
        """Everything that looks after files here and in stores."""
        directory, clock = self._directory, self._clock
        directory.artifacts.mkdir(parents=True, exist_ok=True)
        self._places = places
        recall(places, directory.away())
        trouble = partial(self.record, "copies")
        self._verdicts = verdicts = Verdicts(self._journal, self._places, clock, self.tell, trouble)
        self._replicator = Replicator(
            self._journal, self._places, directory.artifacts, copies, clock, verdicts, trouble, directory.note_away
        )
        self._gatherer = Gatherer(self._journal, self._places, directory.artifacts, clock, verdicts)
        self._scrubber = Scrubber(self._journal, self._places, copies, clock, verdicts, trouble, self._replicator.wake)
        self._stock = Stock(self._journal, self._places, copies, clock, trouble)
        self._artifacts = Artifacts(self._journal, self._places, copies, clock)
        self._contents = Contents(self._artifacts, self._places, directory.fetched, clock, verdicts)
        self._cleaner = self._cleaner_here(keeping, copies)

    async def __aenter__(self) -> Controller:
        loop = asyncio.get_running_loop()
        self._writer_death = loop.create_future()
        self._loop = loop
        self._tell_death()
        try:
            await self._begin(loop)
        except BaseException:
            await self._end()
            raise
        return self

    async def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        current = {name for device in self._core.state.devices.values() for name in device.attempts}
        await asyncio.to_thread(self._directory.drop_incoming, current)
        await asyncio.to_thread(self._contents.begin)
        self._running = loop.create_task(self._run())
        begin = Begin(
            version=__version__,
            epoch=self._term.epoch,
            nodes=tuple(sorted(self._fleet_nodes)),
            user=user_name(),
            shared_jobs=self._shared_jobs,
        )
        # A database may be started anew just then: ending for it would leave the fleet to nobody.
        gap = (left_out(self._core, self._clock.now()),) if self._term.lost else ()
        await self.tell(begin, *gap, *self._unseen_nodes(), patient=self._journal.shared)

    async def __aexit__(self, *exception: object) -> None:
        await self._end()

    async def _end(self) -> None:
        try:
            if self._running is not None:
                self._running.cancel()
                await self._running
        except asyncio.CancelledError:
            pass
        finally:
            self._broadcast.close()
            self._contents.close()
            self._gatherer.close()
            await asyncio.to_thread(self._close_store)

    async def _written(self) -> None:
        await self._pump.written()

    def readings(self) -> Readings:
        """What instruments read."""
        made = readings(self._core.state, self._core.index, self._clock.now(), __version__, self._fleet, self._links)
        sent = self._broadcast
        loop = LoopReading(lag_s=self._vitals.lag_s, readers=sent.readers, readers_lost=sent.lost)
        return replace(made, loop=loop, replication=self.replication())

    def parts(self) -> Sequence[Part]:
        """What the controller is made of."""
        return parts(self._vitals, self._core, self._links, self.store_trouble)

    def targets(self) -> Sequence[TargetView]:
        """Where alerts are told, and how that goes."""
        return self._notifier.targets()

    def snapshots(self) -> SnapshotStore:
        """The files that jobs start from."""
        return self._snapshots

    async def log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        """A piece of one stream of an attempt."""
        return await self._outputs.log(attempt, stream, offset, limit)

    async def output(self, attempt: str, out: int, err: int, limit: int) -> Output:
        """A piece of both streams of an attempt, in order."""
        return await self._outputs.output(attempt, out, err, limit)

    def retention(self, node: str | None = None) -> RetentionView:
        """How full the state directory's disk is, or a node's, and what may go."""
        return self._cleaner.retention() if node is None else self._node_cleaner.retention(node)

    def tombs(self, limit: int, after: Sequence[str] = ()) -> Sequence[TombView]:
        """What was deleted and can be brought back."""
        return self._cleaner.tombs(limit, after)

    async def doomed(
        self, limit: int, after: Sequence[str] = (), *, fresh: bool, node: str | None = None
    ) -> Sequence[DoomedFile]:
        """What may go."""
        if node is not None:
            return await self._node_cleaner.plan(node, limit, after, fresh=fresh)
        return await self._cleaner.plan(limit, after, fresh=fresh)

    async def clean_disk(
        self, ask: str, who: str, files: Sequence[str] | None, most: int, node: str | None = None
    ) -> CleanView:
        """Delete what may go."""
        if node is not None:
            return self._cleaner.remember(ask, await self._node_cleaner.clean(node, who, files, most))
        return await self._cleaner.clean(ask, who, files, most)

    async def undo_cleaning(self, ask: str, who: str, files: Sequence[str] | None) -> CleanView:
        """Bring back what was deleted."""
        return await self._cleaner.undo(ask, who, files)

    def cleaned(self, ask: str) -> CleanView:
        """What came of it."""
        return self._cleaner.answer(ask)

    async def tell(self, *inputs: Input, patient: bool = False) -> Sequence[Any]:
        """Give inputs to the core, with what the store knows of jobs that they name; answers once durable.

        `patient`: however long that takes.

        Raises what ended the controller's own tasks, if something did: nobody would answer any more.
        """
        assert self._running is not None
        inputs = tuple([await vetted(each) for each in inputs])
        tell = partial(self._pump.tell, patient=patient)
        told = asyncio.ensure_future(self._past.told(tell, inputs))
        try:
            await asyncio.wait({told, self._running}, return_when=asyncio.FIRST_COMPLETED)
            if not told.done():
                self._running.result()
            return await told
        finally:
            told.cancel()

    async def having(self, name: str) -> JobLooks:
        """One job, wherever it is."""
        found = await super().having(name)
        job = by_handle(found.state, name)
        if job is not None and not job.state.final:
            self._askers.shown(job.id)
        return found

    async def named(self, names: Sequence[str]) -> Sequence[JobView]:
        """The job of each name."""
        found = await super().named(names)
        for each in found:
            if not each.state.final:
                self._askers.shown(each.id)
        return found

    def group(self, name: str) -> GroupView:
        """A job group."""
        found = super().group(name)
        if found.ended_at is None:
            self._askers.shown(found.id)
        return found

    async def answered(self) -> None:
        """Wait until clients that ask for a job again and again have its end; a few seconds at most."""
        await self._askers.answered(self._ended_at)

    def _ended_at(self, name: str) -> float | None:
        state = self._core.state
        if name in state.groups:
            return groups.view(self._core.index, state.groups[name]).ended_at
        job = state.jobs.get(name)
        return job.ended_at if job is not None and job.state.final else None

    def entries(self, after: int | None) -> AsyncIterator[Entry]:
        """Journal entries as they become durable."""
        return self._broadcast.entries(after)

    def pieces(self, after: int | None) -> AsyncIterator[Piece]:
        """The same, several at a time."""
        return self._broadcast.pieces(after)

    async def answer_at(self, url: str | None) -> None:
        """Tell other controllers of the same journal where this one answers, as soon as that can be written."""
        while self._journal.shared and url is not None:
            try:
                await asyncio.to_thread(self._journal.answer_at, url)
            except StoreError as error:
                self._log.warning("where this controller answers cannot be told", why=str(error))
                await self._clock.sleep(ANSWER_AGAIN_S)
            else:
                return

    def drain(self) -> None:
        """Put nothing new on any device, and end once nothing runs."""
        self._draining.set()
        self._pump.post(Drain(), done=lambda _: self._note_end())

    async def written_within(self, limit_s: float) -> bool:
        """Wait so long until the journal has all that the state shows now; whether it has."""
        try:
            async with asyncio.timeout(limit_s):
                await self._pump.written()
        except (TimeoutError, StoreFull):
            return False
        return True

    async def durable_status(self) -> Status:
        """The fleet in numbers as of an entry that the journal has: now or, while it cannot be written, before that."""
        made = self.status()
        if await self.written_within(STATUS_S if self.store_trouble is None else 0):
            self._status = made
            return made
        why = NO_ANSWER if self.store_trouble is None else str(self.store_trouble)
        return replace(self._status, unwritten=why)

    async def _keep_status(self) -> None:
        await self.durable_status()

    def hurry(self) -> None:
        """Leave without what the journal does not take: nothing of it was confirmed."""
        self._hurried = True

    @property
    def hurried(self) -> bool:
        """Whether it leaves so."""
        return self._hurried

    def troubles(self) -> Sequence[str]:
        """What keeps the controller from its work now: its store, nodes it cannot reach or must spare, bad devices."""
        state, late = self._core.state, self._clock.now() - AWAY_S
        away = [
            f"node {name}: {node.trouble}"
            for name, node in state.nodes.items()
            if name in self._links and node.trouble and node.since < late
        ]
        spared = [f"node {name} gets nothing new: {cordons.words(each)}" for name, each in state.cordons.items()]
        spared += [
            f"device {name} gets nothing new: {cordons.words(each)}" for name, each in state.device_cordons.items()
        ]
        spared += [
            fault
            for link in self._links.values()
            if isinstance(link.backend, SelectsGpus)
            for fault in link.backend.selection_faults
        ]
        paused = [
            f"{name} orders nothing new: paused by {config.paused.who}: {config.paused.why}"
            for name, config in state.configs.items()
            if config.paused is not None
        ]
        bad = [f"{name} failed its canary: {each.why}" for name, each in state.trust.proofs.items() if each.failures]
        stores = [*troubles(self._places, self._clock.now(), AWAY_S), *self._scrubber.troubles()]
        own = [str(each) for each in (self.store_trouble, self._cleaner.trouble()) if each is not None]
        rows = [] if self._rows.trouble is None else [self._rows.trouble]
        return [*own, *rows, *away, *stores, *spared, *paused, *bad]

    async def undone(self, names: Iterable[str], since: int) -> Sequence[str]:
        """Those of the jobs `names`, and of all submitted after job number `since`, that are not done; and the configs
        that have not reached their goal, whose jobs count for nothing by themselves."""
        jobs = self._core.state.jobs
        later = (
            job.id for job in jobs.values() if job.number > since and not isinstance(job.spec.payload, StagePayload)
        )
        asked = {*names, *later}
        undone = sorted(asked & {job.id for job in jobs.values() if job.state is not JobState.DONE})
        undone += await self._past.undone(asked - jobs.keys(), since)
        return undone + [f"config {config.name}" for config in self.configs() if config.state in ("open", "missed")]

    @property
    def newest_at(self) -> float:
        """The time of the newest entry, in Unix seconds; 0 before the first. No later entry has an earlier time."""
        return self._core.state.at

    @property
    def newest_job(self) -> int:
        """The number of the job submitted last; 0 before the first."""
        return self._core.state.next_job - 1

    @property
    def is_draining(self) -> bool:
        """Whether the controller has been told to end."""
        return self._draining.is_set()

    async def ended(self, *, until_idle: bool) -> None:
        """Wait until the controller should end: drained, or, with `until_idle`, nothing left to do.

        Raises what ended the controller's own tasks, if something did.
        """
        assert self._running is not None
        self._until_idle = until_idle
        self._note_end()
        over = asyncio.create_task(self._over.wait())
        await asyncio.wait({self._running, over}, return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if self._running.done():
            self._running.result()

    async def copied(self) -> None:
        """Wait until what was made has its copies, as far as the stores answer."""
        await self._replicator.settled()

    async def release_nodes(self) -> None:
        """Let what idles on the nodes end: this controller needs it no more. A node that hangs is not waited for."""
        if not self._links:
            return
        work = {asyncio.create_task(self._release(link), name=link.name): link for link in self._links.values()}
        try:
            done, late = await asyncio.wait(work, timeout=RELEASE_S)
            for task in late:
                self._log.info("not released", node=work[task].name, why=f"it takes more than {RELEASE_S:g} s")
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)
        for task in done:
            task.result()

    async def _release(self, link: Link) -> None:
        try:
            await link.release()
        except LinkError as error:
            self._log.info("not released", node=link.name, why=str(error))

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._pump.run(), name="pump")
            tasks.create_task(self._watch_writer(), name="journal")
            tasks.create_task(self._fitter.run(), name="ratings")
            tasks.create_task(self._planner.run(), name="plans")
            tasks.create_task(self._notifier.run(), name="alerts")
            tasks.create_task(self._vitals.watch(), name="vitals")
            tasks.create_task(self._hearing.run(), name="trainings")
            tasks.create_task(self._replicator.run(), name="copies")
            tasks.create_task(self._stock.run(), name="stock")
            tasks.create_task(self._losses.run(self.record), name="losses")
            tasks.create_task(self._scrubber.run(), name="scrubber")
            tasks.create_task(self._clean(), name="disks")
            tasks.create_task(self._compactor.run(), name="compaction")
            tasks.create_task(self._rows.run(), name="checksums")
            tasks.create_task(self._outputs.run(), name="outputs")
            if self._term.tenure is not None:
                tasks.create_task(hang_up_in_time(self._term.tenure, self._links, self._clock), name="tenure")
            for link in self._links.values():
                tasks.create_task(link.run(self._term.epoch), name=f"link {link.name}")
            snapshots = every(
                SNAPSHOT_CHECK_S,
                "snapshots",
                self._snapshot_if_due,
                clock=self._clock,
                timeout_s=SNAPSHOT_TIMEOUT_S,
                on_failure=self.record,
            )
            tasks.create_task(snapshots, name="snapshots")
            keeping = every(
                STATUS_S, "status", self._keep_status, clock=self._clock, timeout_s=AWAY_S, on_failure=self.record
            )
            tasks.create_task(keeping, name="status")
            tasks.create_task(self._hours.run(self._clock, self.record), name="hours")
            pruner = SnapshotPruner(self._core, self._snapshots)
            tasks.create_task(pruner.run(self._clock, self.record), name="snapshots of jobs")
            secrets = SecretPruner(self._core, self._vault)
            tasks.create_task(secrets.run(self._clock, self.record), name="secrets of jobs")

    async def _clean(self) -> None:
        """Nothing is deleted before it is known what of the copies is not here."""
        if self._term.inherited:
            await inherit(self._journal, self._places, self._verdicts, self._clock, partial(self.record, "copies"))
            self._term.inherited = False
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._cleaner.run(), name="disk")
            tasks.create_task(self._node_cleaner.run(), name="disks of nodes")

    def _learning(self) -> Sequence[tuple[str, str]]:
        jobs = self._core.state.jobs
        running = ((name, jobs[name].attempt) for name in learners.learning(self._core.state))
        return [(name, attempt.id) for name, attempt in running if attempt is not None]

    def _find_alert(self, name: str) -> AlertView | None:
        return alerting.find_alert(self._core.state, self._core.index, name)

    async def _watch_writer(self) -> None:
        assert self._writer_death is not None
        await self._writer_death

    async def _snapshot_if_due(self) -> None:
        seq = self._core.state.seq
        if seq - self._snapshot_seq >= self._snapshot_every:
            before, self._snapshot_seq = self._snapshot_seq, seq
            try:
                await fold_in_background(self._directory.place)
            except StoreBusy as error:
                self._snapshot_seq = before  # it is due still, and nothing is wrong
                self._log.info("a snapshot is made later", why=str(error))
            self._vitals.beat(SNAPSHOTS)

    def _publish(self, entries: Sequence[Entry]) -> None:
        self._past.written(entries[-1].seq)
        self._broadcast.publish(entries)
        if any(type(entry.event) in NOTED for entry in entries):
            self._replicator.wake()
            self._stock.wake()
        self._note_end()

    def _note_end(self) -> None:
        if self._is_over():
            self._over.set()
        else:
            self._over.clear()

    def _retired(self, make: Callable[[NodeSpec, str | None], Backend]) -> Iterator[tuple[str, Backend]]:
        for name in left_behind(self._core, self._fleet_nodes):
            node = self._core.state.nodes[name]
            yield name, make(node.spec, node.agent)

    def _cleaner_here(self, keeping: Keeping, copies: ReplicationRules) -> Cleaner:
        return Cleaner(
            self._journal,
            self._places,
            self._directory.kept,
            copies,
            keeping,
            self._clock,
            now=self._now,
            needs=partial(needs, self._core.state, Orders()),
            targets=lambda: self._core.state.rules.targets,
            tell=self.tell,
            trouble=partial(self.record, "disk"),
            builders=lambda: dict(self._builders_here()),
        )

    def _builders_here(self) -> Iterator[tuple[str, KeepsEnvironments]]:
        """Nodes that build Python environments on the disk of the state directory."""
        for name, link in self._links.items():
            if isinstance(link.backend, KeepsEnvironments) and not isinstance(link.backend, KeepsStock):
                yield name, link.backend

    def _cleaner_of_nodes(self, keeping: Keeping, copies: ReplicationRules) -> NodeCleaner:
        return NodeCleaner(
            {name: link.backend for name, link in self._links.items()},
            Survey({}, self._journal, copies),
            self._places,
            keeping,
            self._clock,
            now=self._now,
            needed=partial(needed_on, self._core.state),
            is_full=partial(is_full, self._core.state),
            targets=lambda: self._core.state.rules.targets,
            tell=self.tell,
            trouble=partial(self.record, "disk"),
        )

    def _linked(self, name: str, backend: Backend) -> Link:
        if isinstance(backend, Remembers):
            backend.remember([batch for batch in self._core.state.batches.values() if batch.node == name])
        gather, tenure = self._gatherer.gather, self._term.tenure
        return Link(name, backend, self._pump, self._clock, self._logs, gather, tenure, self._vault.values)

    def _unseen_nodes(self) -> Iterator[Input]:
        """Nodes of the fleet that never came up: known from the start, so that what keeps them away can be told."""
        for name, link in self._links.items():
            if name not in self._core.state.nodes:
                yield NodeFound(node=NodeSpec(name=name, backend=link.backend.kind, devices=()))

    def _is_over(self) -> bool:
        if self._draining.is_set():
            return is_drained(self._core)
        return self._until_idle and is_done(self._core, self._fleet_nodes)

    def _execute(self, commands: Iterable[Command]) -> None:
        by_node: dict[str, list[NodeCommand]] = {}
        for command in commands:
            if isinstance(command, Fit):
                self._fitter.give(command)
                continue
            if isinstance(command, Solve):
                self._planner.give(command)
                continue
            by_node.setdefault(command.node, []).append(command)
        for node, group in by_node.items():
            if node in self._links:
                self._links[node].give(group)

    def _executing(self) -> Iterator[tuple[str, Backend]]:
        """What runs, and where."""
        for device in self._core.state.devices.values():
            link = self._links.get(device.spec.node)
            if link is not None:
                yield from ((name, link.backend) for name in device.attempts)

    async def _backend_of(self, attempt: str) -> Backend:
        return self._links[await self._node_of(attempt)].backend

    async def _node_of(self, attempt: str) -> str:
        state = (await self.having(job_of(attempt))).state
        job = find_job(state, job_of(attempt))
        is_current = job.attempt is not None and job.attempt.id == attempt
        leased = None if is_current else leased_on(await self.story(job.id), attempt)
        current = job.attempt.device if job.attempt else job.last_device
        device = leased if leased in state.devices else current
        if device is None:
            raise NotFound(f"{attempt} has not been put on a device yet; there is no output")
        node = state.devices[device].spec.node
        if node not in self._links:
            raise LinkLost(f"{attempt} ran on {node}, which is no part of this fleet now")
        return node

    def record(self, where: str, what: str) -> None:
        """Put something of the controller's own that failed on record."""
        self._log.error("trouble", where=where, what=what)
        self._pump.post(Trouble(where=where, what=what))

    def _on_store_trouble(self, error: StoreError | None) -> None:
        self.store_trouble = error
        if error is not None:
            self._log.error("the journal cannot be written; everything waits", why=str(error))

    def _on_damaged_snapshot(self, why: str) -> None:
        self._log.warning("a snapshot is passed over", why=why)

    def _on_writer_death(self, error: Exception) -> None:
        """In the writer's thread, maybe before there is a loop, maybe after."""
        self._fault = error
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._tell_death)

    def _tell_death(self) -> None:
        assert self._writer_death is not None
        if self._fault is not None and not self._writer_death.done():
            self._writer_death.set_exception(self._fault)

    def _close_store(self) -> None:
        written = self._writer.close(HURRIED_S if self._hurried else WRITER_PATIENCE_S)
        try:
            # After an error the state may be ahead of what is written; such a state must never be started from.
            if written and self._journal.newest_seq() == self._core.state.seq:
                self._journal.save_snapshot(snapshot_of(self._core))
        except StoreError as error:
            self._log.warning("no snapshot; the next start replays more", why=str(error))
        trouble = end(self._term, quietly=not written)
        if trouble is not None:
            self._log.warning("others take over a little later", why=str(trouble))
