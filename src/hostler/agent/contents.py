"""Reading files that others may change meanwhile: what they are called, how long they are, and all that is in them."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from typing import BinaryIO, Iterator

COPY_BYTES = 1 << 20
PLAINLY = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
"""How a file is opened that may turn out to be something else: a link is an error, and nobody waits for a pipe."""


def regular_size(descriptor: int, path: str) -> int:
    """The size of a file that can be read to its end. Raises OSError where it is something else."""
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is no regular file", path)
    return found.st_size


def called(descriptor: int) -> str:
    """The path of an open file without any link; nothing where this system does not tell."""
    try:
        return os.readlink("/proc/self/fd/%d" % descriptor)
    except OSError:
        return ""


def reading(descriptor: int) -> BinaryIO:
    """The same, as a file; who closes that does not close this."""
    return open(descriptor, "rb", closefd=False)


def content(descriptor: int, size: int) -> bytes:
    """All of a small file. Raises BrokenPipeError where it became shorter meanwhile."""
    data = os.read(descriptor, size)
    if len(data) == size:
        return data
    with reading(descriptor) as source:
        return data + b"".join(pieces(source, size - len(data)))


@contextmanager
def nothing_but_bytes() -> Iterator[None]:
    """Once a file's head is out, whatever fails ends the connection: a line about it would be taken for bytes."""
    try:
        yield
    except OSError as error:
        raise BrokenPipeError(errno.EPIPE, "a file could not be sent to its end: %s" % in_words(error)) from error


def pieces(source: BinaryIO, count: int) -> Iterator[bytes]:
    """So many bytes. Raises BrokenPipeError where there are fewer."""
    while count > 0:
        data = source.read(min(count, COPY_BYTES))
        if not data:
            raise BrokenPipeError(errno.EPIPE, "the file became shorter while it was read")
        count -= len(data)
        yield data


def in_words(error: OSError) -> str:
    """What went wrong, and with which file."""
    what = "" if error.filename is None else "%.300r: " % error.filename
    return what + (error.strerror or str(error))
