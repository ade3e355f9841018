"""Output files of processes: size caps, and reading by an offset that counts every byte ever written.

A process appends to ``out``. When the file passes half its cap, its newest bytes go to ``out.1`` and it is emptied in
place, so that the process needs to know nothing. What this can lose: bytes written in the instant between the copy
and the emptying, bytes in front of the newest half cap when the process wrote more than that between two checks, and
everything older than ``out.1``. ``out.offset`` holds how many bytes came before the file's first.

The folder is the attempt's, which may run as another user than the agent: no symbolic link is followed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple, Optional, Tuple

_PLAINLY = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
"""The folder is the attempt's, which may have put a pipe or a link to another file in the place of a stream."""
_OFFSET_DIGITS = 20
_LARGEST_OFFSET = 1 << 62


class Extent(NamedTuple):
    """What is left of a stream: its first byte, how many were written in all, and when the newest was (Unix s)."""

    first: int
    size: int
    written_at: float


class Piece(NamedTuple):
    """Bytes of a stream: where they begin, what they are, and how many were written to it in all."""

    offset: int
    data: bytes
    size: int


def rotate(path: str, cap_bytes: int) -> bool:
    """Keep ``path`` and its older part within about ``cap_bytes`` together; True when something was moved."""
    try:
        fd = os.open(path, os.O_RDWR | _PLAINLY)
    except FileNotFoundError:
        return False
    try:
        if os.fstat(fd).st_size <= cap_bytes // 2:
            return False
        _move(fd, path, cap_bytes // 2)
        return True
    finally:
        os.close(fd)


def read(path: str, offset: int, limit: int) -> Piece:
    """Up to ``limit`` bytes from ``offset`` on, a negative one counting from the end.

    Where the bytes asked for are gone, the piece begins at the first that is left. Raises OSError.
    """
    base, size = _extent(path)
    start = min(size, offset if offset >= 0 else max(0, size + offset))
    older = min(size_of(path + ".1") or 0, base)
    start = max(start, base - older)
    if start < base:
        data = _read_at(path + ".1", start - (base - older), min(limit, base - start))
    else:
        data = _read_at(path, start - base, limit)
    return Piece(start, data, size)


def extent(path: str) -> Extent:
    """How much of a stream there is. Raises OSError."""
    base = base_of(path)
    found = os.lstat(path)
    return Extent(max(0, base - (size_of(path + ".1") or 0)), base + found.st_size, found.st_mtime)


def size_of(path: str) -> Optional[int]:
    """The size of a file; None where there is none. Raises OSError."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return None


def tail(path: str, limit: int) -> bytes:
    """The last bytes of a file; empty if it cannot be read."""
    try:
        size = os.lstat(path).st_size
        return _read_at(path, max(0, size - limit), limit)
    except OSError:
        return b""


def _extent(path: str) -> Tuple[int, int]:
    base = base_of(path)
    return base, base + os.lstat(path).st_size


def base_of(path: str) -> int:
    """How many bytes of a stream came before the first of its file; 0 where that cannot be read. Raises OSError."""
    try:
        return min(max(0, int(_read_at(path + ".offset", 0, _OFFSET_DIGITS))), _LARGEST_OFFSET)
    except (FileNotFoundError, ValueError):
        return 0


def _move(fd: int, path: str, keep: int) -> None:
    base = base_of(path)
    position = max(0, os.fstat(fd).st_size - keep)
    try:
        _write_offset(path + ".offset.new", base)  # what comes in its place is as long: there is room for it
        _copy_from(fd, position, path + ".1.new", 2 * keep)  # last: what is written from here to the emptying is lost
    except OSError:
        for name in (path + ".1.new", path + ".offset.new"):
            with suppress(FileNotFoundError):
                os.unlink(name)  # what is left of it keeps others from writing
        raise
    size = os.fstat(fd).st_size
    os.ftruncate(fd, 0)
    os.rename(path + ".1.new", path + ".1")
    _write_offset(path + ".offset.new", base + size)
    os.rename(path + ".offset.new", path + ".offset")


def _copy_from(fd: int, position: int, target: str, most: int) -> None:
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _PLAINLY, 0o666), "wb") as older:
        while True:
            data = os.pread(fd, 1 << 20, position)
            if not data:
                return
            older.write(data)
            position += len(data)
            if older.tell() > most:  # it is written faster than it can be copied
                return


def _write_offset(path: str, offset: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | _PLAINLY, 0o600)
    try:
        os.write(fd, b"%020d" % offset)
    finally:
        os.close(fd)


def _read_at(path: str, offset: int, limit: int) -> bytes:
    fd = os.open(path, os.O_RDONLY | _PLAINLY)
    try:
        return os.pread(fd, limit, offset)
    finally:
        os.close(fd)
