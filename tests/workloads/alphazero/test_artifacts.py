import errno
import os
import socket
from pathlib import Path

import pytest

from hostler.workloads.alphazero.artifacts import SEGMENT, ArtifactError, Artifacts, digest, replace

EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_what_is_published_lies_where_the_contract_says_and_is_read_back(artifacts: Artifacts, tmp_path: Path) -> None:
    made = artifacts.publish(SEGMENT, b"")
    assert (made.sha256, made.bytes) == (EMPTY, 0)
    assert artifacts.path(EMPTY, SEGMENT) == tmp_path / "objects" / "e3" / f"{EMPTY}.segment.npz"
    assert artifacts.read(EMPTY, SEGMENT) == b""


def test_publishing_twice_is_the_same_artifact_and_writes_once(artifacts: Artifacts, tmp_path: Path) -> None:
    first = artifacts.publish(SEGMENT, b"games")
    path = artifacts.path(first.sha256, SEGMENT)
    os.utime(path, (1.0, 1.0))
    before = path.stat()
    assert artifacts.publish(SEGMENT, b"games") == first
    assert path.stat().st_ino == before.st_ino
    assert path.stat().st_mtime > before.st_mtime, "it is in use, and not to be cleaned up"
    assert len(files(tmp_path)) == 1


def test_a_damaged_artifact_is_refused_by_name_and_healed_by_publishing_it(artifacts: Artifacts) -> None:
    made = artifacts.publish(SEGMENT, b"games")
    artifacts.path(made.sha256, SEGMENT).write_bytes(b"gamez")
    with pytest.raises(ArtifactError, match=rf"{made.sha256}.segment.npz is damaged.*5 bytes.*copy it here"):
        artifacts.read(made.sha256, SEGMENT)
    artifacts.publish(SEGMENT, b"games")
    assert artifacts.read(made.sha256, SEGMENT) == b"games"


def test_a_missing_artifact_is_named(artifacts: Artifacts) -> None:
    with pytest.raises(ArtifactError, match=rf"{EMPTY}.segment.npz cannot be read: No such file.*copy it here"):
        artifacts.read(EMPTY, SEGMENT)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", EMPTY.upper(), EMPTY[:-1]])
def test_a_name_that_is_no_hash_leads_nowhere(artifacts: Artifacts, name: str) -> None:
    with pytest.raises(ArtifactError, match="no SHA-256"):
        artifacts.path(name, SEGMENT)


@pytest.mark.parametrize("function", ["fsync", "open"])
def test_a_full_disk_is_told_with_numbers_and_leaves_nothing(
    artifacts: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if function == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr("hostler.workloads.alphazero.artifacts._write_through", full)
    with pytest.raises(ArtifactError, match=r"\(5 bytes\) cannot be written: No space left.*\d+ bytes are free"):
        artifacts.publish(SEGMENT, b"games")
    assert files(tmp_path) == []


def test_a_disk_that_lies_is_found_out_by_reading_back(
    artifacts: Artifacts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hostler.workloads.alphazero.artifacts._hash_of", lambda _: "0" * 64)
    with pytest.raises(ArtifactError, match="read back is not what was written"):
        artifacts.publish(SEGMENT, b"games")
    assert files(tmp_path) == []


def test_what_a_killed_writer_left_is_swept_and_what_a_living_one_writes_is_not(
    artifacts: Artifacts, tmp_path: Path
) -> None:
    path = artifacts.path(artifacts.publish(SEGMENT, b"games").sha256, SEGMENT)
    path.unlink()
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    dead = path.with_name(f".{path.name}.{socket.gethostname()}.{child}.tmp")
    living = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getppid()}.tmp")
    elsewhere = path.with_name(f".{path.name}.not-{socket.gethostname()}.{child}.tmp")
    others = [left.with_name(left.name.replace(path.name[:8], "0" * 8)) for left in (dead, living, elsewhere)]
    young = dead.with_name(dead.name.replace(path.name[:8], "1" * 8))
    for left in (dead, living, elsewhere, *others, young):
        left.write_bytes(b"ga")
    for left in others:
        os.utime(left, (0, 0))
    artifacts.publish(SEGMENT, b"games")
    kept = [path, living, elsewhere, *others[1:], young]
    assert files(tmp_path) == sorted(each.name for each in kept)


def test_the_work_folder_belongs_to_the_order_however_it_is_written(artifacts: Artifacts, tmp_path: Path) -> None:
    order = {"stage": "selfplay", "name": "größe", "list": [1, {"b": 1, "a": None}]}
    folder = artifacts.work(order)
    assert folder.is_dir()
    assert folder == artifacts.work(dict(reversed(order.items())))
    assert folder != artifacts.work({**order, "seed": 1})
    # Canonical JSON: sorted keys, no blanks, UTF-8; hashed by hand.
    assert folder == tmp_path / "work" / digest(
        {"list": [1, {"a": None, "b": 1}], "name": "größe", "stage": "selfplay"}
    )
    assert digest({}) == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    for content in (b"old", b"new"):
        replace(path, content)
        assert path.read_bytes() == content
    assert files(tmp_path) == ["result.json"]
