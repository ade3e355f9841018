"""A pool on a cluster that does what a test tells it: what it tells the core, in order, and when that is durable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from hostler.backends.base import Store
from hostler.backends.slurm import submitting
from hostler.backends.slurm.cluster import Cluster
from hostler.backends.slurm.commands import Slurm
from hostler.backends.slurm.desk import Desk
from hostler.backends.slurm.pool import SlurmPool
from hostler.backends.slurm.resources import Place
from hostler.backends.slurm.script import Site
from hostler.backends.slurm.terms import Terms
from hostler.model.batch import SHARES, Ask
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import LinkError
from hostler.model.inputs import Closed, Ended, Input, LinkUp, PoolSeen, Requested, Returned, Submitted
from hostler.model.pools import Mode, SlotSeen
from hostler.model.work import DeviceKind, WorkKind

from .scripted import PATIENCE_S, Agent, Job, Post, Table, until

Told = TypeVar("Told")


class RealClock:
    """The time of the system plus `ahead_s`, which a test increases where it would have to wait."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now(self) -> float:
        return time.time() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def terms(mode: Mode = "job", **more: Any) -> Terms:
    """Of a partition whose work of every kind goes one way."""
    given: dict[str, Any] = {
        "place": Place(partition="gpu", shares=SHARES),
        "site": Site(folder="/"),
        "modes": dict.fromkeys(WorkKind, mode),
        "max_jobs": 100,
        "max_pending": 10,
        "pilot_s": 3600.0,
        "pilot_idle_s": 1.0,
        "slot_cpus": 4,
    }
    return Terms(**{**given, **more})


def an_ask(**more: Any) -> Ask:
    return Ask(**{"work": WorkKind.SCRIPT, "kind": DeviceKind.CUDA, "devices": 1, **more})


def order(name: str, queue: str = "cuda0", argv: Sequence[str] = ("true",), **more: Any) -> AttemptOrder:
    given: dict[str, Any] = {
        "id": name, "queue": queue, "argv": tuple(argv), "env": {}, "cwd": None, "walltime_s": None,
        "memory_bytes": None, "grace_s": 1.0, "inputs": None, "ask": an_ask(**more.pop("wants", {})),
    }  # fmt: skip
    return AttemptOrder(**{**given, **more})


def worker(name: str = "w-j9-gpu-cuda0", queue: str = "cuda0", **more: Any) -> WorkerOrder:
    given: dict[str, Any] = {
        "id": name, "queue": queue, "argv": ("w",), "env": {}, "digest": "d", "params": {}, "silence_s": 9.0,
        "start_s": 9.0, "ask": an_ask(work=WorkKind.SWEEP),
    }  # fmt: skip
    return WorkerOrder(**{**given, **more})


def chunks(*names: str) -> tuple[ChunkOrder, ...]:
    return tuple(ChunkOrder(id=name, start=0, stop=100) for name in names)


class Stage:
    """One pool, and what it has told. With `durable` off, nothing that it tells becomes so by itself."""

    def __init__(self, path: Path, use: Terms, post: Post | None = None, table: Table | None = None) -> None:
        self.post = post or Post()
        self.table = table or Table()
        self.told: list[Input] = []
        self.receipts: list[int] = []
        self.durable = True
        self.lost: list[str] = []
        self.desks: list[Desk] = []
        self.clock = RealClock()
        self.cluster = Cluster("hpc", self.clock, open_desk=self._open, slurm_at=self._slurm_at, poll_s=0.03)
        self.pool = self.another("gpu", path, use)
        self._epoch = 0
        self._observing: asyncio.Task[None] | None = None

    def another(self, name: str, path: Path, use: Terms) -> SlurmPool:
        """A pool of the same cluster."""
        store = Store(results=path / "results", artifacts=path / "artifacts")
        return SlurmPool(name, self.cluster, use, controller="test", store=store)

    async def _open(self, on_news: Any, on_lost: Any) -> Desk:
        self.desks.append(await self.post.opened(on_news, on_lost))
        return self.desks[-1]

    def _slurm_at(self, desk: Desk) -> Slurm:
        return self.table  # type: ignore[return-value]

    # --- the link -------------------------------------------------------------------------------------------------

    async def join(self) -> LinkUp:
        """Observe, anew if need be, until the link is up."""
        before = len(self.all(LinkUp))
        self._epoch += 1
        self._observing = asyncio.create_task(self._observe())
        await until(lambda: len(self.all(LinkUp)) > before or (self._observing is not None and self._observing.done()))
        return self.all(LinkUp)[before]

    async def _observe(self) -> None:
        try:
            async for report in self.pool.observe(1):
                self.told.extend(report.inputs)
                if report.receipt is not None:
                    self.receipts.append(report.receipt)
                    if self.durable:
                        await self.pool.acknowledge(report.receipt)
        except LinkError as error:
            self.lost.append(str(error))

    async def broken(self) -> None:
        """Wait for the end of the link."""
        assert self._observing is not None
        async with asyncio.timeout(PATIENCE_S):
            await self._observing

    async def cut(self) -> LinkUp:
        """Lose the desk, and join anew."""
        self.post.hang_up()
        await self.broken()
        return await self.join()

    async def leave(self) -> None:
        """End it, as a controller that is killed: nobody is told anything."""
        if self._observing is not None:
            self._observing.cancel()
            with suppress(asyncio.CancelledError):
                await self._observing
        for desk in self.desks:
            desk.close()
            await desk.ended()

    async def acknowledge(self) -> None:
        """Everything is durable now."""
        for receipt in self.receipts:
            await self.pool.acknowledge(receipt)

    # --- what it has told -----------------------------------------------------------------------------------------

    def all(self, kind: type[Told]) -> list[Told]:
        return [each for each in self.told if isinstance(each, kind)]

    async def first(self, kind: type[Told], fits: Callable[[Any], bool] = lambda _each: True) -> Told:
        """The first of its kind that fits."""
        found: list[Told] = await until(lambda: [each for each in self.all(kind) if fits(each)])
        return found[0]

    async def ended(self, attempt: str) -> Ended:
        """How an attempt ended; it is told once."""
        await self.first(Ended, lambda each: each.attempt == attempt)
        (end,) = [each for each in self.all(Ended) if each.attempt == attempt]
        return end

    async def returned(self, chunk: str) -> Returned:
        await self.first(Returned, lambda each: each.chunk == chunk)
        (back,) = [each for each in self.all(Returned) if each.chunk == chunk]
        return back

    async def closed(self, count: int = 1) -> None:
        """Wait until so many batches are over."""
        await until(lambda: len(self.all(Closed)) >= count)

    async def looks(self, count: int = 2) -> None:
        """Wait for so many more looks at the queue to be over."""
        seen = self.table.calls["squeue"]
        self.cluster.hurry()
        await until(lambda: self.table.calls["squeue"] > seen + count)

    async def rest(self) -> None:
        """Wait for as long as a submission takes, where there must be none."""
        await asyncio.sleep(5 * submitting.GATHER_S)

    def slot(self, queue: str = "cuda0") -> SlotSeen | None:
        """What is shown of a slot now."""
        return self.all(PoolSeen)[-1].seen.slots.get(queue)

    # --- common beginnings ----------------------------------------------------------------------------------------

    async def submitted(self, *orders: AttemptOrder) -> str:
        """Launch these and wait until they are submitted; the token of the last batch."""
        before = len(self.all(Submitted))
        await self.pool.launch(orders)
        await until(lambda: len(self.all(Submitted)) > before)
        return self.all(Submitted)[-1].token

    async def lent(self, *names: str) -> str:
        """The same of chunks."""
        before = len(self.all(Submitted))
        await self.pool.lend(worker(), chunks(*names))
        await until(lambda: len(self.all(Submitted)) > before)
        return self.all(Submitted)[-1].token

    def job(self, token: str, task: int | None = None) -> Job:
        return self.table.of(token, task)

    async def begun(self, token: str, task: int = 0, run: int = 0) -> Agent:
        """A task of it begins, and its agent is reached."""
        job = self.table.of(token, task if self.table.of(token).task is not None else None)
        job.state = "RUNNING"
        more = {} if job.task is None else {"array_job": job.id}
        agent = self.post.begin(token, job.id, task, run, **more)
        await until(lambda: agent.requests)
        return agent

    async def running(self, token: str, attempt: str, **more: int) -> Agent:
        """The same; its agent has begun an attempt."""
        agent = await self.begun(token, **more)
        agent.attempts.append({"id": attempt, "begun": True, "started_at": 1.0, "exit": None})
        return agent

    @property
    def requested(self) -> Requested:
        """The newest batch that was asked for."""
        return self.all(Requested)[-1]


@asynccontextmanager
async def stage(path: Path, mode: Mode = "job", **more: Any) -> AsyncIterator[Stage]:
    """A pool whose link is up."""
    made = Stage(path, terms(mode, **more))
    await made.join()
    try:
        yield made
    finally:
        await made.leave()
