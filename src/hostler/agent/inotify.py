"""The kernel's reports of changes in folders (inotify(7)), through the C library: Python has no module for them."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Iterator, List, NamedTuple

MODIFY = 0x00000002
MOVED_TO = 0x00000080
QUEUE_OVERFLOW = 0x00004000
IGNORED = 0x00008000
_ONLY_DIRECTORIES = 0x01000000
_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 16
_MOST_READS = 64


class Change(NamedTuple):
    """One report: the number of the watch, what happened (a mask), and the name of the file in the folder."""

    watch: int
    mask: int
    name: bytes


def opened() -> int:
    """A descriptor of a new queue of reports, which never waits; raises OSError."""
    return _checked(ctypes.CDLL(None, use_errno=True).inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))


def watch(queue: int, folder: str) -> int:
    """Report writes to files of a folder, and files moved into it; the number of the watch. Raises OSError.

    A folder that is watched already keeps its number.
    """
    mask = MODIFY | MOVED_TO | _ONLY_DIRECTORIES
    return _checked(ctypes.CDLL(None, use_errno=True).inotify_add_watch(queue, os.fsencode(folder), mask))


def unwatch(queue: int, number: int) -> None:
    """End a watch. One that ended with its folder is no error: the kernel has reported it as ignored."""
    ctypes.CDLL(None, use_errno=True).inotify_rm_watch(queue, number)


def changes(queue: int) -> Iterator[Change]:
    """What has been reported up to now, in the order in which it happened; raises OSError.

    A report that is equal to the one before it is left out by the kernel. Ends also while more is reported.
    """
    for _ in range(_MOST_READS):
        try:
            data = os.read(queue, _READ_BYTES)
        except BlockingIOError:
            return
        yield from _parsed(data)


def _parsed(data: bytes) -> List[Change]:
    found, at = [], 0
    while at < len(data):
        number, mask, _, size = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        found.append(Change(number, mask, data[at : at + size].rstrip(b"\0")))
        at += size
    return found


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
