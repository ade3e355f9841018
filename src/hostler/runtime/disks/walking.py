"""Going about below a root without ever leaving it: folder by folder, each opened in the one before, no link followed.

Names are looked up where a folder that is held open says they are. Whoever plants a link, or swaps a folder while it is
gone through, gets an error or is passed over; nothing outside of the root is ever opened, moved or deleted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from hostler.stores.base import LABEL

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
DEEPEST = 8
"""Folders below a root that are looked into; nothing that is known lies deeper."""
TOMBS = ".tombstones"
"""The folder of a root where what is deleted waits."""
OURS = frozenset((TOMBS, LABEL))
"""Names in a root that stay there for as long as it does."""


class Identity(NamedTuple):
    """What tells a file from another one that was put in its place, and from itself after it was written to."""

    device: int
    inode: int
    bytes: int
    mtime_ns: int


class Seen(NamedTuple):
    """A regular file below a root; `path` is relative to it."""

    path: str
    identity: Identity

    @property
    def used_at(self) -> float:
        """When it was written last."""
        return self.identity.mtime_ns / 1e9


class Moved(Exception):
    """What is there is not what was looked at: it has gone, was written to, or is something else now."""


@contextmanager
def opened(root: Path) -> Iterator[int]:
    """A root, held open. It may be reached through links itself: whoever configured it has chosen them."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def folder_in(root: int, parts: tuple[str, ...], *, make: bool = False) -> Iterator[int]:
    """A folder below a root that is held open, each step opened in the one before. Raises `OSError`, also for links."""
    here = os.dup(root)
    try:
        for part in parts:
            _refuse(part)
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=here)
            inner = os.open(part, FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        yield here
    finally:
        os.close(here)


def walk(root: Path) -> Iterator[Seen]:
    """All regular files below a root, but its label and what lies in tombstones; links and mounts are passed over."""
    with opened(root) as top:
        yield from _below(top, "", os.fstat(top).st_dev, DEEPEST)


def identity_of(folder: int, name: str) -> Identity:
    """The file of that name in a folder that is held open. Raises `Moved` where there is no regular file."""
    _refuse(name)
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError as error:
        raise Moved("it is not there any more") from error
    except OSError as error:
        raise Moved(f"it cannot be looked at: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise Moved("it is no regular file any more")
    return _identity(found)


def split(path: str) -> tuple[tuple[str, ...], str]:
    """The folders and the name of a relative path. Raises `Moved` for what leads elsewhere."""
    *folders, name = path.split("/")
    for part in (*folders, name):
        _refuse(part)
    return tuple(folders), name


def _refuse(part: str) -> None:
    if part in ("", ".", "..") or "/" in part or "\0" in part:
        raise Moved(f"{part!r} is no name of a file")


def _identity(found: os.stat_result) -> Identity:
    return Identity(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _below(folder: int, prefix: str, device: int, depth: int) -> Iterator[Seen]:
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if prefix == "" and entry.name in OURS:
                continue
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    yield Seen(prefix + entry.name, _identity(entry.stat(follow_symlinks=False)))
    for name in sorted(folders) if depth else ():
        try:
            inner = os.open(name, FOLDER, dir_fd=folder)
        except OSError:  # gone meanwhile, a link now, or not ours to read: nothing is known of it
            continue
        try:
            if os.fstat(inner).st_dev == device:
                yield from _below(inner, f"{prefix}{name}/", device, depth - 1)
        finally:
            os.close(inner)
