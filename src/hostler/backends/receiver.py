"""Takes files as they come out of a socket: read, hashed and written. A program by itself, with nothing of ours in it.

Each step that many small files take in Python, all other threads of the controller would wait for; here nobody does.

`receiver.py FD PARENT` reads orders from standard input, and says on standard output what became of them, in lines of
JSON. An order is `{"files": [[PARTIAL, TARGET, MOST], ...]}`: files that were asked of the node, in this order. Each is
put into its PARTIAL, at most so many bytes; errors call it TARGET. Of each the node says `{"size", "offset", "sha256"}`
before its bytes, or `{"sha256"}` behind them, or `{"error"}` instead. Answers are `landed` with size, hash found and
hash told of the next files; `large` with the number of one of which much is written; `moved`, so that nobody thinks it
dead. What went wrong is an `error` of the node, a `broken` line, or `errno`, `strerror` and `path` of this machine, and
the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

BUFFER_BYTES = 1 << 20
SMALL_BYTES = 1 << 18
"""Of a file that is taken whole: it fits into the buffer."""
LINE_BYTES = 8 << 20
PIECE = 4 << 20
BEGIN_EVERY = 64 << 20
"""Bytes of a large file after which the disk begins with them, and of others after which they are told of."""
TOLD_FILES = 100
SHOWN = 80
SIGN_S = 1.0
"""So often it is told that something moves."""
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


def main() -> None:
    """Serve until there are no orders any more, or one failed."""
    teller = Teller(sys.stdout.buffer, int(sys.argv[2]))
    line = Line(socket.socket(fileno=int(sys.argv[1])), teller.moved)
    try:
        with suppress(BrokenPipeError):  # nobody wants to know any more
            _serve(line, teller)
    except Orphaned:
        pass


def _serve(line: Line, teller: Teller) -> None:
    try:
        for order in sys.stdin.buffer:
            Landing(line, teller).land(json.loads(order)["files"])
    except ConnectionError as error:
        teller.tell({"broken": str(error)})
    except Refused as error:
        teller.tell({"error": str(error)})
    except OSError as error:
        teller.tell({"errno": error.errno, "strerror": error.strerror, "path": error.filename})


class Refused(Exception):
    """What the node says why a file does not come."""


class Orphaned(Exception):
    """Who has started this is gone, and the next one may ask for the same files."""


class Line:
    """What comes out of a socket, waited for. Every method raises `ConnectionError` where it ends too early.

    `moved` is called whenever something has come.
    """

    def __init__(self, source: socket.socket, moved: Callable[[], None] = lambda: None) -> None:
        self._source = source
        self._moved = moved
        self._bytes = bytearray(BUFFER_BYTES)
        self._buffer = memoryview(self._bytes)
        self._begin = self._end = 0
        """What has come and was not taken yet."""

    def some(self, most: int) -> bytes:
        """Some bytes, at most so many; nothing at the end."""
        if self._begin == self._end:
            self._more()
        return bytes(self._taken(min(most, self._end - self._begin)))

    def line(self) -> bytes:
        """A line with its end, or what there was before the end of all. Raises `ValueError` for an endless one."""
        end = self._bytes.find(b"\n", self._begin, self._end) + 1
        return bytes(self._taken(end - self._begin)) if end else self._long_line()

    def whole(self, count: int) -> memoryview:
        """So many bytes, at most as many as the buffer holds. They are there until the next call only."""
        while self._end - self._begin < count:
            if self._begin + count > BUFFER_BYTES:
                left = self._end - self._begin
                self._buffer[:left] = bytes(self._buffer[self._begin : self._end])
                self._begin, self._end = 0, left
            self._expect(self._more())
        return self._taken(count)

    def pour(self, count: int, write: Callable[[memoryview], None]) -> None:
        """Give so many bytes to `write`, in large pieces."""
        while count > 0:
            if self._begin == self._end:
                self._expect(self._more(min(count, BUFFER_BYTES)))
            piece = self._taken(min(count, self._end - self._begin))
            write(piece)
            count -= len(piece)

    def _long_line(self) -> bytes:
        parts, size = list[bytes](), 0
        while True:
            found = self._bytes.find(b"\n", self._begin, self._end)
            parts.append(bytes(self._taken((self._end if found < 0 else found + 1) - self._begin)))
            size += len(parts[-1])
            if found >= 0 or not self._more():
                return b"".join(parts)
            if size > LINE_BYTES:
                raise ValueError(f"a line is longer than {LINE_BYTES} bytes")

    def _taken(self, count: int) -> memoryview:
        self._begin += count
        return self._buffer[self._begin - count : self._begin]

    def _more(self, wanted: int = 0) -> int:
        """Whether anything came. `wanted`: wait for all of so many, where there was nothing left."""
        if self._begin == self._end:
            self._begin = self._end = 0
        room = self._buffer[self._end : wanted or BUFFER_BYTES]
        size = self._source.recv_into(room, 0, socket.MSG_WAITALL if wanted else 0)
        self._end += size
        self._moved()
        return size

    def _expect(self, came: int) -> None:
        if not came:
            raise ConnectionError("it hung up")


class Teller:
    """What is said of the work, to `parent`."""

    def __init__(self, output: IO[bytes], parent: int) -> None:
        self._output = output
        self._parent = parent
        self._said_at = time.monotonic()

    def tell(self, words: dict[str, Any]) -> None:
        """Say this now."""
        self._said_at = time.monotonic()
        self._output.write(json.dumps(words).encode() + b"\n")
        self._output.flush()

    def moved(self) -> None:
        """Say that something moves, where nothing was said for long. Raises `Orphaned` where nobody is to hear it."""
        if os.getppid() != self._parent:
            raise Orphaned
        if time.monotonic() - self._said_at > SIGN_S:
            self.tell({"moved": True})


class Landing:
    """The files of one order."""

    def __init__(self, line: Line, teller: Teller) -> None:
        self._line = line
        self._teller = teller
        self._landed: list[tuple[int, str, str]] = []
        self._bytes = 0

    def land(self, files: list[tuple[str, str, int]]) -> None:
        """Take all of them. Raises `ConnectionError`, `Refused` and `OSError`, of which what has come was told."""
        try:
            for number, (partial, target, most) in enumerate(files):
                self._note(*self._take(number, partial, target, most))
        except (OSError, Refused):
            self._tell()
            raise
        self._tell()

    def _take(self, number: int, partial: str, target: str, most: int) -> tuple[int, str, str]:
        head = self._head()
        if "error" in head:
            raise Refused(head["error"])
        size, offset, told = counted(head, "size"), counted(head, "offset"), head.get("sha256")
        if (fault := misfit(size, offset, most)) is not None:
            raise Refused(fault)
        with written(target):
            if told is not None and offset == 0 and size <= SMALL_BYTES:
                return size, self._small(partial, size), told
            found = self._large(number, partial, size, offset)
        return size, found, told or hash_told(self._head())

    def _small(self, partial: str, size: int) -> str:
        data = self._line.whole(size)
        _write(partial, data)
        return hashlib.sha256(data).hexdigest()

    def _large(self, number: int, partial: str, size: int, offset: int) -> str:
        """One of any size, or of which something has come before."""
        digest, unwritten = hashlib.sha256(), 0
        with open(partial, "r+b" if offset else "wb", buffering=0) as output:
            if offset:
                self._resume(output, offset, digest)

            def write(piece: memoryview) -> None:
                nonlocal unwritten
                _write_all(output.fileno(), piece)
                digest.update(piece)
                unwritten += len(piece)
                if unwritten >= BEGIN_EVERY:
                    self._teller.tell({"large": number})
                    unwritten = 0

            self._line.pour(size - offset, write)
        return digest.hexdigest()

    def _resume(self, output: IO[bytes], offset: int, digest: hashlib._Hash) -> None:
        """Hash what has come before, of which everything behind the offset is dropped."""
        output.truncate(offset)
        while data := output.read(PIECE):
            digest.update(data)
            self._teller.moved()  # though nothing does on the line

    def _head(self) -> dict[str, Any]:
        said = self._line.line()
        if not said.endswith(b"\n"):
            raise ConnectionError("it hung up")
        try:
            head = json.loads(said)
        except (ValueError, RecursionError) as error:
            raise ConnectionError(f"what it says of a file is no JSON: {said[:SHOWN]!r}") from error
        if not isinstance(head, dict):
            raise ConnectionError(f"what it says of a file is no JSON object: {said[:SHOWN]!r}")
        return head

    def _note(self, size: int, found: str, told: str) -> None:
        self._landed.append((size, found, told))
        self._bytes += size
        if self._bytes >= BEGIN_EVERY or len(self._landed) >= TOLD_FILES:
            self._tell()

    def _tell(self) -> None:
        if self._landed:
            self._teller.tell({"landed": self._landed})
        self._landed, self._bytes = [], 0


def counted(head: dict[str, Any], name: str) -> int:
    """A number that is told of a file. Raises `ConnectionError` where there is none."""
    if type(head.get(name)) is not int:
        raise ConnectionError(f"it says of a file that its {name} is {head.get(name)!r:.{SHOWN}}")
    return int(head[name])


def hash_told(said: dict[str, Any]) -> str:
    """The hash behind the bytes of a file. Raises `ConnectionError` where there is none."""
    if not isinstance(said.get("sha256"), str):
        raise ConnectionError(f"it says no hash behind a file, but {said!r:.{SHOWN}}")
    return str(said["sha256"])


def misfit(size: int, offset: int, most: int) -> str | None:
    """Why a file of so many bytes, of which so many have come before, is not taken; `None`: it is."""
    if size > most:
        return f"it has {size} bytes now, and {most} at most were expected: something writes to it still"
    if not 0 <= offset <= size:  # what has come would be made as long, and read to its end
        return f"{offset} of its {size} bytes are said to have come before, which cannot be"
    return None


@contextmanager
def written(target: str) -> Iterator[None]:
    """An error of writing is about the file that was to be."""
    try:
        yield
    except ConnectionError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or target) from error


def _write(partial: str, data: memoryview) -> None:
    output = os.open(partial, _FLAGS, 0o666)
    try:
        _write_all(output, data)
    finally:
        os.close(output)


def _write_all(output: int, data: memoryview) -> None:
    while data:
        data = data[os.write(output, data) :]


if __name__ == "__main__":
    main()
