"""Streams: connections to the agent of an allocation, carried by pairs of files on a shared file system.

``NAME.in`` is what is said to the agent, and whoever writes it makes it; ``NAME.out`` is what the agent says. Who hangs
up makes ``NAME.bye``. When the agent has hung up and all it has said is in ``NAME.out``, there is a ``NAME.closed``.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
from typing import Callable, Dict, List, Optional

from .connection import connect
from .loop import READ, WRITE, Loop, Timer
from .node import log
from .pace import Pace
from .protocol import is_id
from .shared import names, publish, read_on, scrub, write_on

FIRST = "first"
"""The stream of what was to be said before anybody knew where the agent would be."""
SHORTEST_PAUSE_S = 0.02
"""Between two looks while there is news. A look is a listing, and three system calls for each stream: next to nothing
on a local disk, a few round trips of NFS. Shorter pauses would cost the file server of many allocations too much."""
LONGEST_PAUSE_S = 0.5
"""In silence: what is said then has been waiting for longer than that."""
_COPY_BYTES = 1 << 18
_MOST_UNWRITTEN_BYTES = 8 << 20
_RETRY_S = 1.0
_STEP_S = 0.05


class Stream:
    """One of them. ``on_news`` is called when the agent has said something."""

    def __init__(self, loop: Loop, directory: str, source: str, target: str, on_news: Callable[[], None]) -> None:
        self._loop = loop
        self._directory = directory
        self._source = source
        self._target = target
        self._on_news = on_news
        self._peer: Optional[socket.socket] = None
        self._read = 0
        self._unsent = memoryview(b"")
        self._written = 0
        self._unwritten = bytearray()
        self._retry: Optional[Timer] = None
        self._is_leaving = False
        self._is_over = False
        self.is_closed = False

    def poll(self, is_leaving: bool) -> bool:
        """Carry what has been written for the agent, if anything was; with ``is_leaving`` nothing more will be."""
        if self._is_over or (self._peer is None and not self._connect()):
            return False
        self._is_leaving = self._is_leaving or is_leaving
        before = self._read
        self._carry()
        return self._read > before

    def has_carried(self, size: int) -> bool:
        """Whether the agent has taken the first ``size`` bytes, or will take no more."""
        if self._is_over:
            return True
        return self._peer is not None and self._read - len(self._unsent) >= size and _is_taken(self._peer)

    def end(self) -> None:
        """The agent is gone: there is nothing to be carried to it any more."""
        if self._peer is None and not self._is_over:
            self._hang_up()

    def _connect(self) -> bool:
        try:
            self._peer = connect(self._directory, 0.0)  # an agent that hangs must not keep the others waiting
        except OSError:  # it is not up yet, or again
            return False
        self._loop.watch(self._peer.fileno(), self._on_ready)
        return True

    def _on_ready(self, events: int) -> None:
        if events & WRITE:
            self._carry()
        if events & ~WRITE and self._peer is not None:
            self._receive(self._peer)

    def _carry(self) -> None:
        """To the agent, as long as there is anything and it takes it."""
        while self._peer is not None and (self._unsent or self._fetch()):
            try:
                self._unsent = self._unsent[self._peer.send(self._unsent) :]
            except BlockingIOError:
                break
            except OSError:  # it has hung up; what it has said before that is to be read yet
                self._unsent = memoryview(b"")
                break
        self._watch()

    def _fetch(self) -> bool:
        """Take what has been written to the file meanwhile, if there is anything."""
        try:
            data = read_on(self._source, self._read, _COPY_BYTES)
        except OSError as error:
            log("cannot read %s: %s" % (self._source, error.strerror))
            return False
        if not data and self._is_leaving and self._peer is not None:
            self._shut(self._peer)
        self._read += len(data)
        self._unsent = memoryview(data)
        return bool(data)

    def _shut(self, peer: socket.socket) -> None:
        """The agent hangs up when it reads that this was all."""
        try:
            peer.shutdown(socket.SHUT_WR)
        except OSError:  # it has already
            return

    def _receive(self, peer: socket.socket) -> None:
        try:
            data = peer.recv(_COPY_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._unwritten += data
        if not data:
            self._hang_up()
            return
        self._on_news()
        self._write()
        self._watch()

    def _watch(self) -> None:
        """Nothing more is read while the disk does not take what has been."""
        if self._peer is None:
            return
        events = READ if len(self._unwritten) < _MOST_UNWRITTEN_BYTES else 0
        events |= WRITE if self._unsent else 0
        if events:
            self._loop.watch(self._peer.fileno(), self._on_ready, events)
        else:  # that somebody has hung up is told again and again, wanted or not
            self._loop.unwatch(self._peer.fileno())

    def _hang_up(self) -> None:
        if self._peer is not None:
            self._loop.unwatch(self._peer.fileno())
            self._peer.close()
        self._peer, self._is_over = None, True
        self._write()

    def _write(self) -> None:
        """Put what the agent has said where others read it. What the disk does not take stays, and is tried again."""
        if self._retry is not None:
            return
        try:
            if self._unwritten:
                write_on(self._target + ".out", self._written, bytes(self._unwritten))
                self._written += len(self._unwritten)
                self._unwritten.clear()
            if self._is_over and not self.is_closed:
                publish(self._target + ".closed", b"")
                self.is_closed = True
                scrub(self._source, self._read)
        except OSError as error:
            log("cannot write %s.out: %s; it is tried again" % (self._target, error.strerror))
            self._retry = self._loop.call_later(_RETRY_S, self._write_again)

    def _write_again(self) -> None:
        self._retry = None
        self._write()
        self._watch()


class Streams:
    """All streams of a run. ``first`` is the file of the stream that is said first, where there is such a one."""

    def __init__(self, loop: Loop, directory: str, first: Optional[str], on_first_said: Callable[[], None]) -> None:
        self._loop = loop
        self._directory = directory
        self._folder = directory + "/streams"
        self._first = first
        self._on_first_said = on_first_said
        self._first_size = _size(first)
        self._is_first_said = False
        self._streams: Dict[str, Stream] = {}
        self._pace = Pace(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)
        self._next: Optional[Timer] = None
        self.poll()

    def poll(self) -> None:
        """Look what has been written for the agent, and again after a pause, a longer one if there was nothing."""
        if self._next is not None:
            self._next.cancel()
        self._next = self._loop.call_later(self._pace.next(self._look()), self.poll)

    def finish(self, until: float) -> bool:
        """The agent is gone: write what it has said, and close all streams. Whether that was done in time."""
        if self._next is not None:
            self._next.cancel()
        self._look()
        while True:
            for stream in self._streams.values():
                stream.end()
            if all(stream.is_closed for stream in self._streams.values()):
                return True
            if self._loop.monotonic() > until:
                return False
            self._loop.turn(_STEP_S)

    def _look(self) -> bool:
        try:
            found = names(self._folder)
            self._open(found)
        except OSError as error:
            log("cannot list %s: %s" % (self._folder, error.strerror))
            return False
        leaving = {name[: -len(".bye")] for name in found if name.endswith(".bye")}
        has_news = [stream.poll(name in leaving) for name, stream in self._streams.items()]
        first = self._streams.get(FIRST)
        if self._first_size == 0 or (first is not None and first.has_carried(self._first_size)):
            self._scrub_first()
            self._is_first_said = True
            self._on_first_said()
        return any(has_news)

    def _scrub_first(self) -> None:
        if self._first is None or self._is_first_said:
            return
        try:
            scrub(self._first, self._first_size)
        except OSError as error:
            log("secrets stay in %s: %s" % (self._first, error.strerror))

    def _open(self, found: List[str]) -> None:
        closed = {name[: -len(".closed")] for name in found if name.endswith(".closed")}
        sources = {name[: -len(".in")]: os.path.join(self._folder, name) for name in found if name.endswith(".in")}
        if self._first is not None and os.path.exists(self._first):
            sources[FIRST] = self._first
            if not self._is_first_said:
                # A newer controller would have the agent refuse what an older one has written there.
                sources = {FIRST: self._first}
        for name, source in sources.items():
            if name not in self._streams and name not in closed and is_id(name):
                target = os.path.join(self._folder, name)
                self._streams[name] = Stream(self._loop, self._directory, source, target, self._on_news)

    def _on_news(self) -> None:
        """The agent has spoken, and will be answered soon."""
        is_slow, pause_s = self._pace.is_slow, self._pace.hurry()
        if is_slow and self._next is not None:
            self._next.cancel()
            self._next = self._loop.call_later(pause_s, self.poll)


def _size(path: Optional[str]) -> int:
    """Of a file that may not be there, in bytes."""
    try:
        return 0 if path is None else os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _is_taken(peer: socket.socket) -> bool:
    """Whether the other side has read all it was sent."""
    waiting = struct.unpack("i", fcntl.ioctl(peer.fileno(), termios.TIOCOUTQ, b"\0\0\0\0"))[0]
    return bool(waiting == 0)
