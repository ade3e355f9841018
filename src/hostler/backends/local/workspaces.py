"""Folders with the files of a snapshot, on a file system that controller and nodes share.

Each attempt has one, and the workers of a sweep share one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hostler.agent.removal import noted, raise_first, remove
from hostler.backends.base import GONE, Store
from hostler.backends.local.outputs import copied, copied_changes
from hostler.model.commands import AttemptOrder, WorkerOrder
from hostler.model.errors import FilesError, NotFound, PartlyFetched
from hostler.model.files import Fetch, FileRef


@dataclass
class _Use:
    """Threads that work on a workspace or wait for one that does."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    number: int = 0


class Workspaces:
    """The workspaces of one node; nothing else lies in the folder that `root` returns. Every method blocks.

    A task that is cancelled leaves its thread behind: what follows on the same workspace waits for that thread.
    """

    def __init__(self, store: Store, root: Callable[[], Path]) -> None:
        self._store = store
        self._root = root
        self._busy: dict[str, _Use] = {}
        self._guard = threading.Lock()

    def supplied(self, order: AttemptOrder) -> AttemptOrder:
        """The order with a workspace as its folder. Raises `FilesError` where the snapshot cannot be laid out."""
        if order.snapshot is None:
            return order
        workspace = self._root() / order.id
        with self._alone(order.id):
            self._lay_out(order.snapshot, workspace)
        return replace(order, cwd=str(workspace), snapshot=None)

    def shared(self, order: WorkerOrder) -> WorkerOrder:
        """The order with the workspace of its sweep as its folder, as it is if there is one. Raises as `supplied`."""
        if order.snapshot is None or order.sweep is None:
            return order
        workspace = self._root() / order.sweep
        with self._alone(order.sweep):
            if not self._is_laid(workspace, order.snapshot):
                self._lay_out(order.snapshot, workspace)
        return replace(order, cwd=str(workspace), snapshot=None)

    def copied(self, attempt: str, what: Fetch, otherwise: Path) -> tuple[FileRef, ...]:
        """Copy what an attempt left in its workspace or, where it had none, in the other folder.

        Raises as `copied` and `copied_changes`.
        """
        workspace = self._root() / attempt
        with self._alone(attempt):
            is_there = workspace.is_dir() and not workspace.is_symlink()
            if what.changed_since is None:
                return copied(workspace if is_there else otherwise, what.outputs, self._store, attempt)
            if not is_there:
                raise PartlyFetched(GONE)
            try:
                return copied_changes(workspace, what.changed_since, self._store, attempt)
            except NotFound as error:
                raise FilesError(str(error)) from error

    def clear(self, name: str) -> None:
        """Delete the workspace of an attempt or a sweep. Raises `FilesError` where that cannot be."""
        with self._alone(name):
            _deleted([self._root() / name])

    def keep(self, wanted: Sequence[str]) -> None:
        """Delete all workspaces but those of these attempts and sweeps.

        Raises `FilesError` when all that can be deleted is.
        """
        root, kept = self._root(), frozenset(wanted)
        with self._guard:
            busy = frozenset(self._busy)
        names = [path.name for path in (root.iterdir() if root.is_dir() else ())]
        _deleted([root / name for name in names if name.removesuffix(".new") not in kept | busy])

    def _is_laid(self, workspace: Path, snapshot: str) -> bool:
        """Whether the workspace of a sweep is there.

        One with none of its files was made by a process that outlived the deletion: Python makes the folders of its
        caches.
        """
        if not workspace.is_dir() or workspace.is_symlink():
            return False
        try:
            files = self._store.snapshots.manifest(snapshot).files
        except NotFound:
            return True  # what is laid out needs it no more
        return not files or any(os.path.lexists(workspace / each.path) for each in files)

    def _lay_out(self, snapshot: str, workspace: Path) -> None:
        _remove(workspace)
        try:
            self._store.snapshots.lay_out(snapshot, workspace)
        except NotFound as error:
            raise FilesError(str(error)) from error

    @contextmanager
    def _alone(self, name: str) -> Iterator[None]:
        with self._guard:
            use = self._busy.setdefault(name, _Use())
            use.number += 1
        try:
            with use.lock:
                yield
        finally:
            with self._guard:
                use.number -= 1
                if not use.number:
                    del self._busy[name]


def _deleted(folders: Sequence[Path]) -> None:
    failures: list[OSError] = []
    for folder in folders:
        with noted(failures):
            _remove(folder)
    try:
        raise_first(failures)
    except OSError as error:
        raise FilesError(f"{error.filename} cannot be deleted: {error.strerror}") from error


def _remove(folder: Path) -> None:
    """Delete a workspace with whatever rights are in it; a job may have put a link in its place."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    else:
        remove(str(folder))
