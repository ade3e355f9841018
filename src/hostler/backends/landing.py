"""Files as they come, where a thread may wait for them: read, hashed and written with few steps for each.

Each step of Python's that many small files take, all other threads of the controller wait for.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hostler.backends.courier import Disk, Piece, Sink, Wanted, resumed, verified, written
from hostler.model.errors import FilesError

BUFFER_BYTES = 1 << 20
SMALL_BYTES = 1 << 18
"""Of a file that is taken whole: it fits into the buffer."""
LINE_BYTES = 64 << 20
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class Line:
    """What comes out of a socket, waited for. Every method raises `ConnectionError` where it ends too early."""

    def __init__(self, source: socket.socket) -> None:
        self._source = source
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

    def whole(self, count: int) -> Piece:
        """So many bytes, at most as many as the buffer holds. They are there until the next call only."""
        while self._end - self._begin < count:
            if self._begin + count > BUFFER_BYTES:
                left = self._end - self._begin
                self._buffer[:left] = bytes(self._buffer[self._begin : self._end])
                self._begin, self._end = 0, left
            self._expect(self._more())
        return self._taken(count)

    def pour(self, count: int, write: Callable[[Piece], None]) -> None:
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
        return size

    def _expect(self, came: int) -> None:
        if not came:
            raise ConnectionError("it hung up")


def land(line: Line, files: Sequence[Wanted], disk: Disk, moved: Callable[[], None], where: str) -> list[str]:
    """Take files that were asked for, in this order; their hashes. Raises as `Courier.get`, and `ConnectionError`."""
    return [_land(line, wanted, disk, moved, where) for wanted in files]


def _land(line: Line, wanted: Wanted, disk: Disk, moved: Callable[[], None], where: str) -> str:
    head = _head(line)
    if "error" in head:
        raise FilesError(f"{wanted.path} of {where} cannot be fetched: {head['error']}")
    size, offset, told = head["size"], head["offset"], head.get("sha256")
    moved()
    if told is not None and offset == 0 and size <= SMALL_BYTES:
        data = line.whole(size)
        found = hashlib.sha256(data).hexdigest()
        with written(wanted.target):
            _write(wanted.partial, data)
    else:
        found = _poured(line, wanted, disk, moved, offset, size)
        told = told or _head(line)["sha256"]
    disk.sync(wanted.partial, size=size)
    return verified(wanted, found, told, where)


def _poured(line: Line, wanted: Wanted, disk: Disk, moved: Callable[[], None], offset: int, size: int) -> str:
    """The hash of a file of any size, or of which something has come before."""
    partial, digest = wanted.partial, hashlib.sha256()
    with written(wanted.target), partial.open("ab" if offset else "wb") as output:
        if offset:
            digest = resumed(output, partial, offset, moved)
        line.pour(size - offset, Sink(output, digest, lambda: disk.begin(partial), moved).write)
    return digest.hexdigest()


def _head(line: Line) -> dict[str, Any]:
    said = line.line()
    if not said.endswith(b"\n"):
        raise ConnectionError("it hung up")
    head: dict[str, Any] = json.loads(said.decode())
    return head


def _write(path: Path, data: Piece) -> None:
    output = os.open(path, _FLAGS, 0o666)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(output, left) :]
    finally:
        os.close(output)
