"""Files on a shared file system: one machine writes them, another one reads them while they grow.

Over NFS a reader sees what was written once the writer has closed the file and the reader has opened it. So both sides
open it for every step. What is written in one step may arrive in pieces and out of order: where a piece is missing the
reader finds zeros. Our streams are lines of JSON, in which no byte is 0; what lies behind one has not come yet.
"""

from __future__ import annotations

import os
import uuid
from typing import List

_SECRETS = b'"secrets":'


def read_on(path: str, offset: int, limit: int) -> bytes:
    """What has come of a stream from ``offset`` on, at most ``limit`` bytes; nothing if there is no such file yet.

    Raises OSError.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        data = os.pread(fd, limit, offset)
    finally:
        os.close(fd)
    end = data.find(b"\0")
    return data if end < 0 else data[:end]


def write_on(path: str, offset: int, data: bytes) -> None:
    """Write a stream on from ``offset``, where it ends. Raises OSError.

    An error may come with the close only, when nobody knows any more what has arrived. Then the same is to be written
    to the same place again: that is why this does not append.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(fd, rest, offset)
            offset, rest = offset + written, rest[written:]
    finally:
        os.close(fd)


def scrub(path: str, size: int) -> None:
    """Write blanks over the first ``size`` bytes of a stream that were read, if there are secrets. Raises OSError."""
    data = read_on(path, 0, size)
    if _SECRETS in data:
        write_on(path, 0, b" " * len(data))


def publish(path: str, data: bytes, mode: int = 0o600) -> None:
    """Put a file in its place with all that is in it, or not at all, whatever dies meanwhile. Raises OSError."""
    folder, name = os.path.split(path)
    # Hidden from who lists the folder for what is ready; a name of its own, so that nothing can be in the way.
    temporary = os.path.join(folder, ".%s.%s" % (name[:64], uuid.uuid4().hex))
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with open(fd, "wb") as output:
            output.write(data)
            output.flush()
            os.fsync(output.fileno())
        os.rename(temporary, path)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise


def make_folder(path: str) -> None:
    """Make a folder and those that it is to be in, all of them for their owner only. Raises OSError."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise
    except FileNotFoundError:
        make_folder(os.path.dirname(path))
        make_folder(path)


def names(folder: str) -> List[str]:
    """What is in a folder that may not be there, in order, but for what is hidden. Raises OSError."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except FileNotFoundError:
        return []
