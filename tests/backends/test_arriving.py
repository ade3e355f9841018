"""Files that come from nodes have their names once the system has written them through, and not before."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hostler.backends import arriving
from hostler.backends.arriving import MANY, SMALL, Disk, Wanted
from hostler.backends.volumes import Volume


class Seen:
    """What was written through, and what was named, in order."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.synced: dict[int, int] = {}
        """By inode: bytes that the file had when it was written through last."""
        self.named: list[str] = []
        self.too_early: list[str] = []
        self.folders: set[int] = set()
        fsync, replace = os.fsync, os.replace

        def note_sync(descriptor: int) -> None:
            fsync(descriptor)
            status = os.fstat(descriptor)
            self.synced[status.st_ino] = status.st_size
            self.folders.add(status.st_ino)

        def note_name(source: str, target: str) -> None:
            status = os.stat(source)
            if self.synced.get(status.st_ino) != status.st_size:
                self.too_early.append(target)
            replace(source, target)
            self.named.append(target)
            self.folders.discard(os.stat(os.path.dirname(target)).st_ino)

        monkeypatch.setattr(arriving.os, "fsync", note_sync)
        monkeypatch.setattr(arriving.os, "replace", note_name)

    def sync_all(self, volume: Volume) -> bool:
        """In the place of one call for the whole file system."""
        for path in self.folder.rglob("*"):
            self.synced[path.stat().st_ino] = path.stat().st_size
            self.folders.add(path.stat().st_ino)
        return True


@pytest.fixture
def seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(tmp_path, monkeypatch)


@pytest.fixture(params=["each file", "the whole file system"])
def volume(request: pytest.FixtureRequest, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> str:
    is_whole = request.param == "the whole file system"
    monkeypatch.setattr(Volume, "is_of_use", is_whole)
    monkeypatch.setattr(Volume, "sync", lambda self: is_whole and seen.sync_all(self))
    return str(request.param)


def come(folder: Path, sizes: list[int], disk: Disk, between: Callable[[Path], None]) -> Iterator[Wanted]:
    for number, size in enumerate(sizes):
        partial = folder / "incoming" / f"{number}.part"
        partial.parent.mkdir(exist_ok=True)
        with partial.open("wb") as file:
            file.write(b"a" * (size // 2))
            file.flush()
            between(partial)
            file.write(b"b" * (size - size // 2))
        disk.sync(str(partial), size=size)
        target = folder / f"d{number % 3}" / f"{number}"
        target.parent.mkdir(exist_ok=True)
        yield Wanted(path=str(number), size=size, target=str(target), partial=str(partial))


@pytest.mark.parametrize(
    "sizes",
    [
        pytest.param([10], id="one small file"),
        pytest.param([SMALL + 1, SMALL + 2], id="large files"),
        pytest.param([100] * (MANY + 5), id="many small files"),
        pytest.param([0, 1, SMALL, SMALL + 1] * 10, id="all kinds"),
    ],
)
def test_files_are_named_after_all_of_them_is_on_the_disk(
    seen: Seen, volume: str, tmp_path: Path, sizes: list[int]
) -> None:
    disk = Disk([str(tmp_path)])
    try:
        # What was begun in the middle says nothing about the end of a file.
        files = list(come(tmp_path, sizes, disk, between=lambda path: disk.begin(str(path))))
        disk.publish(files)
    finally:
        disk.close()
    assert seen.too_early == []
    assert seen.named == [each.target for each in files]
    assert {os.stat(each.parent).st_ino for each in map(Path, seen.named)} <= seen.folders, "names are on the disk"


def test_file_that_cannot_be_written_through_gets_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(arriving.os, "fsync", fail)
    monkeypatch.setattr(Volume, "sync", lambda self: False)
    disk = Disk()
    try:
        files = list(come(tmp_path, [10, SMALL + 1], disk, between=lambda path: None))
        with pytest.raises(OSError, match="Input/output error"):
            disk.publish(files)
    finally:
        disk.close()
    assert not any(Path(each.target).exists() for each in files)
