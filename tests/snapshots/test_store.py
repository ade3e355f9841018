"""The controller's folder of snapshots: uploads in pieces, copies for attempts, removal."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from hostler.agent.files import LAID_AT_NS
from hostler.model.errors import Conflict, FilesChanged, FilesError, NotFound, SpecError
from hostler.snapshots import store as module, upload
from hostler.snapshots.folder import FolderSnapshot, take
from hostler.snapshots.manifest import encode, manifest_of
from hostler.snapshots.reserve import RESERVE
from hostler.snapshots.store import SnapshotStore
from hostler.snapshots.upload import Piece

DAY_S = 86_400.0


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "snapshots")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "deep").mkdir(parents=True)
    (made / "train.py").write_text("print('trained')")
    (made / "deep" / "run.sh").write_text("#!/bin/sh\n")
    (made / "deep" / "run.sh").chmod(0o755)
    (made / "empty").touch()
    return made


def send(store: SnapshotStore, snapshot: FolderSnapshot) -> str:
    _, missing = store.add(snapshot.data)
    for body in upload.bodies(snapshot.sources(missing)):
        for piece in upload.parse(body.data):
            store.write(piece)
    digest, missing = store.add(snapshot.data)
    assert missing == {}
    return digest


def test_snapshot_is_laid_out_as_it_was_though_the_folder_has_changed(
    store: SnapshotStore, folder: Path, tmp_path: Path
) -> None:
    digest = send(store, take(folder))
    (folder / "train.py").write_text("print('edited')")
    (folder / "empty").unlink()
    store.lay_out(digest, tmp_path / "workspace")
    laid = tmp_path / "workspace"
    assert (laid / "train.py").read_text() == "print('trained')"
    assert (laid / "empty").read_bytes() == b""
    assert stat.S_IMODE((laid / "deep" / "run.sh").stat().st_mode) == 0o755
    assert (laid / "train.py").stat().st_mtime_ns == LAID_AT_NS
    (laid / "train.py").write_text("by the job")
    store.lay_out(digest, tmp_path / "second")
    assert (tmp_path / "second" / "train.py").read_text() == "print('trained')", "attempts share no file"


def test_second_snapshot_sends_only_what_changed(store: SnapshotStore, folder: Path) -> None:
    send(store, take(folder))
    (folder / "train.py").write_text("print('edited')")
    snapshot = take(folder)
    _, missing = store.add(snapshot.data)
    assert [snapshot.folder / "train.py"] == [source.path for source in snapshot.sources(missing)]


def test_snapshot_with_missing_contents_is_not_kept(store: SnapshotStore, folder: Path) -> None:
    snapshot = take(folder)
    digest, missing = store.add(snapshot.data)
    assert (set(missing.values()), store.has(digest)) == ({0}, False)
    with pytest.raises(NotFound, match="not kept any more"):
        store.manifest(digest)


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(1, 40), max_size=6), data=st.binary(min_size=1, max_size=120))
def test_content_is_taken_up_wherever_it_was_cut(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], data: bytes
) -> None:
    folder, store = tmp_path_factory.mktemp("p"), SnapshotStore(tmp_path_factory.mktemp("s"))
    (folder / "f").write_bytes(data)
    snapshot = take(folder)
    for cut in cuts:
        _, missing = store.add(snapshot.data)
        for name, offset in missing.items():
            store.write(upload.Piece(name, len(data), offset, data[offset : offset + cut]))
    digest = send(store, snapshot)
    store.lay_out(digest, folder / "laid")
    assert (folder / "laid" / "f").read_bytes() == data


def test_piece_that_does_not_follow_is_refused_and_one_that_comes_twice_is_not(store: SnapshotStore) -> None:
    sha = "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603"  # of b"ab"
    with pytest.raises(Conflict, match="has 0 bytes here"):
        store.write(upload.Piece(sha, 2, 1, b"b"))
    store.write(upload.Piece(sha, 2, 0, b"a"))
    store.write(upload.Piece(sha, 2, 0, b"a"))
    store.write(upload.Piece(sha, 2, 1, b"b"))
    store.write(upload.Piece(sha, 2, 1, b"b"))
    assert store.content(sha).read_bytes() == b"ab"


def test_content_with_another_hash_is_refused_and_begins_again(store: SnapshotStore) -> None:
    sha = "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603"
    with pytest.raises(FilesChanged, match="changed while it was sent"):
        store.write(upload.Piece(sha, 2, 0, b"xy"))
    assert not store.content(sha).exists()
    store.write(upload.Piece(sha, 2, 0, b"ab"))
    assert store.content(sha).exists()


def test_content_damaged_at_the_same_size_is_not_laid_out(store: SnapshotStore, folder: Path, tmp_path: Path) -> None:
    digest = send(store, take(folder))
    content = store.content(next(file.sha256 for file in store.manifest(digest).files if file.path == "train.py"))
    content.write_bytes(content.read_bytes().replace(b"trained", b"tramped"))
    with pytest.raises(FilesError, match="is damaged"):
        store.lay_out(digest, tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_content_damaged_at_another_size_is_sent_again(store: SnapshotStore, folder: Path, tmp_path: Path) -> None:
    send(store, take(folder))
    snapshot = take(folder)
    file = next(file for file in snapshot.manifest.files if file.path == "train.py")
    store.content(file.sha256).write_bytes(b"cut")
    assert store.add(snapshot.data)[1] == {file.sha256: 0}
    store.lay_out(send(store, snapshot), tmp_path / "w")
    assert (tmp_path / "w" / "train.py").read_text() == "print('trained')"


def test_manifest_with_a_wrong_size_of_a_known_content_is_refused(store: SnapshotStore, folder: Path) -> None:
    send(store, take(folder))
    file = next(file for file in take(folder).manifest.files if file.path == "train.py")
    with pytest.raises(FilesChanged, match="has another size"):
        store.add(encode(manifest_of([file._replace(size=3)])))
    assert store.content(file.sha256).exists(), "a client cannot have a good content set aside"


def test_content_that_is_gone_or_damaged_is_named(store: SnapshotStore, folder: Path, tmp_path: Path) -> None:
    digest = send(store, take(folder))
    snapshot = store.manifest(digest)
    path = store.content(snapshot.files[-1].sha256)
    path.write_bytes(b"longer than it was before")
    with pytest.raises(FilesError, match="is damaged and was set aside"):
        store.lay_out(digest, tmp_path / "w")
    with pytest.raises(FilesError, match="is gone"):
        store.lay_out(digest, tmp_path / "w")
    assert path.name in store.add(take(folder).data)[1], "the next submission sends it again"
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("w")] == []


def test_upload_that_has_no_room_is_refused_before_it_begins(
    store: SnapshotStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = take(folder)
    monkeypatch.setattr(RESERVE, "bytes", 1 << 62)
    with pytest.raises(FilesError, match=r"has no room for .* that stay free \(limits.reserve_gb\). Make room"):
        store.add(taken.data)
    content = taken.manifest.files[0]
    with pytest.raises(FilesError, match="has no room for 1 bytes"):
        store.write(Piece(sha256=content.sha256, size=content.size, offset=0, data=b"x"))
    assert [path for path in (folder.parent / "snapshots").rglob("*") if path.is_file()] == []


def test_copy_for_an_attempt_that_is_small_is_made_of_what_is_here(
    store: SnapshotStore, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nearly full disk does not stop all jobs."""
    digest = send(store, take(folder))
    monkeypatch.setattr(RESERVE, "bytes", 1 << 62)
    store.lay_out(digest, tmp_path / "w")
    monkeypatch.setattr(module, "SMALL_BYTES", 0)
    with pytest.raises(OSError, match="no room for"):
        store.lay_out(digest, tmp_path / "v")


def test_prune_keeps_what_jobs_need_and_what_was_used_lately(
    store: SnapshotStore, folder: Path, tmp_path: Path
) -> None:
    first = send(store, take(folder))
    (folder / "train.py").write_text("another")
    second = send(store, take(folder))
    for path in (tmp_path / "snapshots").rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert store.prune({first, second}, DAY_S) == 0
    for path in (tmp_path / "snapshots").rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert store.prune({first}, DAY_S) == len("another")
    store.lay_out(first, tmp_path / "w")
    with pytest.raises(NotFound):
        store.lay_out(second, tmp_path / "w")


def test_snapshot_that_nobody_uses_goes_though_it_was_looked_at_every_hour(
    store: SnapshotStore, folder: Path, tmp_path: Path
) -> None:
    digest = send(store, take(folder))
    manifest = tmp_path / "snapshots" / "manifests" / digest
    used = manifest.stat().st_mtime - 29 * DAY_S
    os.utime(manifest, (used, used))
    before = manifest.stat().st_mtime_ns
    store.prune(set(), 30 * DAY_S)
    assert manifest.stat().st_mtime_ns == before, "a look is no use"
    os.utime(manifest, (used - 2 * DAY_S, used - 2 * DAY_S))
    store.prune(set(), 30 * DAY_S)
    assert not manifest.exists()


def test_prune_deletes_no_content_while_a_manifest_cannot_be_read(
    store: SnapshotStore, folder: Path, tmp_path: Path
) -> None:
    digest = send(store, take(folder))
    manifest = tmp_path / "snapshots" / "manifests" / digest
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-1])
    for path in (tmp_path / "snapshots" / "contents").rglob("*"):
        os.utime(path, (1e9, 1e9))
    with pytest.raises(FilesError, match="is damaged"):
        store.prune({digest}, DAY_S)
    manifest.write_bytes(whole)
    store.lay_out(digest, tmp_path / "w")


def test_late_piece_of_another_client_takes_nothing_back(store: SnapshotStore) -> None:
    sha = "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603"  # of b"ab"
    store.write(upload.Piece(sha, 9, 0, b"12345678"))
    store.write(upload.Piece(sha, 9, 0, b"1"))
    with pytest.raises(Conflict, match="has 8 bytes here"):
        store.write(upload.Piece(sha, 99, 50, b"x"))


@pytest.mark.parametrize(
    "body",
    [
        b"no header\n",
        b'["x",1,0,1]\na',
        b'["' + b"ab" * 32 + b'",1,0,2]\nab',
        b'["' + b"ab" * 32 + b'",2,0,2]\na',
        b'["' + b"ab" * 32 + b'",2,-1,1]\na',
        b'["' + b"ab" * 32 + b'",2.0,0,1]\na',
        b'["' + b"ab" * 32 + b'",1,0,1]a',
        b"[" * 1000,
    ],
)
def test_body_that_is_not_made_of_pieces_is_refused(body: bytes) -> None:
    with pytest.raises(SpecError):
        list(upload.parse(body))
