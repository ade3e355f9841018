"""Hostler's side of benchmarks/ssh.py: one node behind SSH, driven as the controller drives it, without its core."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from hostler.backends.base import Store
from hostler.backends.packing import Packer
from hostler.backends.ssh import Network, SshNode
from hostler.model.codec import digest
from hostler.model.commands import AttemptOrder, ChunkOrder, WorkerOrder
from hostler.model.files import Fetch
from hostler.model.inputs import Ended, Input, LinkUp, Searched

if TYPE_CHECKING:
    from tests.backends.ssh.sshd import Sshd

Told = TypeVar("Told", LinkUp, Searched, Ended)
WINDOW = 400
"""Chunks that are out at a time."""
PARAMS = {"what": "nothing"}


class Ours:
    """A linked node, whose agent ends with it."""

    def __init__(self, server: Sshd) -> None:
        self._network = Network(server.habits())
        self._store = Store(results=server.folder / "results", artifacts=server.folder / "artifacts")
        self._node = SshNode(
            "bench",
            server.target(),
            self._network,
            controller="bench",
            folder=f"{server.folder}/agent",
            packer=Packer(),
            store=self._store,
            python=sys.executable,
        )
        self._news: asyncio.Queue[Input] = asyncio.Queue()
        self._attempts = 0

    async def __aenter__(self) -> Ours:
        self._watching = asyncio.create_task(self._watch())
        await self._next(LinkUp)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._node._open_channel().send({"type": "shutdown", "when": "now"})
        await asyncio.wait({self._watching}, timeout=10)
        self._watching.cancel()
        await self._network.close()

    async def round_trip(self) -> None:
        """One request, one answer."""
        await self._node._open_channel().ask(
            {"type": "read", "attempt": "none", "stream": "out", "offset": 0, "limit": 1}
        )

    async def search(self, count: int) -> None:
        """So many chunks on one warm worker, always some waiting there."""
        worker = WorkerOrder(
            id="w-bench",
            queue="cpu0",
            argv=(sys.executable, str(Path(__file__).with_name("noop_worker.py"))),
            env={},
            digest=digest(PARAMS),
            params=PARAMS,
            silence_s=30.0,
            start_s=60.0,
        )
        lent = done = 0
        while done < count:
            some = [ChunkOrder(id=f"c.{n}", start=n, stop=n + 1) for n in range(lent, min(count, done + WINDOW))]
            if some:
                await self._node.lend(worker, some)
                lent += len(some)
            await self._next(Searched)
            done += 1

    async def leave(self, source: Path) -> str:
        """An attempt that has left what is in a folder, by links to the same files; its name."""
        self._attempts += 1
        name = f"j{self._attempts}.1"
        order = AttemptOrder(
            id=name,
            queue="cpu0",
            argv=("cp", "-rl", str(source), "."),
            env={},
            cwd=None,
            walltime_s=None,
            memory_bytes=None,
            grace_s=1.0,
            inputs=None,
        )
        await self._node.launch([order])
        ended = await self._next(Ended)
        assert ended.exit_code == 0, ended
        return name

    async def warm(self) -> None:
        """A connection for files that is kept, as it is between two jobs that leave some."""
        await self._node.keep([], ())

    async def pull(self, attempt: str, target: Path) -> None:
        """Fetch all of it, and put it in its place."""
        await self._node.fetch(attempt, Fetch(outputs=(target.name,)), None)
        (self._store.results / attempt / target.name).rename(target)

    async def _watch(self) -> None:
        async for report in self._node.observe(1):
            for each in report.inputs:
                self._news.put_nowait(each)
            if report.receipt is not None:
                await self._node.acknowledge(report.receipt)

    async def _next(self, kind: type[Told]) -> Told:
        while True:
            async with asyncio.timeout(60):
                told = await self._news.get()
            if isinstance(told, kind):
                return told
