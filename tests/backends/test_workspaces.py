"""Workspaces on this machine: threads that were left behind, rights, links, too many files."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostler.backends.base import Store
from hostler.backends.local import outputs
from hostler.backends.local.workspaces import Workspaces
from hostler.model.commands import AttemptOrder, WorkerOrder
from hostler.model.errors import FilesError, PartlyFetched
from hostler.model.files import Fetch
from hostler.snapshots.store import SnapshotStore
from tests.patience import PATIENCE_S
from tests.snapshots import kept as snapshots


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(results=tmp_path / "results", artifacts=tmp_path / "artifacts")


@pytest.fixture
def workspaces(store: Store, tmp_path: Path) -> Workspaces:
    return Workspaces(store, lambda: tmp_path / "trees")


def kept(store: Store, folder: Path) -> str:
    """The digest of a snapshot of 20 files that the store has."""
    folder.mkdir()
    for number in range(20):
        (folder / f"f{number}").write_text(f"content {number}")
    return snapshots.kept(store.snapshots, folder)


def order(snapshot: str) -> AttemptOrder:
    return AttemptOrder(
        id="j1.1", queue="cpu0", argv=("true",), env={}, cwd=None, walltime_s=None, memory_bytes=None, grace_s=1.0,
        inputs=None, snapshot=snapshot,
    )  # fmt: skip


class Stopped:
    """A function that waits at its first call until it may go on."""

    def __init__(self, function: object) -> None:
        self.function = function
        self.reached, self.may_go_on = threading.Event(), threading.Event()

    def __call__(self, *args: object, **kwargs: object) -> object:
        if not self.reached.is_set():
            self.reached.set()
            assert self.may_go_on.wait(PATIENCE_S)
        return self.function(*args, **kwargs)  # type: ignore[operator]


def test_second_collection_waits_for_one_whose_task_was_cancelled(
    workspaces: Workspaces, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = kept(store, tmp_path / "p")
    workspaces.supplied(order(snapshot))
    for number in range(6):
        (tmp_path / "trees" / "j1.1" / f"m{number}.pt").write_text(f"model {number}" * 1000)
    first = Stopped(outputs._copy)
    monkeypatch.setattr(outputs, "_copy", first)
    results: list[object] = []
    fetch = Fetch(changed_since=snapshot)
    threads = [
        threading.Thread(target=lambda: results.append(workspaces.copied("j1.1", fetch, tmp_path))) for _ in range(2)
    ]
    threads[0].start()
    assert first.reached.wait(PATIENCE_S)
    threads[1].start()
    first.may_go_on.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(results) == 2
    assert results[0] == results[1]
    for number in range(6):
        assert (store.results / "j1.1" / f"m{number}.pt").read_text() == f"model {number}" * 1000


def test_clear_waits_for_a_workspace_that_is_being_laid_out(
    workspaces: Workspaces, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = kept(store, tmp_path / "p")
    laying = Stopped(SnapshotStore._copy)
    monkeypatch.setattr(SnapshotStore, "_copy", lambda self, *args: laying(self, *args))
    first = threading.Thread(target=lambda: workspaces.supplied(order(snapshot)))
    first.start()
    assert laying.reached.wait(PATIENCE_S)
    second = threading.Thread(target=lambda: workspaces.clear("j1.1"))
    second.start()
    workspaces.keep(["j9.1"])
    assert first.is_alive(), "what is being laid out is not deleted"
    laying.may_go_on.set()
    first.join(PATIENCE_S)
    second.join(PATIENCE_S)
    assert list((tmp_path / "trees").iterdir()) == []


def test_workspace_without_rights_and_a_link_in_its_place_are_deleted(workspaces: Workspaces, tmp_path: Path) -> None:
    trees = tmp_path / "trees"
    (trees / "j1.1" / "deep").mkdir(parents=True)
    (trees / "j1.1" / "deep" / "file").touch()
    (trees / "j1.1" / "deep").chmod(0o555)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    (trees / "j2.1").symlink_to(outside)
    with pytest.raises(PartlyFetched, match="is gone"):
        workspaces.copied("j2.1", Fetch(changed_since="ab" * 32), tmp_path)
    workspaces.keep([])
    assert list(trees.iterdir()) == []
    assert (outside / "precious").exists()


@contextmanager
def as_another_user() -> Iterator[None]:
    """What mode bits say counts for this process meanwhile."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user for a while")
def test_unreadable_outputs_are_named_and_the_others_are_copied() -> None:
    with tempfile.TemporaryDirectory(prefix="hostler-", dir="/tmp") as folder:
        os.chmod(folder, 0o777)
        here = Path(folder)
        with as_another_user():
            store = Store(results=here / "results", artifacts=here / "artifacts")
            (here / "empty").mkdir()
            digest = snapshots.kept(store.snapshots, here / "empty")
            ran = here / "ran"
            (ran / "closed").mkdir(parents=True)
            (ran / "model.pt").write_text("model")
            (ran / "secret").write_text("secret")
            (ran / "secret").chmod(0)
            (ran / "closed").chmod(0)
            with pytest.raises(PartlyFetched, match=r"closed/, secret cannot be read") as raised:
                outputs.copied_changes(ran, digest, store, "j1.1")
            assert [file.path for file in raised.value.files] == ["j1.1/model.pt"]
            (ran / "closed").chmod(0o700)
            with pytest.raises(FilesError, match="secret cannot be read: Permission denied"):
                outputs.copied(ran, ("secret",), store, "j2.1")


def worker(snapshot: str | None, device: str = "cpu0") -> WorkerOrder:
    return WorkerOrder(
        id=f"w-j1-n-{device}", queue=device, argv=("true",), env={}, digest="d", params={}, silence_s=1.0, start_s=1.0,
        snapshot=snapshot, sweep=None if snapshot is None else "j1",
    )  # fmt: skip


def test_workers_of_a_sweep_share_one_workspace(workspaces: Workspaces, store: Store, tmp_path: Path) -> None:
    snapshot = kept(store, tmp_path / "p")
    first = workspaces.shared(worker(snapshot))
    assert (first.cwd, first.snapshot) == (str(tmp_path / "trees" / "j1"), None)
    (tmp_path / "trees" / "j1" / "cache").touch()
    second = workspaces.shared(worker(snapshot, "cpu1"))
    assert second.cwd == first.cwd
    assert (tmp_path / "trees" / "j1" / "cache").exists(), "the folder of the first worker stays as it is"
    workspaces.keep(["j1"])
    assert (tmp_path / "trees" / "j1" / "f0").read_text() == "content 0"
    workspaces.clear("j1")
    assert list((tmp_path / "trees").iterdir()) == []


def test_shared_workspace_with_none_of_its_files_is_laid_out_again(
    workspaces: Workspaces, store: Store, tmp_path: Path
) -> None:
    """A Python that is still ending makes the folder of its caches again after the deletion."""
    cache = tmp_path / "trees" / "j1" / "__pycache__"
    cache.mkdir(parents=True)
    workspaces.shared(worker(kept(store, tmp_path / "p")))
    assert (tmp_path / "trees" / "j1" / "f0").read_text() == "content 0"
    assert not cache.exists()


def test_worker_without_a_snapshot_gets_no_workspace(workspaces: Workspaces, tmp_path: Path) -> None:
    assert workspaces.shared(worker(None)) == worker(None)
    assert not (tmp_path / "trees").exists()


def test_link_in_place_of_a_shared_workspace_is_replaced(workspaces: Workspaces, store: Store, tmp_path: Path) -> None:
    snapshot = kept(store, tmp_path / "p")
    (tmp_path / "trees").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "trees" / "j1").symlink_to(tmp_path / "outside")
    workspaces.shared(worker(snapshot))
    assert not (tmp_path / "trees" / "j1").is_symlink()
    assert list((tmp_path / "outside").iterdir()) == []


def test_worker_whose_snapshot_is_gone_cannot_be_laid_out(workspaces: Workspaces) -> None:
    with pytest.raises(FilesError, match="is not kept any more"):
        workspaces.shared(worker("ab" * 32))
