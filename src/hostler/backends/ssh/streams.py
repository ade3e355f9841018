"""An SSH channel as a pair of asyncio streams, with lines as long as the agent's, and back-pressure both ways.

asyncssh's own readers join what has arrived anew for every packet, which takes a square of time for long lines.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar, cast

import asyncssh

from hostler.backends.channel import DESK_LINE_MAX, LINE_MAX

WINDOW = 8 << 20
"""Bytes that may be on their way to us: what a line of 1 Gbit/s has under way within 60 ms."""
WAITING_MAX = 8 << 20
"""Bytes of files that wait to be written here; more are not taken from the line."""
AnyPeer = TypeVar("AnyPeer", bound="Peer")


class Peer(asyncssh.SSHUNIXSession[bytes], asyncssh.SSHClientSession[bytes]):
    """One channel, to a socket or to a program; `streams` once it is open. What goes to standard error is lost."""

    def __init__(self, longest: int = LINE_MAX) -> None:
        self._reader = asyncio.StreamReader(limit=longest)
        self._protocol = asyncio.StreamReaderProtocol(self._reader)
        self._channel: asyncio.Transport | None = None

    def connection_made(self, chan: Any) -> None:
        """The channel is there."""
        # It has every method of a transport that streams use.
        self._channel = cast(asyncio.Transport, chan)
        self._protocol.connection_made(self._channel)

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Something came."""
        if datatype is None:
            self._protocol.data_received(data)

    def eof_received(self) -> bool:
        """The other side has said everything; there is still something to be told."""
        return bool(self._protocol.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is gone; readers and writers are told so as with any socket."""
        self._protocol.connection_lost(None if exc is None else ConnectionError(str(exc)))

    def pause_writing(self) -> None:
        """Too much waits to be sent."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """There is room again."""
        self._protocol.resume_writing()

    def streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To read from, and to write to."""
        return self._reader, self.writer()

    def writer(self) -> asyncio.StreamWriter:
        """To write to."""
        assert self._channel is not None
        return asyncio.StreamWriter(self._channel, self._protocol, self._reader, asyncio.get_running_loop())


class DeskPeer(Peer):
    """A channel to the desk of a cluster, whose answers may be long."""

    def __init__(self) -> None:
        super().__init__(DESK_LINE_MAX)


class Pieces(Peer):
    """A channel whose bytes are read as they came, never copied together: for files."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._is_paused = False
        self._is_over = False
        self._broken: Exception | None = None
        self._news = asyncio.Event()

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Something came."""
        if datatype is not None:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size > WAITING_MAX and not self._is_paused:
            assert self._channel is not None
            self._is_paused = True
            self._channel.pause_reading()
        self._news.set()

    def eof_received(self) -> bool:
        """The other side has said everything."""
        self._is_over = True
        self._news.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """The channel is gone."""
        self._is_over, self._broken = True, exc
        self._news.set()
        super().connection_lost(exc)

    async def read(self, n: int) -> bytes:
        """The next piece, at most so many bytes of it; nothing at the end. Raises `ConnectionError`."""
        await self._wait()
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        if len(piece) > n:
            self._pieces.appendleft(piece[n:])
            piece = piece[:n]
        self._took(len(piece))
        return piece

    async def readline(self) -> bytes:
        """A line with its end, or what there was before the end. Raises `ConnectionError`."""
        parts, size = list[bytes](), 0
        while not (parts and parts[-1].endswith(b"\n")):
            if size > LINE_MAX:
                raise ValueError(f"a line is longer than {LINE_MAX} bytes")
            await self._wait()
            if not self._pieces:
                break
            piece = self._pieces.popleft()
            end = piece.find(b"\n") + 1
            if end and end < len(piece):
                self._pieces.appendleft(piece[end:])
                piece = piece[:end]
            parts.append(piece)
            size += len(piece)
            self._took(len(piece))
        return b"".join(parts)

    async def _wait(self) -> None:
        while not self._pieces and not self._is_over:
            self._news.clear()
            await self._news.wait()
        if not self._pieces and self._broken is not None:
            raise ConnectionError(str(self._broken))

    def _took(self, count: int) -> None:
        self._size -= count
        if self._is_paused and self._size < WAITING_MAX // 2:
            assert self._channel is not None
            self._is_paused = False
            self._channel.resume_reading()


async def open_socket(connection: asyncssh.SSHClientConnection, path: str, kind: Callable[[], AnyPeer]) -> AnyPeer:
    """A channel to a Unix socket of the node. Raises `asyncssh.Error`."""
    _, peer = await connection.create_unix_connection(kind, path, encoding=None, window=WINDOW)
    return cast(AnyPeer, peer)


async def open_program(connection: asyncssh.SSHClientConnection, command: str, kind: Callable[[], AnyPeer]) -> AnyPeer:
    """A channel from the output and to the input of a program. Raises `asyncssh.Error`."""
    _, peer = await connection.create_session(kind, command, encoding=None, window=WINDOW)
    return cast(AnyPeer, peer)
