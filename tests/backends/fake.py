"""A backend without a node: everything happens in this process, when the test says so.

It is the proof that the seam of `backends/base.py` is enough: the controller cannot tell it from a real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hostler.backends.base import Report
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.errors import LinkLost, NotFound
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.inputs import Ended, Input, LinkUp, NodeFound, Returned, Searched, Started, WorkerRefused
from hostler.model.views import LogChunk
from hostler.model.work import DeviceKind

Behave = Callable[[AttemptOrder], Ended | None]


def succeed(order: AttemptOrder) -> Ended:
    """Every attempt ends well at once; its result is its command."""
    return Ended(attempt=order.id, started_at=1.0, ended_at=2.0, exit_code=0, result=list(order.argv))


class FakeNode:
    """A node of `slots` CPU slots. `behave` says how an attempt ends; `None` lets it run until `finish`."""

    kind = "fake"

    def __init__(self, name: str = "fake", slots: int = 2, behave: Behave = succeed) -> None:
        self.name = name
        self.slots = slots
        self.behave = behave
        self.agent = "agent-1"
        self.reachable = True
        self.epochs: list[int] = []
        self.launched: list[str] = []
        self.stopped: list[str] = []
        self.recalled: list[str] = []
        self.closed: list[str] = []
        self.acknowledged = 0
        self.running: dict[str, AttemptOrder] = {}
        self.chunks: dict[str, tuple[WorkerOrder, ChunkOrder]] = {}
        self.hold_chunks = False
        self.released = False
        self._facts: list[tuple[int, Input]] = []
        self._sequence = 0
        self._news = asyncio.Event()

    async def probe(self) -> NodeSpec:
        self._require_link()
        devices = tuple(
            DeviceSpec(id=f"{self.name}/cpu{at}", node=self.name, kind=DeviceKind.CPU, index=at)
            for at in range(self.slots)
        )
        return NodeSpec(name=self.name, backend="fake", devices=devices)

    async def launch(self, orders: Sequence[AttemptOrder]) -> Sequence[Ended]:
        self._require_link()
        for order in orders:
            if order.id in self.launched:
                continue
            self.launched.append(order.id)
            self.running[order.id] = order
            self.tell(Started(attempt=order.id, pid=1, pid_start=1))
            ended = self.behave(order)
            if ended is not None:
                self.finish(ended)
        return ()

    async def observe(self, epoch: int) -> AsyncIterator[Report]:
        self._require_link()
        self.epochs.append(epoch)
        yield Report(inputs=(NodeFound(node=await self.probe()), self._inventory()))
        sent = self.acknowledged
        while True:
            for number, fact in [each for each in self._facts if each[0] > sent]:
                sent = number
                yield Report(inputs=(fact,), receipt=number)
            self._news.clear()
            await self._news.wait()
            self._require_link()

    async def stop(self, attempts: Sequence[str], reason: str) -> None:
        self._require_link()
        for name in attempts:
            self.stopped.append(name)
            known = name in self.running
            self.finish(Ended(attempt=name, ended_at=3.0, signal=15, reason="stopped" if known else "unknown"))

    async def lend(self, worker: WorkerOrder, chunks: Sequence[ChunkOrder]) -> Sequence[WorkerRefused]:
        self._require_link()
        for chunk in chunks:
            self.chunks[chunk.id] = (worker, chunk)
            if not self.hold_chunks:
                self.search(chunk.id)
        return ()

    async def recall(self, chunks: Sequence[str], reason: str) -> None:
        self._require_link()
        for name in chunks:
            self.recalled.append(name)
            self.chunks.pop(name, None)
            self.tell(Returned(chunk=name, reason="recalled"))

    async def trim(self, ends: Mapping[str, int]) -> None:
        self._require_link()
        for name, stop in ends.items():
            if name in self.chunks:
                worker, chunk = self.chunks[name]
                self.chunks[name] = worker, replace(chunk, stop=stop)

    async def close_worker(self, worker: str) -> None:
        self.closed.append(worker)

    async def acknowledge(self, receipt: int) -> None:
        self.acknowledged = receipt
        self._facts = [each for each in self._facts if each[0] > receipt]

    async def read_log(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk:
        if attempt not in self.launched:
            raise NotFound(f"no output of {attempt}")
        return LogChunk(attempt=attempt, stream=stream, offset=0, data=b"hello", size=5, ended=True)

    async def release(self) -> None:
        self.released = True

    def finish(self, ended: Ended) -> None:
        """An attempt's process ends."""
        self.running.pop(ended.attempt, None)
        self.tell(ended)

    def search(self, chunk: str, hits: tuple[dict[str, Any], ...] = ()) -> None:
        """A worker finishes a chunk."""
        worker, order = self.chunks.pop(chunk)
        self.tell(
            Searched(chunk=chunk, digest=worker.digest, start=order.start, stop=order.stop, hits=hits, elapsed_s=0.001)
        )

    def tell(self, fact: Input) -> None:
        """Something happened on the node."""
        self._sequence += 1
        self._facts.append((self._sequence, fact))
        self._news.set()

    def cut(self) -> None:
        """The link breaks; the node lives on."""
        self.reachable = False
        self._news.set()

    def mend(self) -> None:
        """The link can be had again."""
        self.reachable = True

    def _inventory(self) -> LinkUp:
        unacknowledged = {fact.attempt for _, fact in self._facts if isinstance(fact, Ended)}
        answered = {fact.chunk for _, fact in self._facts if isinstance(fact, Searched | Returned)}
        return LinkUp(
            node=self.name,
            agent=self.agent,
            incarnation=1,
            boot="boot",
            attempts=(*self.running, *sorted(unacknowledged)),
            chunks=(*self.chunks, *sorted(answered)),
        )

    def _require_link(self) -> None:
        if not self.reachable:
            raise LinkLost(f"{self.name} cannot be reached")
