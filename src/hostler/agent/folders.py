"""The folders of attempts: made, deleted, and used again.

Making and deleting a folder with two files costs more than all else the agent does for a short attempt: on ext4 it is
some 0.2 ms on a quiet machine and several times that after many deletions, against 0.02 ms for a rename. So a
folder in which nothing was left becomes a spare one, if it is certain that nobody was there to touch it after the
look into it: the orphans of this process's attempts are its own children (it is their sub-reaper), so when it has
reaped no orphan since and all its children are known, there was none.

Where the root is a link, the folders of other agents are behind it too (those of other allocations of a cluster). Then
none is kept as a spare one, because they are deleted by others, and none is tidied up that may be another's.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from typing import AbstractSet, Dict, Iterable, List, Optional, Set

from .removal import noted, raise_first, remove

_MOST_SPARE = 256
_PLAIN_FILE = stat.S_IFREG | 0o600


class Folders:
    """``root/<id>`` for each attempt. A spare one keeps the name it had until it gets its next one."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._spare: Dict[str, None] = {}
        self._made_here: Set[str] = set()
        self._untouched: Dict[str, int] = {}
        self.orphans_reaped = 0
        self._is_shared = os.path.islink(root)
        os.makedirs(root, 0o700, exist_ok=True)

    def path(self, name: str) -> str:
        """The folder of an attempt, whether it is there or not."""
        return self._root + "/" + name

    def make(self, name: str) -> str:
        """An empty folder for an attempt that is about to start; raises OSError."""
        folder = self.path(name)
        self._made_here.add(name)
        try:
            self._place(folder)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            remove(folder)  # an attempt of that id ended here before, and is forgotten
            self._place(folder)
        return folder

    def left_behind(self, name: str) -> List[str]:
        """What is in the folder of an attempt that has just ended, empty output files aside."""
        left = _contents(self.path(name))
        if not left and name in self._made_here:
            self._untouched[name] = self.orphans_reaped
        self._made_here.discard(name)
        return left

    def discard(self, names: Iterable[str], known_children: AbstractSet[int]) -> None:
        """Delete the folders of ended attempts, or keep them as spare ones; raises OSError when all others are gone.

        ``known_children`` are the pids of this process's children that are no orphans.
        """
        children = _children()
        are_known = children is not None and children <= known_children and not self._is_shared
        failures: List[OSError] = []
        for name in names:
            is_alone = are_known and self._untouched.get(name) == self.orphans_reaped
            self._untouched.pop(name, None)
            if is_alone and len(self._spare) < _MOST_SPARE:
                self._spare[self.path(name)] = None
            else:
                with noted(failures):
                    remove(self.path(name))
        raise_first(failures)

    def tidy(self, keep: AbstractSet[str]) -> None:
        """Delete the folders with nothing in them, as an earlier agent's spare ones, except those of ``keep``."""
        for name in [] if self._is_shared else os.listdir(self._root):
            if name not in keep and not _contents(self.path(name)):
                remove(self.path(name))

    def _place(self, folder: str) -> None:
        if folder in self._spare:
            del self._spare[folder]
        elif self._spare:
            os.rename(self._spare.popitem()[0], folder)
        else:
            os.mkdir(folder, 0o700)


def _children() -> Optional[Set[int]]:
    """The pids of this process's children, zombies included; None where the kernel does not tell (proc(5))."""
    try:
        with open("/proc/self/task/%d/children" % threading.get_native_id(), "rb") as source:
            return set(map(int, source.read().split()))
    except OSError:
        return None


def _contents(folder: str) -> List[str]:
    """What is in a folder, in no order, but for ``out`` and ``err`` as they were made; what cannot be read is ``?``."""
    try:
        return [name for name in os.listdir(folder) if name not in ("out", "err") or _is_touched(folder + "/" + name)]
    except OSError:
        return ["?"]


def _is_touched(path: str) -> bool:
    found = os.lstat(path)
    return found.st_size != 0 or found.st_mode != _PLAIN_FILE or found.st_nlink != 1
