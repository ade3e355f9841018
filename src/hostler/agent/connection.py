"""The stream to the controller: sockets, lines, and no waiting on either side."""

from __future__ import annotations

import os
import socket
from typing import Callable, List, Optional

from .loop import READ, WRITE, Loop
from .protocol import MAX_REQUEST_BYTES, SOCKET_NAME, Json, LineBuffer, LineTooLong, line

_RECEIVE_BYTES = 1 << 16
_FULL_BYTES = 8 << 20
_LONGEST_PATH = 100
_REST_WITHIN_S = 10.0


class Connection:
    """One accepted connection. ``on_line(connection, line)`` is called for every line that comes.

    ``on_close(connection)`` is called once, when the other side or an error ended it. While the other side does not
    read what it is sent, nothing more is read from it. A line that grows too long is answered by an error and read to
    its end before the hang-up: a side that is still writing it would not come to read the error.
    """

    def __init__(
        self,
        loop: Loop,
        peer: socket.socket,
        on_line: Callable[[Connection, bytes], None],
        on_close: Callable[[Connection], None],
    ) -> None:
        self._loop = loop
        self._peer = peer
        self._on_line = on_line
        self._on_close = on_close
        self._lines = LineBuffer(MAX_REQUEST_BYTES)
        self._unsent = bytearray()
        self._events = READ
        self._is_ending = False
        self.is_open = True
        self.sent_seq = 0
        peer.setblocking(False)
        loop.watch(peer.fileno(), self._on_ready)

    @property
    def backlog(self) -> int:
        """Bytes the other side has not taken yet."""
        return len(self._unsent)

    def send(self, message: Json) -> None:
        """Send one message."""
        self.send_line(line(message))

    def send_line(self, data: bytes) -> None:
        """Send one encoded line, end included."""
        if not self.is_open:
            return
        waiting = bool(self._unsent)
        self._unsent += data
        if not waiting:
            self._flush()

    def close(self) -> None:
        """Hang up; ``on_close`` is not called."""
        if self.is_open:
            self.is_open = False
            self._loop.unwatch(self._peer.fileno())
            self._peer.close()

    def detach(self) -> socket.socket:
        """The socket, which waits again, for somebody else; ``on_close`` is not called."""
        self.is_open = False
        self._loop.unwatch(self._peer.fileno())
        self._peer.setblocking(True)
        return self._peer

    def _on_ready(self, events: int) -> None:
        if events & WRITE:
            self._flush()
        if events & ~WRITE and self.is_open and len(self._unsent) < _FULL_BYTES:
            self._receive()

    def _receive(self) -> None:
        try:
            data = self._peer.recv(_RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._fail()
            return
        for item in self._lines_of(data):
            if self.is_open:
                self._on_line(self, item)

    def _lines_of(self, data: bytes) -> List[bytes]:
        if not self._is_ending:
            try:
                return self._lines.feed(data)
            except LineTooLong as error:
                self._is_ending = True
                self.send({"type": "error", "error": "%s; the connection is closed" % error, "request": None})
                self._loop.call_later(_REST_WITHIN_S, self._fail)
        if b"\n" in data:
            self._fail()
        return []

    def _flush(self) -> None:
        try:
            sent = self._peer.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._fail()
            return
        del self._unsent[:sent]
        events = 0 if len(self._unsent) >= _FULL_BYTES else READ
        events |= WRITE if self._unsent else 0
        if events != self._events:
            self._events = events
            self._loop.watch(self._peer.fileno(), self._on_ready, events)

    def _fail(self) -> None:
        if self.is_open:
            self.close()
            self._on_close(self)


def connect(directory: str, timeout_s: Optional[float] = None, name: str = SOCKET_NAME) -> socket.socket:
    """A socket connected to the agent of ``directory``, however long that path is; raises OSError if none listens.

    Another ``name`` is that of another socket there.
    """
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.settimeout(timeout_s)
    folder = None
    try:
        path = os.path.join(directory, name)
        if len(os.fsencode(path)) > _LONGEST_PATH:  # sun_path holds 108 bytes, unix(7)
            folder = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            path = "/proc/self/fd/%d/%s" % (folder, name)
        peer.connect(path)
    except OSError:
        peer.close()
        raise
    finally:
        if folder is not None:
            os.close(folder)
    return peer


def listen(directory: str, name: str = SOCKET_NAME) -> socket.socket:
    """A listening socket in ``directory``, for its owner only. The working directory becomes ``directory``.

    The lock of the directory must be held: whatever socket lies there is taken for a dead agent's.
    """
    os.chdir(directory)
    if os.path.lexists(name):
        os.unlink(name)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(name)
    finally:
        os.umask(mask)
    listener.listen(16)
    listener.setblocking(False)
    return listener
