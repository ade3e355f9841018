"""Small files of a state directory, read at once: a pipe, a device or a file of any size in their place is refused.

Imports nothing slow: each command reads some.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

SMALL_BYTES = 1 << 20
_AT_ONCE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK


def read_small(path: Path) -> bytes:
    """All of a small regular file. Raises `OSError`, also where it is another kind of file, or longer than 1 MiB."""
    descriptor = os.open(path, _AT_ONCE)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file; remove it", str(path))
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(SMALL_BYTES + 1)
        if len(data) > SMALL_BYTES:
            raise OSError(errno.EFBIG, f"it is longer than {SMALL_BYTES >> 20} MiB; remove it", str(path))
        return data
    finally:
        os.close(descriptor)


def read_small_text(path: Path) -> str:
    """The same as UTF-8 text without the space around it. Raises `OSError`, `UnicodeDecodeError`."""
    return read_small(path).decode().strip()
