"""The supervisor's side of the recorder: which attempts it notes for, and that there is one."""

from __future__ import annotations

import os
import socket
import struct
from functools import partial
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from . import compiled, files, inotify, procs, recorder
from .connection import Connection, connect, listen
from .node import Node
from .protocol import RequestError, decode

_TELL_S = 0.02
"""Attempts that end within it need no recorder, unless they have written to both streams."""
_CONNECT_S = 2.0
_SETTLE_S = 1.0
_FIRST_REST_S = 0.2
_LONGEST_REST_S = 30.0
_HEALTHY_S = 10.0


class _Watched(NamedTuple):
    folder: str
    number: Optional[int]


class Recording:
    """For each attempt that runs. The recorder is started with the first one, and anew whenever it ends.

    The queue of the kernel's reports is open here, too: what is reported while there is no recorder waits in it.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._queue: Optional[int] = None
        self._peer: Optional[Connection] = None
        self._watched: Dict[str, _Watched] = {}
        self._untold: List[str] = []
        self._settling: Dict[str, Callable[[], None]] = {}
        self._rest_s = _FIRST_REST_S
        self._rests_until = self._connected_at = 0.0
        self._has_timer = False
        self.pids: Set[int] = set()

    def begin(self, name: str, folder: str) -> None:
        """Note the order from now on. The folder is watched when this returns."""
        self._connect()
        self._watched[name] = _Watched(folder, self._watch(folder))
        self._tell_soon(name)

    def settle(self, name: str, then: Callable[[], None]) -> None:
        """An attempt writes no more: call ``then`` when the order of all it wrote is noted, or cannot be, soon."""
        watched = self._watched.get(name)
        if watched is None or self._peer is None or not _has_both(watched.folder):
            then()
            return
        self._settling[name] = then
        self._tell()
        if self._peer is not None:
            self._peer.send({"end": name})
        self._node.later(_SETTLE_S, partial(self._settled, name))

    def forget(self, name: str) -> None:
        """Note no more of it."""
        watched = self._watched.pop(name, None)
        if watched is None:
            return
        if name in self._untold:
            self._untold.remove(name)
        elif self._peer is not None:
            self._peer.send({"end": name})
        if watched.number is not None and self._queue is not None:
            inotify.unwatch(self._queue, watched.number)

    def reaped(self, pid: int) -> bool:
        """Whether this child, which has ended, was a recorder."""
        is_ours = pid in self.pids
        self.pids.discard(pid)
        return is_ours

    def _watch(self, folder: str) -> Optional[int]:
        try:
            return None if self._queue is None else inotify.watch(self._queue, folder)
        except OSError as error:
            self._node.complain("the kernel does not report on %s: %s; it is polled" % (folder, error.strerror))
            return None

    def _tell_soon(self, name: str) -> None:
        if not self._untold:
            self._node.later(_TELL_S, self._tell)
        self._untold.append(name)

    def _tell_after(self, delay_s: float) -> None:
        if not self._has_timer:
            self._has_timer = True
            self._node.later(delay_s, self._tell_again)

    def _tell_again(self) -> None:
        self._has_timer = False
        self._tell()

    def _tell(self) -> None:
        self._connect()
        if self._peer is None or not self._untold:
            return
        names, self._untold = self._untold, []
        self._peer.send({"begin": [[name, *self._watched[name]] for name in names if name in self._watched]})

    def _connect(self) -> None:
        """To the recorder that is there, as of a supervisor before, or to one that is started."""
        if self._peer is not None:
            return
        rest_s = self._rests_until - self._node.loop.monotonic()
        if rest_s > 0:  # a timer may fire a moment early: without another one, no recorder would follow
            self._tell_after(rest_s)
            return
        self._rests_until = self._node.loop.monotonic() + self._rest_s
        self._rest_s = min(2 * self._rest_s, _LONGEST_REST_S)
        try:
            peer = self._found() or self._started()
        except (OSError, procs.SpawnError) as error:
            self._node.complain("the order of outputs is not noted: %s" % error)
            self._tell_after(self._rest_s)
            return
        self._connected_at = self._node.loop.monotonic()
        self._peer = Connection(self._node.loop, peer, self._on_line, self._on_close)

    def _found(self) -> Optional[socket.socket]:
        """The one that a supervisor before has left, with its queue."""
        if self._queue is not None or not os.path.exists(self._node.path(recorder.SOCKET)):
            return None
        peer = None
        try:
            peer = connect(self._node.directory, _CONNECT_S, recorder.SOCKET)
            data, queue = _received(peer)
        except OSError:
            data, queue = b"", None
        if peer is not None and (not data or queue is None):
            peer.close()
            peer = None
        if peer is not None:
            self._queue = queue
        return peer

    def _started(self) -> socket.socket:
        if self._queue is None:
            try:
                self._queue = inotify.opened()
            except OSError as error:
                self._node.complain("the kernel does not report on outputs: %s; they are polled" % error.strerror)
        directory = self._node.directory
        with listen(directory, recorder.SOCKET) as listener:
            queue = self._node.null if self._queue is None else self._queue
            streams = procs.Streams(queue, listener.fileno(), self._node.path("agent.log"))
            env = {**self._node.environ, "PYTHONPATH": compiled.search_path(files.CODE)}
            self.pids.add(procs.spawn(self._node.programs, recorder.command(), env, directory, streams))
        return connect(directory, _CONNECT_S, recorder.SOCKET)

    def _on_line(self, _connection: Connection, data: bytes) -> None:
        try:
            told = decode(data) if data else {}
        except RequestError:
            return
        if "ended" in told:
            self._settled(str(told["ended"]))

    def _settled(self, name: str) -> None:
        then = self._settling.pop(name, None)
        if then is not None:
            then()

    def _on_close(self, _connection: Connection) -> None:
        """It has ended, as nobody asked it to."""
        self._peer = None
        if self._node.loop.monotonic() - self._connected_at > _HEALTHY_S:
            self._rest_s = _FIRST_REST_S
        for name in list(self._settling):
            self._settled(name)
        self._untold = list(self._watched)
        if self._watched:
            self._tell_after(max(0.0, self._rests_until - self._node.loop.monotonic()))


def _received(peer: socket.socket) -> Tuple[bytes, Optional[int]]:
    """The line end that a recorder sends first, and the descriptor that comes with it."""
    size = struct.calcsize("i")
    data, rights, _, _ = peer.recvmsg(1, socket.CMSG_SPACE(size))
    for level, kind, told in rights:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS) and len(told) >= size:
            queue: int = struct.unpack("i", told[:size])[0]
            os.set_inheritable(queue, False)
            return data, queue
    return data, None


def _has_both(folder: str) -> bool:
    """Whether both streams have been written to."""
    try:
        return all(os.stat(folder + "/" + name).st_size > 0 for name in ("out", "err"))
    except OSError:
        return False
