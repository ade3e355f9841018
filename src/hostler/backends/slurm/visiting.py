"""A visit to a cluster: tiny jobs, run as all work is, in a folder and under names of their own; nothing is left of it.

A controller that uses the same partitions is not disturbed: it knows its batches by their tokens, and these by none.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Set
from contextlib import aclosing, asynccontextmanager, suppress

from hostler.backends.slurm.cluster import Cluster, Key, Look
from hostler.backends.slurm.desk import Desk, News
from hostler.backends.slurm.errors import SlurmDown, SlurmRefused
from hostler.backends.slurm.parsing import JobRecord, QueueRow
from hostler.backends.slurm.pool import SlurmPool
from hostler.model.commands import AttemptOrder
from hostler.model.errors import FilesError, LinkError
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Closed, Ended, Input, NodeFound, PoolSeen, Requested, Started, Submitted
from hostler.model.pools import Seen, SlotPhase
from hostler.model.record import entity

GUEST = "visit"
EPOCH = 1
RUNS_S = 120.0
"""A tiny job that has begun takes no longer: starting Python on a busy file system, at worst."""
ASK_S = 3.0
"""How often Slurm is asked for a job that has not begun."""
LAST_WORDS_S = 6.0
"""What a job says that is over comes through the shared folder so much later at most."""
SETTLES_S = 60.0
"""For so long it is waited for what became of a job that is over: the pool waits for its last words, first."""
GENTLY_S = 10.0
"""For so long allocations that have nothing left to do may end by themselves."""
LEAVES_S = 30.0
"""For so long what was started is cancelled again and again, until the queue does not have it any more."""
STEP_S = 0.3
REMOVE_S = 60.0
FOLDER = re.compile(r"/check-[0-9a-f]{8}")
"""What the name of the folder ends with: it is deleted with all that is in it."""


@entity
class Tried:
    """A tiny job, and what became of it as far as anybody knows. Times are of the clock here."""

    attempt: str
    slot: str
    token: str | None = None
    wants: str | None = None
    """What was asked of the cluster, in words."""
    job: str | None = None
    """What the cluster calls it."""
    says: str | None = None
    """What the cluster said of it last, while it waited."""
    asked_at: float
    began_at: float | None = None
    ended_at: float | None = None
    end: Ended | None = None
    late: str | None = None
    """Why it was not waited for any longer."""
    record: JobRecord | None = None
    """What Slurm had to say of it last, before it began or was given up."""

    @property
    def has_begun(self) -> bool:
        """Whether it was heard of."""
        return self.began_at is not None or self.end is not None

    @property
    def waited_s(self) -> float | None:
        """How long it was in the queue; `None`: it was there to its end."""
        return None if self.began_at is None else self.began_at - self.asked_at

    @property
    def ran_s(self) -> float | None:
        """How long its allocation took for it."""
        return None if self.began_at is None or self.ended_at is None else self.ended_at - self.began_at


class Guest:
    """A member of the cluster that wants to know nothing; the desk stays for it."""

    def __init__(self) -> None:
        self.why_lost: str | None = None

    def is_mine(self, token: str) -> bool:
        """None is."""
        return False

    def heard(self, news: News) -> None:
        """Never called."""

    def looked(self, look: Look) -> None:
        """Somebody else waits for that."""

    def lost(self, why: str) -> None:
        """The desk is gone."""
        self.why_lost = why

    def awaited(self) -> Mapping[str, str | None]:
        """Nothing."""
        return {}

    def missing(self, known: Set[Key]) -> Mapping[str, float]:
        """Nothing."""
        return {}


class Host:
    """One pool while it is visited: takes what it reports, and knows what became of each order."""

    def __init__(self, pool: SlurmPool, cluster: Cluster) -> None:
        self.pool = pool
        self._cluster = cluster
        self._tried: dict[str, Tried] = {}
        self._changed = asyncio.Condition()
        self._spec: NodeSpec | None = None
        self._lost: LinkError | None = None
        self._open: dict[str, str | None] = {}
        self._reading: asyncio.Task[None] | None = None

    async def begin(self) -> NodeSpec:
        """The partition with its slots. Raises `LinkLost`, `LinkRefused`."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        await self._until(lambda: self._spec is not None)
        assert self._spec is not None
        return self._spec

    async def attempt(self, order: AttemptOrder, wait_s: float) -> Tried:
        """Run an order to its end; one that has not begun after so long is taken back. Raises `LinkLost`."""
        tried = Tried(attempt=order.id, slot=order.queue, asked_at=self._cluster.clock.now())
        self._tried[order.id] = tried
        await self.pool.launch([order])
        try:
            if not await self._begins(tried, wait_s):
                tried.late = f"nothing was heard of it within {wait_s:g} s"
            elif not await self._within(RUNS_S, lambda: tried.end is not None):
                tried.late = f"it began, and told nothing of its end within {RUNS_S:g} s"
        finally:
            if tried.end is None:
                await self._take_back(tried)
        await self._within(SETTLES_S, lambda: tried.end is not None)
        return tried

    def unfinished(self) -> dict[str, str | None]:
        """Batches that are not over, each with what the cluster calls it."""
        return dict(self._open)

    async def release(self) -> None:
        """Have allocations end that wait for more work."""
        with suppress(LinkError):
            await self.pool.release()

    async def end(self) -> None:
        """Hear no more."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})

    async def _begins(self, tried: Tried, wait_s: float) -> bool:
        """Whether it begins, or ends, in so much time; one of which Slurm says that it is over is not waited for."""
        clock = self._cluster.clock
        until, over_since = clock.now() + wait_s, None
        while not await self._within(min(ASK_S, max(until - clock.now(), 0)), lambda: tried.has_begun):
            await self._ask(tried)
            over_since = over_since or clock.now() if tried.record is not None and tried.record.state.over else None
            if clock.now() >= until or (over_since is not None and clock.now() - over_since >= LAST_WORDS_S):
                return tried.has_begun
        return True

    async def _ask(self, tried: Tried) -> None:
        """What Slurm itself says of the job."""
        if tried.job is None:
            return
        with suppress(SlurmDown, SlurmRefused):
            rows = (await self._cluster.slurm.jobs([tried.job])).rows
            tried.record = next((row for row in rows if tried.token in (None, row.name)), tried.record)

    async def _take_back(self, tried: Tried) -> None:
        with suppress(LinkError):
            await self.pool.stop([tried.attempt], tried.late or "it is not waited for any longer")

    async def _within(self, patience_s: float, question: Callable[[], bool]) -> bool:
        try:
            async with asyncio.timeout(patience_s):
                await self._until(question)
        except TimeoutError:
            return False
        return True

    async def _until(self, question: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._lost is not None or question())
        if self._lost is not None and not question():
            raise self._lost

    async def _read(self) -> None:
        try:
            async with aclosing(self.pool.observe(EPOCH)) as reports:
                async for report in reports:
                    if report.receipt is not None:
                        await self.pool.acknowledge(report.receipt)  # nothing here is to outlive this process
                    await self._take_all(report.inputs)
        except LinkError as error:
            async with self._changed:
                self._lost = error
                self._changed.notify_all()

    async def _take_all(self, inputs: tuple[Input, ...]) -> None:
        async with self._changed:
            for given in inputs:
                self._take(given)
            self._changed.notify_all()

    def _take(self, given: Input) -> None:
        now = self._cluster.clock.now()
        match given:
            case NodeFound(node=spec):
                self._spec = spec
            case Requested(token=token, tasks=tasks, wants=wants):
                self._open[token] = None
                for tried in (self._tried[name] for task in tasks for name in task.attempts if name in self._tried):
                    tried.token, tried.wants = token, wants
            case Submitted(token=token, job=job):
                self._open[token] = job
                for tried in (each for each in self._tried.values() if each.token == token):
                    tried.job = job
            case Closed(token=token):
                self._open.pop(token, None)
            case Started(attempt=name) if name in self._tried:
                self._tried[name].began_at = self._tried[name].began_at or now
            case Ended(attempt=name) if name in self._tried:
                self._tried[name].end, self._tried[name].ended_at = given, now
            case PoolSeen(seen=seen):
                self._see(seen, now)

    def _see(self, seen: Seen, now: float) -> None:
        for tried in (each for each in self._tried.values() if each.end is None and each.slot in seen.slots):
            slot = seen.slots[tried.slot]
            if slot.phase is SlotPhase.UP:
                tried.began_at = tried.began_at or now
            else:
                tried.says = slot.says


class Visit:
    """One cluster, visited. `hosts` has its pools by name."""

    def __init__(self, cluster: Cluster, guest: Guest, pools: Mapping[str, SlurmPool]) -> None:
        self.cluster = cluster
        self.guest = guest
        self.hosts = {name: Host(pool, cluster) for name, pool in pools.items()}
        self.left: list[str] = []
        """What could not be cancelled, in words."""

    @property
    def desk(self) -> Desk:
        """Raises `LinkLost` where it is gone."""
        return self.cluster.desk

    @property
    def root(self) -> str:
        """The folder of this visit."""
        return str(self.desk.hello["root"])

    async def leave(self, *, gently: bool) -> None:
        """Have everything end, see that it has, and delete the folder. Gently: allocations may end by themselves.

        What is in `left` afterwards goes on, or may.
        """
        try:
            if gently:
                await self._let_end()
            await self._clear_queue()
            for host in self.hosts.values():
                await host.end()
            if not self.left and FOLDER.search(self.root) is not None:
                await self.desk.run(["rm", "-rf", "--", self.root], timeout_s=REMOVE_S)
        except (LinkError, FilesError):
            self.left = self.left or self._names()
        finally:
            for host in self.hosts.values():
                await host.end()

    async def _let_end(self) -> None:
        for host in self.hosts.values():
            await host.release()
        until = self.cluster.clock.now() + GENTLY_S
        while self._unfinished() and self.cluster.clock.now() < until:
            await self.cluster.clock.sleep(STEP_S)

    async def _clear_queue(self) -> None:
        until = self.cluster.clock.now() + LEAVES_S
        while tokens := set(self._unfinished()):
            left = await self._cancelled(tokens)
            if left is not None and not left:
                return
            if self.guest.why_lost is not None or self.cluster.clock.now() > until:
                self.left = self._names() if left is None else sorted(left)
                return
            await self.cluster.clock.sleep(STEP_S)

    def _unfinished(self) -> dict[str, str | None]:
        return {token: job for host in self.hosts.values() for token, job in host.unfinished().items()}

    def _names(self) -> list[str]:
        """What is not over, by its ids, or by its names where it has none."""
        return sorted(job or token for token, job in self._unfinished().items())

    async def _cancelled(self, tokens: Set[str]) -> set[str] | None:
        """Have what the queue has of these cancelled; ids of that, `None` where nobody knows."""
        submitting = [token for token, job in self._unfinished().items() if job is None]
        try:
            listed = await self.cluster.slurm.queue()
            ids = {row.array or row.job for row in _unfinished(listed.rows, tokens)}
            if ids:
                await self.cluster.slurm.cancel(sorted(ids))
        except LinkError:
            return None
        # What is being submitted at this moment has no id yet.
        return ids if ids or not submitting or not listed.whole else None


@asynccontextmanager
async def visiting(cluster: Cluster, pools: Mapping[str, SlurmPool]) -> AsyncIterator[Visit]:
    """Be at a cluster. Whatever ends this, an interruption too: nothing that was started goes on.

    Raises `LinkLost`, `LinkRefused` where there is no desk to be had.
    """
    guest = Guest()
    await cluster.join(GUEST, guest)
    visit = Visit(cluster, guest, pools)
    gently = False
    try:
        yield visit
        gently = True
    finally:
        try:
            await visit.leave(gently=gently)
        finally:
            await cluster.leave(GUEST)


def _unfinished(rows: tuple[QueueRow, ...], tokens: Set[str]) -> Iterator[QueueRow]:
    return (row for row in rows if row.name in tokens and not row.state.over)
