"""No file gets its name before its bytes are on the disk, and where a result depends on it, its folder follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hostler.backends import volumes
from hostler.backends.arriving import SMALL, Disk, Wanted, folders
from hostler.backends.ssh.trust import HostKey, add
from hostler.runtime.statedir import StateDir
from hostler.runtime.vault import Vault
from hostler.store import archive
from tests.durability import WatchedDisk


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> WatchedDisk:
    return WatchedDisk(monkeypatch)


@pytest.mark.parametrize("sizes", [[10], [10] * 3, [SMALL + 1], [10, SMALL + 1, 0]])
def test_files_of_nodes_are_on_the_disk_before_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: WatchedDisk, sizes: list[int]
) -> None:
    monkeypatch.setattr(volumes.Volume, "sync", lambda _: False)  # one call for all of a file system is tested apart
    (tmp_path / "incoming").mkdir()
    (tmp_path / "results").mkdir()
    wanted = [
        Wanted(path=str(at), size=size, target=f"{tmp_path}/results/{at}", partial=f"{tmp_path}/incoming/{at}")
        for at, size in enumerate(sizes)
    ]
    own = Disk(folders(each.partial for each in wanted))
    for each in wanted:
        Path(each.partial).write_bytes(b"x" * each.size)
        own.sync(each.partial)
    own.publish(wanted)
    own.close()
    assert disk.renamed == [each.target for each in wanted]
    assert disk.early == []
    assert disk.has(tmp_path / "results"), "the names themselves are on the disk"


def a_backup(folder: Path) -> None:
    with archive.writing(folder / "backup", 1.0) as out:
        out.add("a", b"small")
        out.seal({"hostler": "test"})


def a_token(folder: Path) -> None:
    StateDir(folder).token()


def names_of_a_controller(folder: Path) -> None:
    directory = StateDir(folder)
    directory.identity()
    directory.own_id()
    directory.session_key()
    directory.make_call_token("n")
    directory.note_ended("ended\n")
    directory.set_store("postgresql://db/hostler")


def a_secret(folder: Path) -> None:
    Vault(folder / "secrets.json", lambda: 0.0).set("hf", "a value")


WRITERS: tuple[Callable[[Path], None], ...] = (a_backup, a_token, names_of_a_controller, a_secret)


@pytest.mark.parametrize("write", WRITERS, ids=lambda each: each.__name__)
def test_files_of_the_controller_are_on_the_disk_before_they_are_named(
    tmp_path: Path, disk: WatchedDisk, write: Callable[[Path], None]
) -> None:
    write(tmp_path)
    assert disk.renamed != []
    assert disk.early == []


def test_name_of_a_backup_is_on_the_disk(tmp_path: Path, disk: WatchedDisk) -> None:
    a_backup(tmp_path)
    assert disk.has(tmp_path)


def test_known_host_is_on_the_disk(tmp_path: Path, disk: WatchedDisk) -> None:
    add(tmp_path / "known_hosts", HostKey(host="rig", key="ssh-ed25519 AAAA", fingerprint="SHA256:x"))
    assert disk.has(tmp_path / "known_hosts")
