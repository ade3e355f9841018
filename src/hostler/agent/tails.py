"""The controller's side of the streams to agents in allocations. The other side is ``streams.py``."""

from __future__ import annotations

import os
from itertools import count
from typing import Callable, Dict, Optional

from .batches import Run
from .loop import Loop, Timer
from .outlet import Outlet
from .pace import Pace
from .protocol import Json, RequestError
from .shared import make_folder, names, publish, read_on, write_on
from .streams import LONGEST_PAUSE_S, SHORTEST_PAUSE_S

_COPY_BYTES = 1 << 18


class Tail:
    """One stream that is listened to, from byte ``offset`` of what its agent says on."""

    def __init__(self, loop: Loop, outlet: Outlet, number: int, run: Run, name: str, offset: int) -> None:
        self._loop = loop
        self._outlet = outlet
        self._number = number
        self._name = name
        self._batch_folder = run.batch.folder
        self._target = run.stream(name)
        self._source = run.source(name)
        self._offset = offset
        self._said = _size(self._source)
        self._pace = Pace(SHORTEST_PAUSE_S, LONGEST_PAUSE_S)
        self._next: Optional[Timer] = None
        self.on_closed: Callable[[], None] = lambda: None

    def create(self) -> None:
        """Make the stream; raises OSError if there is such a one already, or if the batch has no folder."""
        # An empty folder would mean that the run has left nothing: the file system may be gone for a while.
        os.stat(self._batch_folder)
        make_folder(os.path.dirname(self._target))
        os.close(os.open(self._source, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def poll(self) -> None:
        """Pass on what there is, and look again after a pause, a longer one if there was nothing."""
        self._next = None
        try:
            has_news = self._pass_on()
            if not has_news and self._is_over():
                self._close(None)
                return
        except OSError as error:
            self._close("cannot read %s.out: %s" % (self._target, error.strerror))
            return
        self._next = self._loop.call_later(self._pace.next(has_news), self.poll)

    def say(self, data: bytes) -> None:
        """Write this to the agent. An answer is expected."""
        try:
            write_on(self._source, self._said, data)
        except OSError as error:
            self._close("cannot write %s: %s" % (self._source, error.strerror))
            return
        self._said += len(data)
        is_slow, pause_s = self._pace.is_slow, self._pace.hurry()
        if is_slow and self._next is not None:
            self._next.cancel()
            self._next = self._loop.call_later(pause_s, self.poll)

    def hang_up(self) -> None:
        """Have the berth hang up on the agent; raises OSError."""
        publish(self._target + ".bye", b"")

    def stop(self) -> None:
        """Listen no more."""
        if self._next is not None:
            self._next.cancel()

    def _pass_on(self) -> bool:
        """Whether there was anything. While the controller does not read, it stays where it is."""
        has_news = False
        while not self._outlet.is_full:
            data = read_on(self._target + ".out", self._offset, _COPY_BYTES)
            if not data:
                return has_news
            has_news = True
            self._offset += len(data)
            self._outlet.say({"type": "data", "stream": self._number, "size": len(data)}, data)
        return True

    def _is_over(self) -> bool:
        """Whether the agent has hung up, and all it has said is passed on.

        By a listing: over NFS, a file that was not there a moment ago may be taken for missing for a minute.
        """
        listed = names(os.path.dirname(self._target))
        return self._name + ".closed" in listed and self._offset >= _size(self._target + ".out")

    def _close(self, error: Optional[str]) -> None:
        told: Json = {"type": "closed", "stream": self._number}
        self._outlet.say(told if error is None else {**told, "error": error})
        self.stop()
        self.on_closed()


class Tails:
    """All of them, by the numbers that they get."""

    def __init__(self, loop: Loop, outlet: Outlet) -> None:
        self._loop = loop
        self._outlet = outlet
        self._numbers = count(1)
        self._tails: Dict[int, Tail] = {}

    def listen(self, run: Run, name: str, offset: int, create: bool) -> int:
        """Pass on what is said on this stream from now on; the number of it. Raises OSError."""
        number = next(self._numbers)
        tail = Tail(self._loop, self._outlet, number, run, name, offset)
        if create:
            tail.create()
        tail.on_closed = lambda: self._forget(number)
        self._tails[number] = tail
        self._loop.call_later(0.0, tail.poll)
        return number

    def say(self, number: object, data: bytes) -> None:
        """Say this on the stream of that number."""
        tail = self._tails.get(number) if type(number) is int else None
        if tail is None:
            self._outlet.say({"type": "closed", "stream": number, "error": "there is no such stream any more"})
        else:
            tail.say(data)

    def hang_up(self, number: object) -> None:
        """End it. Raises RequestError where there is none, and OSError."""
        tail = self._tails.pop(number, None) if type(number) is int else None
        if tail is None:
            raise RequestError("there is no stream %.80r" % number)
        tail.stop()
        tail.hang_up()

    def _forget(self, number: int) -> None:
        self._tails.pop(number, None)


def _size(path: str) -> int:
    """Of a file as it is now: a look at one that is not open may be an old one, over NFS."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        return os.fstat(fd).st_size
    finally:
        os.close(fd)
