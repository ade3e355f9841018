"""Many files are on the disk by one call, where the system says what became of them; else each has to be synced."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hostler.backends import arriving, volumes
from hostler.backends.arriving import MANY, Disk, Wanted
from hostler.backends.volumes import Volume


@pytest.fixture
def journalled(tmp_path: Path) -> Path:
    """A folder in a file system that can be written through at once."""
    volume = Volume([tmp_path])
    volume.close()
    if volumes._kind(tmp_path.stat().st_dev) not in volumes.JOURNALLED or not volumes._tells():
        pytest.skip("the tests' folder is in another file system, or this is an older Linux")
    return tmp_path


def waiting(folder: Path, count: int) -> list[Wanted]:
    (folder / "incoming").mkdir()
    made = []
    for number in range(count):
        target, partial = folder / f"{number:02}" / "whole", folder / "incoming" / str(number)
        target.parent.mkdir()
        partial.write_bytes(b"%d" % number)
        made.append(Wanted(path=f"{number}", size=2, target=str(target), partial=str(partial)))
    return made


def publish(folder: Path, files: list[Wanted], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done, in its order: names, whole volumes, files and folders."""
    done: list[str] = []
    replace, sync, whole = os.replace, arriving._sync, Volume.sync

    def named(source: str, target: str) -> None:
        done.append("name")
        replace(source, target)

    def one(path: str) -> None:
        sync(path)
        done.append("folder" if os.path.isdir(path) else "file")

    def all_of_it(volume: Volume) -> bool:
        if synced := whole(volume):
            done.append("volume")
        return synced

    disk = Disk([str(folder / "incoming")])
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", named)
        patched.setattr(arriving, "_sync", one)
        patched.setattr(Volume, "sync", all_of_it)
        try:
            for each in files:
                disk.sync(each.partial)
            disk.publish(files)
        finally:
            disk.close()
    assert [Path(each.target).read_bytes() for each in files] == [b"%d" % number for number in range(len(files))]
    return done


def test_many_are_on_the_disk_before_any_is_named_and_their_names_are_then(
    journalled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(volumes, "FOREIGN_BYTES", 1 << 60)
    done = publish(journalled, waiting(journalled, MANY), monkeypatch)
    assert done == ["volume", *["name"] * MANY, "volume"]


def test_a_few_are_synced_each(journalled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = publish(journalled, waiting(journalled, 3), monkeypatch)
    assert done == [*["file"] * 3, *["name"] * 3, *["folder"] * 3]


@pytest.mark.parametrize(
    ("setting", "value"),
    [("FOREIGN_BYTES", -1), ("JOURNALLED", frozenset()), ("TELLS", (99, 0)), ("MOUNTS", Path("/none"))],
)
def test_where_one_call_would_not_do_each_is_synced(
    setting: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Much of others' waits; another kind of file system; a Linux that does not tell of failures; nobody knows."""
    monkeypatch.setattr(volumes, setting, value)
    done = publish(tmp_path, waiting(tmp_path, MANY), monkeypatch)
    assert sorted(done[:MANY]) == ["file"] * MANY
    assert done[MANY:] == [*["name"] * MANY, *["folder"] * MANY]


def test_a_failure_is_told_of_and_nothing_is_named(journalled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(volumes, "FOREIGN_BYTES", 1 << 60)
    files, disk = waiting(journalled, MANY), Disk([str(journalled / "incoming")])
    for each in files:
        disk.sync(each.partial)
    lost = disk._volume._folder
    assert lost is not None
    os.close(lost)  # as if the system said no
    disk._volume._folder = (1 << 30) - 1
    with pytest.raises(OSError, match="cannot be written") as failure:
        disk.publish(files)
    assert failure.value.errno == errno.EBADF
    assert not any(Path(each.target).exists() for each in files)
    disk._volume._folder = None
    disk.close()


def test_folders_of_several_file_systems_are_no_volume(tmp_path: Path) -> None:
    volume = Volume([tmp_path, Path("/proc")])
    assert not volume.is_of_use
    assert not volume.sync()
