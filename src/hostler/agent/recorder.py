"""The recorder: a process beside the supervisor that notes in which order attempts write to their two streams.

It outlives the supervisor, as the attempts do, so that the order is known also of what is written while there is none;
the next supervisor connects to it. It runs nothing, and nothing waits for it but the end of an attempt, for a moment.
Its standard input is the kernel's queue of reports on the folders of attempts, which the supervisor has opened; its
standard output is the socket ``recorder.sock`` on which it listens. Lines of JSON:

``{"begin":[["j1.1","/…/attempts/j1.1",7],…]}`` has it note for these attempts. The third value is the number of the
folder's watch in the queue, or null: then the recorder polls the folder. ``{"end":"j1.1"}`` is answered by
``{"ended":"j1.1"}`` when all that was written is noted. What connects is sent a descriptor of the queue first, with a
line end.

It ends when no supervisor is connected and none of its attempts has a process.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import sys
import time
from typing import Dict, List, Optional, Set, Tuple

from . import inotify, logs, procs
from .connection import Connection
from .loop import Loop
from .node import log
from .order import STREAMS, Index
from .paths import file_id
from .protocol import RequestError, decode, line

SOCKET = "recorder.sock"
GATHER_S = 0.02
"""For so long reports are gathered: what is written within it is in one record."""
POLL_S = 0.05
"""How often a folder is looked at that the kernel does not report on."""
APART_S = 0.05
"""The time between two writes from which on they have an order by the times of their files."""
_SWEEP_S = 1.0
_ALONE_S = (1.0, 5.0)
_LOOKS = 3
_MOST_EARLY = 4096


class Runs:
    """How reports of writes to the two streams alternated since the last record."""

    __slots__ = ("count", "first", "last")

    def __init__(self) -> None:
        self.first = self.last = ""
        self.count = 0

    def add(self, stream: str) -> None:
        """A stream was written to."""
        if stream != self.last:
            self.first = self.first or stream
            self.last = stream
            self.count += 1

    def told(self) -> int:
        """As a record has it."""
        return -self.count if self.first == "err" else self.count


class Watched:
    """An attempt for which the order is noted."""

    __slots__ = ("bases", "folder", "index", "is_reported", "raw", "runs", "watch")

    def __init__(self, folder: str, watch: Optional[int], runs: Runs) -> None:
        self.folder = folder
        self.watch = watch
        self.runs = runs
        self.index = Index(folder)
        self.bases: Dict[str, Optional[int]] = dict.fromkeys(STREAMS)
        self.raw = dict.fromkeys(STREAMS, 0)
        self.is_reported = runs.count > 0

    def sizes(self) -> Tuple[int, int, float]:
        """Bytes written to ``out`` and to ``err``, and by how many seconds the last to ``err`` came later."""
        found = []
        written = []
        for stream in STREAMS:
            path = self.folder + "/" + stream
            try:
                seen = os.stat(path)
            except FileNotFoundError:
                found.append(0)
                written.append(0.0)
                continue
            if self.bases[stream] is None or seen.st_size < self.raw[stream]:
                self.bases[stream] = logs.base_of(path)
                seen = os.stat(path)  # before it was emptied, its size is none to be added to what came before
            self.raw[stream] = seen.st_size
            found.append((self.bases[stream] or 0) + seen.st_size)
            written.append(seen.st_mtime)
        return found[0], found[1], written[1] - written[0]

    def note(self, out: int, err: int, later_s: float, is_sure: bool) -> None:
        """Write down these sizes, and what is known of the order of the writes that led to them. Raises OSError."""
        runs, self.runs = self.runs, Runs()
        newest = self.index.newest
        if out <= newest.out and err <= newest.err:
            return
        told = 0
        if out > newest.out and err > newest.err:
            told = runs.told() if is_sure and runs.count > 2 else 0
            if not told and abs(later_s) >= APART_S and (not is_sure or runs.count <= 2):
                told = 2 if later_s > 0 else -2
        self.index.note(time.time(), out, err, told)


class Recorder:
    """All that the process does. ``run`` returns when it is to end."""

    def __init__(self, directory: str, queue: Optional[int], listener: socket.socket) -> None:
        self._loop = Loop()
        self._queue = queue
        self._listener = listener
        self._directory = directory
        self._socket_id = file_id(directory + "/" + SOCKET)
        self._peer: Optional[Connection] = None
        self._attempts: Dict[str, Watched] = {}
        self._by_watch: Dict[int, Watched] = {}
        self._early: Dict[int, Runs] = {}
        self._touched: Set[Watched] = set()
        self._is_over = False
        self._polls = False

    def run(self) -> None:
        """Note until nobody needs it."""
        self._listener.setblocking(False)
        self._loop.watch(self._listener.fileno(), lambda _events: self._accept())
        self._wait_for_reports()
        self._loop.call_later(_SWEEP_S, self._sweep)
        self._loop.call_later(_ALONE_S[1], self._look_after)
        while not self._is_over:
            self._loop.turn()
        self._look(set(self._attempts.values()))
        if file_id(self._directory + "/" + SOCKET) == self._socket_id:
            os.unlink(self._directory + "/" + SOCKET)

    # --- the supervisor -------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        try:
            peer, _ = self._listener.accept()
        except OSError:  # it hung up already
            return
        try:
            queues = [] if self._queue is None else [self._queue]
            rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", queues).tobytes())
            peer.sendmsg([b"\n"], [rights] if queues else [])
        except OSError:
            peer.close()
            return
        if self._peer is not None:
            self._peer.close()
        self._peer = Connection(self._loop, peer, self._on_line, self._on_close)

    def _on_close(self, connection: Connection) -> None:
        if connection is self._peer:
            self._peer = None
            self._is_over = not self._attempts
            self._loop.call_later(_ALONE_S[0], self._end_if_needless)

    def _on_line(self, connection: Connection, data: bytes) -> None:
        if not data:
            return
        try:
            told = decode(data)
        except RequestError as error:
            log("the recorder was told %.200r: %s" % (data, error))
            return
        for name, folder, watch in told.get("begin", []):
            self._begin(name, folder, watch)
        if "end" in told:
            self._end(told["end"])
            connection.send_line(line({"ended": told["end"]}))

    def _begin(self, name: str, folder: str, watch: Optional[int]) -> None:
        known = self._attempts.get(name)
        if known is not None and (known.watch, known.folder) == (watch, folder):
            return
        self._forget(name)
        runs = Runs() if watch is None else self._early.pop(watch, Runs())
        try:
            made = self._attempts[name] = Watched(folder, watch, runs)
        except OSError as error:
            log("the order of the outputs of %s is not noted: %s" % (name, error))
            return
        if watch is None:
            self._poll_soon()
        else:
            self._by_watch[watch] = made
        self._look({made})

    def _end(self, name: str) -> None:
        attempt = self._attempts.get(name)
        if attempt is not None:
            self._read_reports()
            self._look({attempt})
        self._forget(name)

    def _forget(self, name: str) -> None:
        attempt = self._attempts.pop(name, None)
        if attempt is not None:
            self._touched.discard(attempt)
            if attempt.watch is not None:
                self._by_watch.pop(attempt.watch, None)

    def _look_after(self) -> None:
        """Where the folder is gone, or another recorder has come in its place, there is nothing left to do."""
        if file_id(self._directory + "/" + SOCKET) != self._socket_id:
            self._is_over = True
        self._end_if_needless()
        self._loop.call_later(_ALONE_S[1], self._look_after)

    def _end_if_needless(self) -> None:
        if self._peer is None and not self._is_over:
            running = procs.values_of("HOSTLER_ATTEMPT_DIR") if self._attempts else set()
            self._is_over = not any(each.folder in running for each in self._attempts.values())

    # --- the streams ----------------------------------------------------------------------------------------------

    def _wait_for_reports(self) -> None:
        if self._queue is not None:
            self._loop.watch(self._queue, lambda _events: self._gather(), 1)

    def _gather(self) -> None:
        """The queue keeps what is reported meanwhile."""
        assert self._queue is not None
        self._loop.unwatch(self._queue)
        self._loop.call_later(GATHER_S, self._on_reports)

    def _on_reports(self) -> None:
        self._read_reports()
        self._look(self._touched)
        self._wait_for_reports()

    def _read_reports(self) -> None:
        for change in [] if self._queue is None else inotify.changes(self._queue):
            if change.mask & inotify.QUEUE_OVERFLOW:
                self._touched.update(self._attempts.values())
            elif change.mask & inotify.IGNORED:
                self._early.pop(change.watch, None)
                self._by_watch.pop(change.watch, None)
            else:
                self._take(change.watch, change.name.decode("ascii", "replace"))

    def _take(self, watch: int, name: str) -> None:
        attempt = self._by_watch.get(watch)
        if name in STREAMS:
            if attempt is not None:
                attempt.runs.add(name)
                attempt.is_reported = True
                self._touched.add(attempt)
            elif watch in self._early or len(self._early) < _MOST_EARLY:  # it is about to be told of
                self._early.setdefault(watch, Runs()).add(name)
        elif attempt is not None and name.endswith(".offset"):
            attempt.bases[name[: -len(".offset")]] = None
            self._touched.add(attempt)

    def _look(self, wanted: Set[Watched]) -> None:
        """Note what has been written. Sizes and reports belong together where no report came while it was looked."""
        wanted = set(wanted)
        for _ in range(_LOOKS):
            self._touched -= wanted
            sizes = [(each, _sizes(each)) for each in wanted]
            self._read_reports()
            late = self._touched & wanted
            if not late:
                break
        for attempt, found in sizes:
            if found is not None:
                self._note(attempt, found, attempt not in late)

    def _note(self, attempt: Watched, found: Tuple[int, int, float], is_sure: bool) -> None:
        try:
            attempt.note(*found, is_sure)
        except OSError as error:  # such as a full disk: what is not noted now is with what comes next
            log("the order of the outputs in %s is not noted: %s" % (attempt.folder, error))

    def _poll(self) -> None:
        polled = {each for each in self._attempts.values() if each.watch is None}
        self._look(polled)
        self._polls = False
        if polled:
            self._poll_soon()

    def _poll_soon(self) -> None:
        if not self._polls:
            self._polls = True
            self._loop.call_later(POLL_S, self._poll)

    def _sweep(self) -> None:
        """Find the folders that grow though the kernel does not report it, as on some file systems: they are polled."""
        self._read_reports()
        for attempt in self._attempts.values():
            if attempt.watch is not None and not attempt.is_reported:
                found = _sizes(attempt)
                self._read_reports()
                if found is not None and found[:2] != (0, 0) and not attempt.is_reported:
                    self._by_watch.pop(attempt.watch, None)
                    attempt.watch = None
                    self._poll_soon()
        self._loop.call_later(_SWEEP_S, self._sweep)


def command() -> List[str]:
    """What starts a recorder, in the folder of the agent; the agent's code must be in its PYTHONPATH."""
    return [sys.executable, "-S", "-m", "hostler.agent.recorder"]


def main() -> int:
    """Note until nobody needs it; returns the exit status."""
    for ending in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(ending, signal.SIG_IGN)  # they end the attempts of an allocation, whose last words are noted
    procs.keep_descriptors_private()
    queue = os.dup(0)
    listener = socket.socket(fileno=os.dup(1))
    for number in (0, 1):
        os.dup2(2, number)
    os.set_inheritable(queue, False)
    Recorder(os.getcwd(), queue if _is_queue(queue) else None, listener).run()
    return 0


def _is_queue(descriptor: int) -> bool:
    return "inotify" in os.readlink("/proc/self/fd/%d" % descriptor)


def _sizes(attempt: Watched) -> Optional[Tuple[int, int, float]]:
    """None where its folder cannot be looked at."""
    try:
        return attempt.sizes()
    except OSError:
        return None


if __name__ == "__main__":
    sys.exit(main())
