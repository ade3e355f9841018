"""No file that came from a node gets its name before its bytes are on the disk, and its folder follows.

The hook is the system call itself: a product that skips it, or calls it too late, fails here.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hostler.backends import volumes
from hostler.backends.arriving import SMALL, Disk, Wanted, folders


class Calls:
    """Inodes that were written through, and what was renamed before it was."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.synced: set[int] = set()
        self.early: list[str] = []
        self.renamed: list[str] = []
        fsync, replace = os.fsync, os.replace

        def synced(descriptor: int) -> None:
            fsync(descriptor)
            self.synced.add(os.fstat(descriptor).st_ino)

        def replaced(source: str, target: str) -> None:
            if os.stat(source).st_ino not in self.synced:
                self.early.append(source)
            self.renamed.append(target)
            self.synced.discard(os.stat(Path(target).parent).st_ino)
            replace(source, target)

        monkeypatch.setattr(os, "fsync", synced)
        monkeypatch.setattr(os, "replace", replaced)


@pytest.mark.parametrize("sizes", [[10], [10] * 3, [SMALL + 1], [10, SMALL + 1, 0]])
def test_files_of_nodes_are_on_the_disk_before_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    monkeypatch.setattr(volumes.Volume, "sync", lambda _: False)  # one call for all of a file system is tested apart
    calls = Calls(monkeypatch)
    (tmp_path / "incoming").mkdir()
    (tmp_path / "results").mkdir()
    wanted = [
        Wanted(path=str(at), size=size, target=f"{tmp_path}/results/{at}", partial=f"{tmp_path}/incoming/{at}")
        for at, size in enumerate(sizes)
    ]
    disk = Disk(folders(each.partial for each in wanted))
    for each in wanted:
        Path(each.partial).write_bytes(b"x" * each.size)
        disk.sync(each.partial)
    disk.publish(wanted)
    disk.close()
    assert calls.renamed == [each.target for each in wanted]
    assert calls.early == []
    assert os.stat(tmp_path / "results").st_ino in calls.synced, "the name itself is on the disk"
