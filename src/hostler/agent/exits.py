"""How orphans ended: written by the keeper or a waiter, read by the supervisor that adopted them.

``DIR/exits.jsonl`` holds lines ``{"pid", "pid_start", "boot", "code", "signal", "at"}``, newest last. They
count in the same boot only: what a process has written last may be lost with the machine. So no line has to be on the
disk, and none is lost by the death of any process.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress
from typing import Optional, Tuple

from .procs import Identity, boot_id
from .protocol import RequestError, decode, line
from .shared import publish

_LIMIT_BYTES = 1 << 20


Status = Tuple[Optional[int], Optional[int]]


def record_exit(path: str, process: Identity, status: Status, at: float) -> None:
    """Append one end; the older half of a file that has grown too long is dropped. Raises OSError.

    Waiters of agents that were killed may write, too: one writes at a time.
    """
    entry = {
        "pid": process.pid,
        "pid_start": process.start,
        "boot": boot_id(),
        "code": status[0],
        "signal": status[1],
        "at": at,
    }
    lock = os.open(os.path.dirname(path), os.O_RDONLY | os.O_CLOEXEC)  # needs no room on a full disk
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path) and os.stat(path).st_size > _LIMIT_BYTES:
            _drop_older_half(path)
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _append(fd, line(entry))
        finally:
            os.close(fd)
    finally:
        os.close(lock)


def recorded_exit(path: str, process: Identity, boot: Optional[str] = None) -> Optional[Status]:
    """``(exit_code, signal)`` of this process if it was written down, else None. ``boot`` is that of its start."""
    try:
        with open(path, "rb") as source:
            rows = source.read().split(b"\n")
    except FileNotFoundError:
        return None
    for row in reversed(rows):
        try:
            entry = decode(row)
        except RequestError:  # torn
            continue
        is_of_it = entry.get("pid") == process.pid and entry.get("pid_start") == process.start
        is_of_boot = boot is None or entry.get("boot") == boot
        if is_of_it and is_of_boot and "code" in entry and "signal" in entry:
            return entry["code"], entry["signal"]
    return None


def _append(fd: int, entry: bytes) -> None:
    """All of it or nothing: the next one would be torn with half a line before it."""
    end = os.fstat(fd).st_size
    if os.write(fd, entry) < len(entry):
        os.ftruncate(fd, end)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _drop_older_half(path: str) -> None:
    with open(path, "rb") as source:
        rows = source.read().splitlines(keepends=True)
    publish(path, b"".join(rows[len(rows) // 2 :]))
