"""A cluster, as its pools share it: one desk, and one look at its queue for all of them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from typing import Protocol, TypeAlias, TypeVar

import structlog

from hostler.backends.slurm.commands import Slurm
from hostler.backends.slurm.desk import Desk, News
from hostler.backends.slurm.errors import NoAccounting, SlurmDown, SlurmRefused
from hostler.backends.slurm.parsing import AccountingRow, JobRecord, NodeRow, PartitionRecord, QueueRow
from hostler.backends.slurm.spans import number
from hostler.backends.slurm.states import HOPELESS, Outcome, Phase, State
from hostler.model.errors import FilesError, LinkError, LinkLost
from hostler.model.record import record

KEPT_S = 7 * 86400.0
"""Scripts, and what Slurm keeps of their output, are there for so long after a batch is over."""
TIDY_EVERY_S = 86400.0
SETTLED_S = 600.0
ARRAY_MAX = 1000
"""Tasks of one array: what clusters allow unless they were told otherwise (`MaxArraySize` 1001)."""
HOSTS_EVERY_S = 300.0
"""How often it is asked how busy the hosts are, and for the rules of partitions: administrators change them."""
ANEW_S = 60.0
"""How old that may be where it does not fit: a partition is not there, or has what can never begin in it."""
SOON_S = 2.0
"""What has just happened is looked at so soon, within the budget."""

Row = TypeVar("Row", QueueRow, AccountingRow, JobRecord, AccountingRow | JobRecord)


class Clock(Protocol):
    """The clock of the controller."""

    def now(self) -> float:
        """Unix seconds."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""


Key: TypeAlias = tuple[str, int]
"""A task: the token of its batch, which is the name of the job, and its place there."""


@record
class Verdict:
    """What became of a task that is not in the queue any more."""

    state: State
    words: str
    again: bool = False
    """Whether the cluster begins it anew by itself."""


@record
class Look:
    """The queue of the cluster, as it was seen: our tasks by job name and index, and what became of others."""

    asked_at: float
    """When it was asked: of what has happened since then, it tells nothing."""
    rows: Mapping[Key, QueueRow]
    verdicts: Mapping[Key, Verdict]
    names: Mapping[Key, tuple[str, ...]] = field(default_factory=dict)
    """What Slurm calls tasks that wait: of what was submitted more than once, all of them."""


class Member(Protocol):
    """A pool, as the cluster sees it."""

    def is_mine(self, token: str) -> bool:
        """Whether the batch is one of its own."""

    def heard(self, news: News) -> None:
        """A batch job of it has told something."""

    def looked(self, look: Look) -> None:
        """The queue was looked at."""

    def lost(self, why: str) -> None:
        """The desk is gone."""

    def awaited(self) -> Mapping[str, str | None]:
        """Batches that are not over: their names, and what the cluster calls them, if that is known."""

    def missing(self, known: Set[Key]) -> Mapping[str, float]:
        """Jobs of which nothing is known, though somebody wants to know; each with when it was asked for."""


class Cluster:
    """What pools of one cluster have in common. `open_desk` makes a desk, `slurm_at` gives commands through one."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        *,
        open_desk: Callable[[Callable[[News], None], Callable[[str], None]], Awaitable[Desk]],
        slurm_at: Callable[[Desk], Slurm],
        poll_s: float,
    ) -> None:
        self.name = name
        self.clock = clock
        self._open_desk = open_desk
        self._slurm_at = slurm_at
        self._poll_s = poll_s
        self._members: dict[str, Member] = {}
        self._desk: Desk | None = None
        self._slurm: Slurm | None = None
        self._opening = asyncio.Lock()
        self._describing = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()
        self._hosts: tuple[float, Sequence[NodeRow]] | None = None
        self._limits: tuple[float, Sequence[PartitionRecord]] | None = None
        self._array_max: tuple[Desk, int] | None = None
        self._accounts = True
        self._numbers = itertools.count(1)
        self.trouble: str | None = None
        """Why what is known of the queue may be old."""
        self._log = structlog.get_logger()

    @property
    def desk(self) -> Desk:
        """Raises `LinkLost` where there is none."""
        if self._desk is None:
            raise LinkLost(f"cluster {self.name} is not connected")
        return self._desk

    @property
    def slurm(self) -> Slurm:
        """Raises `LinkLost` where there is no desk to give commands through."""
        if self._slurm is None:
            raise LinkLost(f"cluster {self.name} is not connected")
        return self._slurm

    async def join(self, name: str, member: Member) -> None:
        """Be told what concerns a pool. Raises `LinkLost`, `LinkRefused` where there is no desk to be had."""
        async with self._opening:
            if self._desk is None:
                desk = await self._open_desk(self._heard, self._lost)
                self._desk, self._slurm = desk, self._slurm_at(desk)
                self._tidying = asyncio.create_task(self._tidy(desk))
            self._members[name] = member
            if self._looking is None or self._looking.done():
                self._looking = asyncio.create_task(self._look_on())
                self._looking.add_done_callback(self._looked_on)

    async def leave(self, name: str) -> None:
        """Be told no more; with the last one, the desk is closed."""
        self._members.pop(name, None)
        if self._members:
            return
        for task in (self._looking, self._tidying):
            if task is not None:
                task.cancel()
        self._looking = self._tidying = None
        if self._desk is not None:
            desk, self._desk, self._slurm = self._desk, None, None
            desk.close()
            await desk.ended()

    def next_number(self) -> int:
        """For names of streams, no two alike."""
        return next(self._numbers)

    def hurry(self) -> None:
        """Somebody waits for what the queue says."""
        self._wanted.set()

    async def hosts(self, within_s: float = HOSTS_EVERY_S) -> Sequence[NodeRow]:
        """The hosts of the cluster; what is not older than that is not asked for again."""
        async with self._describing:
            now = self.clock.now()
            if self._hosts is None or now - self._hosts[0] >= within_s:
                self._hosts = now, (await self.slurm.nodes()).rows
            return self._hosts[1]

    def known_hosts(self) -> Sequence[NodeRow] | None:
        """The hosts as they were seen last; `None`: never."""
        return None if self._hosts is None else self._hosts[1]

    async def partitions(self, within_s: float = HOSTS_EVERY_S) -> Sequence[PartitionRecord]:
        """The rules of its partitions, in the same way."""
        async with self._describing:
            now = self.clock.now()
            if self._limits is None or now - self._limits[0] >= within_s:
                self._limits = now, (await self.slurm.partitions()).rows
            return self._limits[1]

    def known_partitions(self) -> Sequence[PartitionRecord]:
        """The rules as they were told last; none: never."""
        return () if self._limits is None else self._limits[1]

    async def array_max(self) -> int:
        """The most tasks of one array, asked for once on each desk: they count from 0 to `MaxArraySize` less one.

        Where that cannot be asked now, it is what clusters usually allow: what is too much is refused, and divided.
        """
        async with self._describing:
            if self._array_max is None or self._array_max[0] is not self.desk:
                try:
                    said = (await self.slurm.config()).get("MaxArraySize", "")
                except (SlurmDown, SlurmRefused) as error:
                    self._log.info("MaxArraySize cannot be asked", cluster=self.name, why=str(error))
                    return ARRAY_MAX
                self._array_max = self.desk, _most_tasks(said)
            return self._array_max[1]

    async def look(self) -> Look:
        """Look at the queue, and at what became of tasks that are not in it any more."""
        slurm, members, asked_at = self.slurm, list(self._members.values()), self.clock.now()
        listed = await slurm.queue()
        if not listed.whole:
            raise SlurmDown(f"squeue was not understood: {listed.unread[0]!r}; it is asked again")
        rows = _by_task([row for row in listed.rows if not row.state.over])
        over = _by_task([row for row in listed.rows if row.state.over])
        verdicts = {key: _verdict(row) for key, row in over.items()}
        known = {*rows, *verdicts}
        asked = {job: since for member in members for job, since in member.missing(known).items()}
        if asked:
            verdicts |= await self._verdicts(slurm, sorted(asked), min(asked.values()))
        return Look(asked_at=asked_at, rows=rows, verdicts=verdicts, names=_waiting(listed.rows))

    async def _tidy(self, desk: Desk) -> None:
        """Delete the scripts and logs of batches that nobody will ask for any more, once a day.

        Not at once: other pools of the cluster may still be on their way, and say then what is theirs.
        """
        await self.clock.sleep(SETTLED_S)
        while True:
            kept = [token for member in self._members.values() for token in member.awaited()]
            try:
                await desk.tidy(KEPT_S, kept)
            except FilesError as error:
                self._log.warning("old batches cannot be deleted", cluster=self.name, why=str(error))
            except LinkError:
                return
            await self.clock.sleep(TIDY_EVERY_S)

    async def _look_on(self) -> None:
        """Look at the cluster from time to time: at its hosts, and at its queue if anything of ours may be there."""
        while True:
            hurried = await self._rest()
            try:
                look = await self._news()
            except (SlurmDown, SlurmRefused) as error:
                self._note(str(error))
                continue
            except LinkError as error:
                self._note(str(error))
                return
            self.trouble = None
            if look is not None:
                for member in list(self._members.values()):
                    member.looked(look)
            if hurried:
                await self.clock.sleep(SOON_S)

    async def _news(self) -> Look | None:
        """What a look tells; `None`: there was nothing to look at."""
        before, now = self._hosts, self.clock.now()
        await self.hosts()
        await self.partitions()
        if any(member.awaited() for member in self._members.values()):
            look = await self.look()
            if any(row.reason in HOPELESS for row in look.rows.values()):
                await self.partitions(ANEW_S)
            return look
        return None if self._hosts is before else Look(asked_at=now, rows={}, verdicts={})

    def _looked_on(self, task: asyncio.Task[None]) -> None:
        """It ends with the desk; anything else ends the link, which says why, and begins it anew."""
        if self._looking is task:
            self._looking = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._lost(f"its queue cannot be looked at: {type(error).__name__}: {error}")

    async def _rest(self) -> bool:
        """Wait for the next look; whether somebody was in a hurry."""
        rest = asyncio.create_task(self.clock.sleep(self._poll_s))
        wanted = asyncio.create_task(self._wanted.wait())
        try:
            done, _ = await asyncio.wait({rest, wanted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            rest.cancel()
            wanted.cancel()
        if wanted in done and rest not in done:
            await self.clock.sleep(min(SOON_S, self._poll_s))
        self._wanted.clear()  # who is in a hurry from now on wants to know more than this look tells
        return wanted in done

    async def _verdicts(self, slurm: Slurm, jobs: Sequence[str], since: float) -> dict[Key, Verdict]:
        """By accounting; where there is none, by what the controller of the cluster still remembers."""
        rows: Sequence[AccountingRow | JobRecord] | None = None
        if self._accounts:
            try:
                rows = (await slurm.accounting(jobs, since)).rows
            except NoAccounting as error:
                self._log.info("no accounting", cluster=self.name, why=str(error))
                self._accounts = error.configured
            except (SlurmDown, SlurmRefused) as error:  # a database that hangs must not hide the queue, nor no sacct
                self._log.info("accounting does not answer", cluster=self.name, why=str(error))
                self._accounts = isinstance(error, SlurmDown)
        if rows is None:
            rows = (await slurm.jobs(jobs)).rows
        return {key: _verdict(row) for key, row in _by_task([row for row in rows if row.name is not None]).items()}

    def _note(self, why: str) -> None:
        if why != self.trouble:
            self._log.warning("the queue cannot be looked at", cluster=self.name, why=why)
        self.trouble = why

    def _heard(self, news: News) -> None:
        for member in self._members.values():
            if member.is_mine(news.token):
                member.heard(news)

    def _lost(self, why: str) -> None:
        if self._desk is None:
            return
        desk, self._desk, self._slurm = self._desk, None, None
        self._hosts, self._limits, self._accounts = None, None, True
        if self._tidying is not None:
            self._tidying.cancel()
        desk.close()
        for member in list(self._members.values()):
            member.lost(f"the desk of cluster {self.name} is gone: {why}")


def _by_task(rows: Sequence[Row]) -> dict[Key, Row]:
    """By our names of tasks. Of jobs that were submitted twice all but one have nothing to do: that one counts."""
    found: dict[Key, Row] = {}
    for row in rows:
        for key in _tasks(row):
            if key not in found or _tells(row) >= _tells(found[key]):
                found[key] = row
    return found


def _tells(row: QueueRow | AccountingRow | JobRecord) -> tuple[bool, bool]:
    """The more, the rather it is this one that has done anything."""
    return row.state.phase not in (Phase.WAITING, Phase.OVER), row.state.outcome is not Outcome.COMPLETED


def _tasks(row: QueueRow | AccountingRow | JobRecord) -> Iterator[Key]:
    """Our names of what a row is about: a block of an array that waits is one row for many tasks."""
    for task in row.tasks or (0,):
        yield row.name or "", task


def name_in_queue(row: QueueRow, task: int) -> str:
    """What Slurm calls one of the tasks that a row is about."""
    return row.job if row.array is None else f"{row.array}_{task}"


def _waiting(rows: Sequence[QueueRow]) -> dict[Key, tuple[str, ...]]:
    found: dict[Key, tuple[str, ...]] = {}
    for row in rows:
        for key in _tasks(row) if row.state.phase is Phase.WAITING else ():
            found[key] = (*found.get(key, ()), name_in_queue(row, key[1]))
    return found


def _verdict(row: QueueRow | AccountingRow | JobRecord) -> Verdict:
    return Verdict(state=row.state, words=f"Slurm job {row.job} was {row.state.text}")


def _most_tasks(size: str) -> int:
    """By `MaxArraySize`. Where there are no arrays at all, each task is one of its own, and sbatch says the rest."""
    known = number(size)
    return ARRAY_MAX if known is None else max(1, min(ARRAY_MAX, known))
