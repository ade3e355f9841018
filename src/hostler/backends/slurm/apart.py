"""A partition whose shared file system is not this machine's: what work needs goes there, what it leaves comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Unpack

from hostler.backends.agented import Options
from hostler.backends.base import Store
from hostler.backends.carrier import Carrier, unchanged
from hostler.backends.courier import Courier
from hostler.backends.packing import Packer
from hostler.backends.remote import Streams, dialling
from hostler.backends.slurm.cluster import Cluster
from hostler.backends.slurm.parsing import NodeRow, PartitionRecord
from hostler.backends.slurm.pool import SlurmPool
from hostler.backends.slurm.terms import Terms
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import FilesError, LinkError
from hostler.model.files import Fetch, FileRef
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import WorkerRefused

Open = Callable[[], Awaitable[Streams]]


class Freight:
    """The files of a cluster, as all its pools share them. `open_files` makes a connection for files there."""

    def __init__(self, name: str, open_files: Open, packer: Packer, store: Store) -> None:
        self._name = name
        self._open = open_files
        self.carrier = Carrier(self._courier, _none_for_much, packer, store)
        self._kept: dict[str, tuple[str, ...]] = {}
        self._pools: set[str] = set()
        self._laid: set[str] = set()
        """Attempts that something is laid out for by this very process."""
        self._sweeps: dict[str, set[str]] = {}
        """The pools that need what this very process has laid out for the workers of a sweep."""
        self._tidying = asyncio.Lock()

    def join(self, pool: str) -> None:
        """A pool keeps its files there, too."""
        self._pools.add(pool)

    async def keep(self, pool: str, wanted: Sequence[str]) -> None:
        """Of what was laid out, only that of these attempts and sweeps is needed still by the pool.

        The other pools have a say, too.
        """
        self._kept[pool] = tuple(wanted)
        for sweep in self._sweeps.keys() - set(wanted):
            self._give_up(sweep, pool)
        if self._kept.keys() >= self._pools:
            async with self._tidying:
                kept = (name for names in self._kept.values() for name in names)
                await self.carrier.keep([*self._laid, *self._sweeps, *kept])

    async def supply(self, order: AttemptOrder, root: str) -> AttemptOrder:
        """Bring the folder, the program and the artifacts of an order there."""
        async with self._tidying:  # nobody may delete what is laid out from now on
            self._laid.add(order.id)
        return await self.carrier.attempt(order, root)

    async def supply_worker(self, pool: str, order: WorkerOrder, root: str) -> WorkerOrder:
        """Bring the folder and the program of a worker of the pool there."""
        if order.sweep is not None:
            async with self._tidying:
                self._sweeps.setdefault(order.sweep, set()).add(pool)
        return await unchanged(lambda: self.carrier.worker(order, root))

    async def clear(self, pool: str, name: str) -> None:
        """Let go of what was laid out for an attempt, or for the workers of a sweep once no other pool needs it."""
        self._laid.discard(name)
        self._give_up(name, pool)
        if name not in self._sweeps:
            await self.carrier.clear(name)

    def _give_up(self, sweep: str, pool: str) -> None:
        users = self._sweeps.get(sweep, set())
        users.discard(pool)
        if not users:
            self._sweeps.pop(sweep, None)

    async def _courier(self) -> Courier:
        async with dialling(self._name):
            courier = Courier(self._name, *await self._open())
            try:
                await courier.greet(0, guest=False)
            except BaseException:
                courier.close()
                raise
            return courier


async def _none_for_much() -> None:
    """No connection is better at many bytes than another."""


class ApartPool(SlurmPool):
    """`SlurmPool` elsewhere."""

    apart = True

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        use: Terms,
        freight: Freight,
        *,
        python: str = "python3",
        **options: Unpack[Options],
    ) -> None:
        super().__init__(name, cluster, use, python=python, **options)
        self._freight = freight
        freight.join(name)

    async def supply(self, order: AttemptOrder) -> AttemptOrder:
        """Bring the folder, the program and the artifacts of an order there."""
        return await self._freight.supply(order, self._root())

    async def lend(self, worker: WorkerOrder, chunks: Sequence[ChunkOrder]) -> Sequence[WorkerRefused]:
        """Queue chunks; the worker's program is brought there first."""
        try:
            brought = await self._freight.supply_worker(self.name, worker, self._root())
        except LinkError:
            self.hang_up()  # chunks are lent once for each link: one that brings no files must not go on
            raise
        except FilesError as error:
            return [WorkerRefused(worker=worker.id, error=str(error))]
        return await super().lend(brought, chunks)

    async def fetch(self, attempt: str, what: Fetch, cwd: str | None) -> tuple[FileRef, ...]:
        """Bring what an attempt has left here."""
        return await self._freight.carrier.fetch(attempt, what)

    async def clear(self, attempt: str) -> None:
        """Let go of what was laid out for an attempt, or for the workers of a sweep."""
        await self._freight.clear(self.name, attempt)

    async def keep(self, attempts: Sequence[str], sweeps: Sequence[str]) -> None:
        """Let go of what was laid out for all others."""
        await self._freight.keep(self.name, (*attempts, *sweeps))

    def _described(self, hosts: Sequence[NodeRow], limits: PartitionRecord) -> NodeSpec:
        """Its files are its own."""
        return replace(super()._described(hosts, limits), apart=True)

    def _root(self) -> str:
        return str(self._cluster.desk.hello["root"])
