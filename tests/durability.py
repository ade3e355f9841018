"""What a power cut would leave: which files had all their bytes on the disk when they got their names."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest


class WatchedDisk:
    """Sees each `fsync` and each renaming of the process. A product that skips one, or calls it too late, fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.renamed: list[str] = []
        """What got its name, in order."""
        self.early: list[str] = []
        """What was renamed before all its bytes were on the disk."""
        self._synced: dict[int, int] = {}
        """The size of each inode when it was written through."""
        fsync = os.fsync

        def synced(descriptor: Any) -> None:
            fsync(descriptor)
            found = os.fstat(descriptor)
            self._synced[found.st_ino] = found.st_size

        monkeypatch.setattr(os, "fsync", synced)
        for name in ("replace", "rename", "link"):
            monkeypatch.setattr(os, name, self._watching(getattr(os, name)))

    def has(self, path: Path) -> bool:
        """Whether a file with all its bytes, or a folder with its names, is on the disk."""
        found = path.stat()
        return found.st_ino in self._synced and (path.is_dir() or self._synced[found.st_ino] == found.st_size)

    def _watching(self, real: Any) -> Any:
        def renamed(source: Any, target: Any, **options: Any) -> None:
            if "src_dir_fd" in options or "dir_fd" in options:
                real(source, target, **options)
                return
            own = Path(source)
            files = [each for each in own.rglob("*") if each.is_file()] if own.is_dir() else [own]
            self.early += [str(each) for each in files if not self.has(each)]
            self.renamed.append(str(target))
            self._synced.pop(os.stat(Path(target).parent).st_ino, None)
            real(source, target, **options)

        return renamed
