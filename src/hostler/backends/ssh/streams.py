"""An SSH channel as a pair of asyncio streams, with lines as long as the agent's, and back-pressure both ways.

asyncssh's own readers join what has arrived anew for every packet, which takes a square of time for long lines.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import asyncssh

from hostler.backends.channel import LINE_MAX


class Peer(asyncssh.SSHUNIXSession[bytes], asyncssh.SSHClientSession[bytes]):
    """One channel, to a socket or to a program; `streams` once it is open. What goes to standard error is lost."""

    def __init__(self) -> None:
        self._reader = asyncio.StreamReader(limit=LINE_MAX)
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
        assert self._channel is not None
        writer = asyncio.StreamWriter(self._channel, self._protocol, self._reader, asyncio.get_running_loop())
        return self._reader, writer


async def open_socket(
    connection: asyncssh.SSHClientConnection, path: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Streams to a Unix socket of the node. Raises `asyncssh.Error`."""
    _, peer = await connection.create_unix_connection(Peer, path, encoding=None)
    return cast(Peer, peer).streams()


async def open_program(
    connection: asyncssh.SSHClientConnection, command: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Streams from the output and to the input of a program. Raises `asyncssh.Error`."""
    _, peer = await connection.create_session(Peer, command, encoding=None)
    return cast(Peer, peer).streams()
