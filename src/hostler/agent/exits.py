"""How orphans ended: written by the keeper, read by the supervisor that adopted them.

``DIR/exits.jsonl`` holds lines ``{"pid", "pid_start", "code", "signal", "at"}``, newest last.
"""

from __future__ import annotations

import errno
import os
from typing import Optional, Tuple

from .procs import Identity
from .protocol import RequestError, decode, line
from .shared import publish

_LIMIT_BYTES = 1 << 20


def record_exit(path: str, process: Identity, status: Tuple[Optional[int], Optional[int]], at: float) -> None:
    """Append one end; the older half of a file that has grown too long is dropped. Raises OSError."""
    if os.path.exists(path) and os.stat(path).st_size > _LIMIT_BYTES:
        _drop_older_half(path)
    entry = {"pid": process.pid, "pid_start": process.start, "code": status[0], "signal": status[1], "at": at}
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _append(fd, line(entry))
    finally:
        os.close(fd)


def recorded_exit(path: str, process: Identity) -> Optional[Tuple[Optional[int], Optional[int]]]:
    """``(exit_code, signal)`` of this process if the keeper wrote it down, else None."""
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
        if is_of_it and "code" in entry and "signal" in entry:
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
