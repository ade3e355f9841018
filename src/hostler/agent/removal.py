"""Deleting whole folders, whatever rights and however many levels somebody has left in them."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from contextlib import contextmanager, suppress
from itertools import count
from typing import Iterator, List


def remove(folder: str) -> None:
    """Delete a folder and all in it; one that is gone is no error, links are not followed.

    Raises OSError when all that can be deleted is.
    """
    with suppress(RecursionError):  # older Pythons go down by recursion; what is left by either is taken care of below
        shutil.rmtree(folder, ignore_errors=True)
    if os.path.lexists(folder):
        _remove_by_force(folder)


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


def _remove_by_force(root: str) -> None:
    """Every folder gets the owner's rights, and is brought up to the root: no path, and no stack, is too long then."""
    if os.path.islink(root) or not os.path.isdir(root):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), root)
    failures: List[OSError] = []
    names = map(("%s/%s." % (root, uuid.uuid4().hex) + "%d").__mod__, count())
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        with noted(failures):
            waiting += _emptied(folder, names, failures)
            if folder != root:
                os.rmdir(folder)
    with noted(failures):
        os.rmdir(root)
    raise_first(failures)


def _emptied(folder: str, names: Iterator[str], failures: List[OSError]) -> List[str]:
    """Delete the files of a folder, and give the folders in it these names. Returns the names that are in use now."""
    os.chmod(folder, 0o700)
    with os.scandir(folder) as found:
        entries = list(found)
    brought_up = []
    for entry in entries:
        with noted(failures):
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)  # a folder that may not be written to cannot be moved
                name = next(names)
                os.rename(entry.path, name)
                brought_up.append(name)
            else:
                os.unlink(entry.path)
    return brought_up
