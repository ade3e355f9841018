"""Folders with the files of a snapshot, one for each attempt, on a file system that controller and nodes share."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hostler.backends.base import Store
from hostler.backends.local.outputs import copied
from hostler.model.commands import AttemptOrder
from hostler.model.errors import FilesError, NotFound
from hostler.model.files import Fetch, FileRef


class Workspaces:
    """The workspaces of one node; nothing else lies in the folder that `root` returns. Every method blocks."""

    def __init__(self, store: Store, root: Callable[[], Path]) -> None:
        self._store = store
        self._root = root

    def supplied(self, order: AttemptOrder) -> AttemptOrder:
        """The order with a workspace as its folder. Raises `FilesError` where the snapshot cannot be laid out."""
        if order.snapshot is None:
            return order
        workspace = self._root() / order.id
        try:
            self._store.snapshots.lay_out(order.snapshot, workspace)
        except NotFound as error:
            raise FilesError(str(error)) from error
        return replace(order, cwd=str(workspace), snapshot=None)

    def copied(self, attempt: str, what: Fetch, otherwise: Path) -> tuple[FileRef, ...]:
        """Copy what an attempt left in its workspace or, where it had none, in the other folder; raises as `copied`."""
        workspace = self._root() / attempt
        return copied(workspace if workspace.is_dir() else otherwise, what, self._store, attempt)

    def clear(self, attempt: str) -> None:
        """Delete the workspace of an attempt."""
        shutil.rmtree(self._root() / attempt, ignore_errors=True)

    def keep(self, attempts: Sequence[str]) -> None:
        """Delete all workspaces but those of these attempts."""
        root, kept = self._root(), frozenset(attempts)
        for folder in root.iterdir() if root.is_dir() else ():
            if folder.name not in kept:
                shutil.rmtree(folder, ignore_errors=True)
