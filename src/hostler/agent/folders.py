"""The folders of attempts: made, deleted, and used again.

Making and deleting a folder with two files costs more than all else the agent does for a short attempt: on ext4 it is
some 0.2 ms on a quiet machine and several times that after many deletions, against 0.04 ms for two renames. So a
folder in which nothing was left becomes a spare one, if it is certain that no process of its attempt is left either:
orphans of this process's attempts are its own children (it is their sub-reaper), so when all its children are known,
there is none.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
from itertools import count
from typing import AbstractSet, Iterable, List, Optional, Set

_MOST_SPARE = 256
_EMPTY_FILES = ["err", "out"]
_PLAIN_FILE = stat.S_IFREG | 0o600


class Folders:
    """``root/attempts/<id>`` for each attempt, and spare ones in ``root/spare``."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._spare: List[str] = []
        self._numbers = count()
        self._made_here: Set[str] = set()
        shutil.rmtree(root + "/spare", ignore_errors=True)
        for name in ("attempts", "spare"):
            os.makedirs(root + "/" + name, 0o700, exist_ok=True)

    def path(self, name: str) -> str:
        """The folder of an attempt, whether it is there or not."""
        return "%s/attempts/%s" % (self._root, name)

    def make(self, name: str) -> str:
        """An empty folder for an attempt that is about to start; raises OSError."""
        folder = self.path(name)
        self._made_here.add(name)
        try:
            self._place(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            _delete(folder)  # an attempt of that id ended here before, and is forgotten
            self._place(folder)
        return folder

    def holds_something(self, name: str) -> bool:
        """Whether an attempt left output or files."""
        return not _is_untouched(self.path(name))

    def discard(self, names: Iterable[str], known_children: AbstractSet[int]) -> None:
        """Delete the folders of ended attempts, or keep them as spare ones; raises OSError.

        ``known_children`` are the pids of this process's children that are no orphans.
        """
        children = _children()
        may_reuse = children is not None and children <= known_children
        for name in names:
            folder = self.path(name)
            if may_reuse and name in self._made_here and len(self._spare) < _MOST_SPARE and _is_untouched(folder):
                self._keep(folder)
            else:
                _delete(folder)
            self._made_here.discard(name)

    def _place(self, folder: str) -> None:
        if not self._spare:
            os.mkdir(folder, 0o700)
            return
        os.rename(self._spare[-1], folder)
        self._spare.pop()

    def _keep(self, folder: str) -> None:
        spare = "%s/spare/%d" % (self._root, next(self._numbers))
        os.rename(folder, spare)
        self._spare.append(spare)


def _children() -> Optional[Set[int]]:
    """The pids of this process's children, zombies included; None where the kernel does not tell (proc(5))."""
    try:
        with open("/proc/self/task/%d/children" % threading.get_native_id(), "rb") as source:
            return set(map(int, source.read().split()))
    except OSError:
        return None


def _is_untouched(folder: str) -> bool:
    try:
        return sorted(os.listdir(folder)) == _EMPTY_FILES and all(_is_empty(folder + "/" + x) for x in _EMPTY_FILES)
    except OSError:
        return False


def _is_empty(path: str) -> bool:
    found = os.lstat(path)
    return found.st_mode == _PLAIN_FILE and found.st_size == 0 and found.st_nlink == 1


def _delete(folder: str) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
