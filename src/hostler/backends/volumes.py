"""Many small files are on the disk at once: by one call for the whole file system, where that says what each would."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

JOURNALLED = frozenset({"ext4", "xfs"})
"""Local file systems whose `syncfs` leaves durable what `fsync` of each file and folder would."""
TELLS = (5, 8)
"""Linux tells from here on if something could not be written."""
FOREIGN_BYTES = 256 << 20
"""What may wait to be written on this machine: everybody's is written by such a call, and waited for."""
MOUNTS, MEMORY = Path("/proc/self/mountinfo"), Path("/proc/meminfo")
WAITING = re.compile(r"^(?:Dirty|Writeback): +(\d+) kB$", re.MULTILINE)


class Volume:
    """The file system that some folders are in. Made before anything is written, so that no failure is missed."""

    def __init__(self, folders: Iterable[str]) -> None:
        self._folder = _open(folders)
        self._mutex = threading.Lock()
        """Held while the descriptor is copied or closed: a thread may `sync` while another one calls `close`."""

    @property
    def is_of_use(self) -> bool:
        """Whether it can be written through at all."""
        return self._folder is not None

    def sync(self) -> bool:
        """Have everything on the disk. `False`: nothing was done, and each file has to be. Raises `OSError`."""
        if not self.is_of_use or _waiting_bytes() > FOREIGN_BYTES:
            return False
        with self._mutex:
            if self._folder is None:
                return False
            try:
                folder = os.dup(self._folder)  # of the same open folder, so that no failure is missed
            except OSError as error:
                raise _unwritten(error.errno or 0) from error
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(folder):
                raise _unwritten(ctypes.get_errno())
        finally:
            os.close(folder)
        return True

    def close(self) -> None:
        """Let go of it; a call of `sync` in another thread goes on. A second call changes nothing."""
        with self._mutex:
            folder, self._folder = self._folder, None
        if folder is not None:
            os.close(folder)


def _unwritten(number: int) -> OSError:
    return OSError(number, f"what came cannot be written: {os.strerror(number)}")


def _open(folders: Iterable[str]) -> int | None:
    found = {os.stat(folder).st_dev: folder for folder in folders}
    if len(found) != 1 or not _tells():
        return None
    [(device, folder)] = found.items()
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if _kind(device) in JOURNALLED else None


def _tells() -> bool:
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return sys.platform == "linux" and release is not None and (int(release[1]), int(release[2])) >= TELLS


def _kind(device: int) -> str | None:
    """What a file system is; `None`: nobody says."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = MOUNTS.read_text(errors="surrogateescape")
    except OSError:
        return None
    for line in mounts.splitlines():
        where, _, what = line.partition(" - ")
        if where.split(" ", 3)[2] == number:
            return what.partition(" ")[0]
    return None


def _waiting_bytes() -> float:
    """What of this machine's files is not on its disks; without end where nobody says."""
    try:
        found = WAITING.findall(MEMORY.read_text())
    except OSError:
        return float("inf")
    return 1024 * sum(map(int, found)) if found else float("inf")
