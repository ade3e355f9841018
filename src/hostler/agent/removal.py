"""Deleting whole folders, whatever rights and however many levels somebody has left in them."""

from __future__ import annotations

import errno
import os
import stat
import uuid
from contextlib import contextmanager, suppress
from itertools import count
from typing import Iterator, List


def remove(root: str) -> None:
    """Delete a folder and all in it; one that is gone is no error, links are not followed.

    Raises OSError when all that can be deleted is. Every folder gets the owner's rights, and is brought up to the root,
    so that no path is too long; no recursion, whose limit is less than the levels there may be.
    """
    if not os.path.lexists(root):
        return
    if os.path.islink(root) or not os.path.isdir(root):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), root)
    failures: List[OSError] = []
    unused = uuid.uuid4().hex
    names = ("%s/%s.%d" % (root, unused, number) for number in count())
    with noted(failures):
        _take_rights(root, os.stat(root).st_mode)
    waiting, seen = [root], []
    while waiting:
        folder = waiting.pop()
        seen.append(folder)
        with noted(failures):
            for inner in _emptied(folder, failures):
                with noted(failures):
                    waiting.append(inner if folder == root else _brought_up(inner, next(names)))
    for folder in reversed(seen):
        with noted(failures):
            os.rmdir(folder)
    raise_first(failures)


@contextmanager
def noted(failures: List[OSError]) -> Iterator[None]:
    """What fails within is kept for the end, so that the next step is taken; what is gone already is no failure."""
    try:
        yield
    except FileNotFoundError:
        return
    except OSError as error:
        failures.append(error)


def raise_first(failures: List[OSError]) -> None:
    """Raise what was noted first, if anything was."""
    if failures:
        raise failures[0]


def _emptied(folder: str, failures: List[OSError]) -> List[str]:
    """Delete the files of a folder. Returns the folders in it, to which it has the rights now."""
    with os.scandir(folder) as found:
        entries = list(found)
    folders = []
    for entry in entries:
        with noted(failures):
            if entry.is_dir(follow_symlinks=False):
                _take_rights(entry.path, entry.stat(follow_symlinks=False).st_mode)
                folders.append(entry.path)
            else:
                os.unlink(entry.path)
    return folders


def _take_rights(folder: str, mode: int) -> None:
    """Without them it can neither be emptied nor moved; another's may be empty, and is told of else."""
    if mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(PermissionError):
            os.chmod(folder, stat.S_IRWXU)


def _brought_up(folder: str, name: str) -> str:
    """Its path from now on: one that is another's stays where it is."""
    with suppress(PermissionError):
        os.rename(folder, name)
        return name
    return folder
