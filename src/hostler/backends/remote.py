"""A node with files of its own: what work needs goes there and what it leaves comes back, over further streams."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeAlias, Unpack
from weakref import WeakSet

from hostler.backends.agented import AgentedNode, Options
from hostler.backends.base import Facts, Removed, Stock
from hostler.backends.carrier import Carrier, unchanged
from hostler.backends.courier import Courier, Reader
from hostler.backends.packing import Packer
from hostler.model.commands import AttemptOrder, WorkerOrder
from hostler.model.errors import FilesError, LinkLost, LinkRefused
from hostler.model.files import Fetch, FileRef
from hostler.model.fleet import NodeSpec

DIAL_S = 20.0
COMING, COMING_S = 50, 0.1
"""How often it is looked whether a link comes up, and after what, by who wants to keep files: at the start none is."""
Streams: TypeAlias = tuple[Reader, asyncio.StreamWriter]


class RemoteNode(AgentedNode):
    """`AgentedNode` elsewhere. A subclass says how to get one more stream to the agent, and where its folder is.

    Whoever connects sets `_epoch`.
    """

    apart = True

    def __init__(self, name: str, *, packer: Packer, python: str = "python3", **others: Unpack[Options]) -> None:
        super().__init__(name, python=python, **others)
        self._carrier = Carrier(self._courier, self._courier_for_much, packer, others["store"], self._bounds.outputs)
        self._epoch = 0
        self._shelves: WeakSet[Courier] = WeakSet()
        """Connections for folders in which copies are kept."""

    @abstractmethod
    async def _further(self) -> Streams:
        """One more stream to the agent. Raises `LinkLost`, also where the node is not connected, and `OSError`."""

    @abstractmethod
    def _agent_folder(self) -> str:
        """Where the agent is on the node, as an absolute path. Raises `LinkLost` where the node is not connected."""

    def describe(self, facts: Facts) -> NodeSpec:
        """The node; its files are its own."""
        return replace(super().describe(facts), apart=True)

    async def supply(self, order: AttemptOrder) -> AttemptOrder:
        """Bring the folder, the program and the artifacts of an order there."""
        return await self._carrier.attempt(order, self._agent_folder())

    async def fetch(self, attempt: str, what: Fetch, cwd: str | None) -> tuple[FileRef, ...]:
        """Bring what an attempt has left here."""
        return await self._carrier.fetch(attempt, what)

    async def clear(self, attempt: str) -> None:
        """Let go of what was laid out for an attempt, or for the workers of a sweep."""
        await self._carrier.clear(attempt)

    async def keep(self, attempts: Sequence[str], sweeps: Sequence[str]) -> None:
        """Let go of what was laid out for all others."""
        await self._carrier.keep((*attempts, *sweeps))

    async def stock(self, after: str, limit: int) -> Stock:
        """The artifacts that lie there, a page of them."""
        return await self._carrier.stock(after, limit)

    async def drop(self, names: Sequence[str], unused_s: float) -> Removed:
        """Have artifacts removed there, but for those that were used less long ago."""
        return await self._carrier.drop(names, unused_s)

    async def drop_environments(self, wanted_bytes: int, unused_s: float) -> Removed:
        """Have Python environments removed there that were not used of late, until so much more is free."""
        if self._channel is None or not self._channel.hello.get("limits_builds"):
            return Removed(gone={}, left={}, free_bytes=0)
        return await self._carrier.drop_environments(wanted_bytes, unused_s)

    async def shelf(self, root: str) -> Courier:
        """A connection for a folder of the node in which copies are kept; a link that is about to come is awaited."""
        for _ in range(COMING):
            if self._channel is None:
                await asyncio.sleep(COMING_S)
        courier = await self._courier()
        try:
            answer = await courier.ask({"op": "at", "root": root})
        except FilesError as error:
            courier.close()
            raise LinkRefused(f"{root} of {self.name} cannot be used: {error}") from error
        except BaseException:
            courier.close()
            raise
        if answer.get("absent"):
            courier.close()
            raise LinkRefused(f"{root} of {self.name} is not there: make the folder, or mount what it lies on")
        self._shelves.add(courier)
        return courier

    async def _supplied(self, worker: WorkerOrder) -> WorkerOrder:
        """Bring the folder and the program of a worker there."""
        return await unchanged(lambda: self._carrier.worker(worker, self._agent_folder()))

    def _unlinked(self) -> None:
        """Connections for files belong to that of the agent."""
        self._carrier.close()
        for courier in list(self._shelves):
            courier.close()
        self._shelves.clear()

    async def _courier(self) -> Courier:
        """A connection for files, greeted."""
        async with dialling(self.name):
            return await self._courier_over(await self._further(), guest=False)

    async def _courier_for_much(self) -> Courier | None:
        """A connection for many bytes, greeted; `None`: there is none that is better at it."""
        return None

    async def _courier_over(self, streams: Streams, *, guest: bool) -> Courier:
        courier = Courier(self.name, *streams)
        try:
            await courier.greet(self._epoch, guest=guest)
        except BaseException:
            courier.close()
            raise
        return courier


@asynccontextmanager
async def dialling(where: str) -> AsyncIterator[None]:
    """What can go wrong as a connection for files is made is a lost link."""
    try:
        async with asyncio.timeout(DIAL_S):
            yield
    except TimeoutError as error:
        raise LinkLost(f"the agent on {where} takes no files within {DIAL_S:g} s") from error
    except OSError as error:
        raise LinkLost(f"no connection for files to {where}: {error}") from error
