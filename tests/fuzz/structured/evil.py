"""A node that reports what it is given: the product's own backend of a remote node over streams in this process."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from hostler.backends.base import Report, Store
from hostler.backends.canaries import Canaries
from hostler.backends.channel import LINE_MAX, Channel, opened
from hostler.backends.packing import Packer
from hostler.backends.remote import RemoteNode, Streams
from hostler.model.commands import CanaryOrder
from hostler.model.errors import LinkLost
from hostler.model.work import DeviceKind
from hostler.runtime.statedir import StateDir

Answer = Callable[[dict[str, Any]], bytes | None]
"""What is said to a request: lines and the bytes between them; `None`: nothing."""

CONTENT = b"abc"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SLOTS = 3


@dataclass
class Turn:
    """One connection of the node: its lines, and what it answers to requests on it and on those for files."""

    lines: bytes
    answer: Answer | None = None
    """What is answered on the connection of the agent, which hangs up after the answer; `None`: it hangs up at once."""
    files: Answer | None = None
    stays: bool = False
    """Whether it stays until it is told to hang up."""
    is_over: bool = False
    """Whether the node has hung up."""
    over: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    reader: asyncio.StreamReader | None = None
    couriers: int = 0
    """Connections for files that have been closed again."""

    def hang_up(self) -> None:
        """End the connection."""
        self.stays, self.is_over = False, True
        if self.reader is not None:
            self.reader.feed_eof()


class Ear(asyncio.Transport):
    """Hears each line of the controller; bytes of files between them are passed over."""

    def __init__(self, hear: Callable[[dict[str, Any]], None], closed: Callable[[], None]) -> None:
        super().__init__()
        self._hear = hear
        self._closed = closed
        self._is_closing = False
        self._rest = b""
        self._skip = 0

    def write(self, data: Any) -> None:
        """Hear what the data ends."""
        self._rest += bytes(data)
        while self._rest:
            if self._skip:
                skipped = min(self._skip, len(self._rest))
                self._rest, self._skip = self._rest[skipped:], self._skip - skipped
                continue
            line, end, rest = self._rest.partition(b"\n")
            if not end:
                return
            self._rest = rest
            said = json.loads(line)
            if said.get("op") == "put":
                self._skip = said["size"] - said["offset"]
            self._hear(said)

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self._is_closing

    def close(self) -> None:
        """Hear no more."""
        if not self._is_closing:
            self._is_closing = True
            self._closed()

    abort = close


def _streams(
    hear: Callable[[dict[str, Any]], None], closed: Callable[[], None], reader: asyncio.StreamReader
) -> Streams:
    loop = asyncio.get_running_loop()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport = Ear(hear, closed)
    protocol.connection_made(transport)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)

    async def drain() -> None:
        """There is always room."""

    writer.drain = drain  # type: ignore[method-assign]
    return reader, writer


class Evil(RemoteNode):
    """The node. It connects once for each turn that it is given, and reports what that says."""

    kind = "dialin"

    def __init__(self, name: str, directory: StateDir) -> None:
        store = Store(results=directory.results, artifacts=directory.artifacts)
        super().__init__(name, packer=Packer(), controller="fuzz", store=store, log_bytes=1 << 16)
        self._turns: asyncio.Queue[Turn] = asyncio.Queue()
        self._turn: Turn | None = None

    async def take(self, turn: Turn) -> None:
        """Have a turn taken; returns when its connection is over."""
        self._turns.put_nowait(turn)
        await turn.over.wait()

    def begin(self, turn: Turn) -> None:
        """Have a turn taken that stays."""
        self._turns.put_nowait(turn)

    async def connect(self, epoch: int) -> Channel:
        """The connection of the next turn."""
        self._epoch = epoch
        turn = self._turn = await self._turns.get()
        turn.reader = reader = asyncio.StreamReader(limit=LINE_MAX)
        reader.feed_data(turn.lines)
        if turn.is_over or (turn.answer is None and not turn.stays):
            turn.hang_up()
        return await opened(*_streams(lambda said: self._hear(turn, said), lambda: None, reader), "fuzz", epoch)

    async def observe(self, epoch: int) -> AsyncGenerator[Report, None]:
        """What the turn reports, until it is over."""
        try:
            async with aclosing(super().observe(epoch)) as reports:
                async for report in reports:
                    yield report
                    if self._turn is not None:
                        self._turn.begun.set()
        finally:
            if self._turn is not None:
                self._turn.over.set()
                self._turn.begun.set()
            self._turn = None

    def _hear(self, turn: Turn, said: dict[str, Any]) -> None:
        reader = turn.reader
        if turn.answer is None or reader is None or turn.is_over:
            return
        answer = turn.answer(said)
        if answer is not None:
            reader.feed_data(answer)
            if not turn.stays:
                turn.hang_up()

    async def _further(self) -> Streams:
        turn = self._turn
        if turn is None or turn.files is None:
            raise LinkLost(f"{self.name} takes no files now")
        reader = asyncio.StreamReader(limit=LINE_MAX)

        def hear(said: dict[str, Any]) -> None:
            reader.feed_data((turn.files and turn.files(said)) or b"")

        def closed() -> None:
            turn.couriers += 1
            if not reader.at_eof():
                reader.feed_eof()

        return _streams(hear, closed, reader)

    def _agent_folder(self) -> str:
        return "/nowhere"

    async def _upgrade(self, channel: Channel) -> None:
        """A device is asked to prove itself, under a number that reports can name."""
        order = CanaryOrder(device=f"{self.name}/cpu0", queue="cpu0", kind=DeviceKind.CPU, argv=("say",), env={})
        self._canaries = Canaries(self.name, channel.hello)
        self._canaries.ask(1, order)
