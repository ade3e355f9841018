"""Disks in memory, which can be full while somebody says so."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.tools import command, succeeds, until

SIZE = "8g"
"""Of a disk; it takes memory only as far as it is written to."""
PIECE = 4096


class Disk:
    """A file system of its own at a folder; `name` is what the mount goes by."""

    def __init__(self, path: Path, name: str, size: str = SIZE) -> None:
        self.path = path
        self._size = size
        path.mkdir(parents=True)
        command("mount", "-t", "tmpfs", "-o", f"size={size},mode=755", name, str(path))

    @contextmanager
    def full(self) -> Iterator[None]:
        """Nothing more can be written."""
        ballast = self.path / "ballast"
        until(self._shrink, f"the disk {self.path} is no larger than what is on it")
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(PIECE))
        try:
            yield
        finally:
            command("mount", "-o", f"remount,size={self._size}", str(self.path))
            ballast.unlink()

    def _shrink(self) -> bool:
        """To what is used; refused where that grows at this moment."""
        used = max(shutil.disk_usage(self.path).used, PIECE)
        return succeeds("mount", "-o", f"remount,size={used}", str(self.path))
