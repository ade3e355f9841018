"""What artifacts lie in this node's artifact folder, and letting go of some that the controller names.

Everything is looked up folder by folder, each opened in the one before, and no link is followed: nothing outside of
``artifacts/objects`` is ever looked at or touched, and nothing in there that is not called as artifacts are.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Dict, Iterator, List, Optional, Tuple

from .protocol import Json, RequestError, integer, seconds

NAMES_MAX = 1000
"""Artifacts of one request, whichever it is."""
OBJECTS = ("artifacts", "objects")
PARTIAL = "partial"
Row = List[object]
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HEX = frozenset("0123456789abcdef")


def listed(root: str, endings: Tuple[str, ...], request: Json) -> Json:
    """Artifacts by name, behind the one called ``after``: ``[name, bytes, seconds since its last use]``; the disk."""
    limit = min(integer(request["limit"], "limit"), NAMES_MAX)
    with _folder(root, OBJECTS) as objects:
        found = list(islice(_behind(objects, endings, str(request["after"])), limit + 1))
    return {"files": found[:limit], "more": len(found) > limit, "disk": _disk(root)}


def drop(root: str, endings: Tuple[str, ...], request: Json) -> Json:
    """Remove artifacts that nobody has used for so long: ``[name, bytes]`` of what went, why the others stay; the disk.

    Raises RequestError, before anything is touched, where one is not called as artifacts are.
    """
    names, unused_s = [str(name) for name in request["names"]], seconds(request["unused_s"], "unused_s")
    if len(names) > NAMES_MAX or not all(_is_artifact(name, endings) for name in names):
        raise RequestError("at most %d artifacts, each called <sha256> and one of %s" % (NAMES_MAX, ", ".join(endings)))
    _refuse_store(root)
    os.makedirs(os.path.join(root, PARTIAL), 0o700, exist_ok=True)
    gone: List[Row] = []
    left: Dict[str, str] = {}
    with _folder(root, (PARTIAL,)) as partial:
        for name in names:
            with _folder(root, (*OBJECTS, name[:2])) as shelf:
                try:
                    gone.append([name, _removed(shelf, partial, name, unused_s)])
                except OSError as error:
                    left[name] = error.strerror or str(error)
    return {"gone": gone, "left": left, "disk": _disk(root)}


def _behind(objects: Optional[int], endings: Tuple[str, ...], after: str) -> Iterator[Row]:
    """Artifacts in order of their names, each in the folder where it belongs."""
    for shelf in [] if objects is None else sorted(os.listdir(objects)):
        if len(shelf) != 2 or shelf < after[:2]:
            continue
        with _within(objects, shelf) as folder:
            names = [] if folder is None else os.listdir(folder)
            for name in sorted(names):
                if name > after and name[:2] == shelf and _is_artifact(name, endings):
                    with suppress(FileNotFoundError):
                        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
                        if stat.S_ISREG(seen.st_mode):
                            yield [name, seen.st_size, max(_unused_s(seen), 0.0)]


def _removed(shelf: Optional[int], partial: Optional[int], name: str, unused_s: float) -> int:
    """Take a file out of its place, have a last look at it, and delete it; its bytes.

    Whoever is told by ``missing`` that it is there has marked it as used by that: before it was taken away, then it is
    put back; or not at all, then it is missing. Raises OSError where it stays, or was not there.
    """
    if shelf is None or partial is None:
        raise FileNotFoundError(0, "it is not there")
    _unused_bytes(name, shelf, unused_s)
    aside = name + ".gone"
    os.rename(name, aside, src_dir_fd=shelf, dst_dir_fd=partial)
    try:
        size = _unused_bytes(aside, partial, unused_s)
    except OSError:
        _put_back(shelf, partial, name, aside)
        raise
    os.unlink(aside, dir_fd=partial)
    return size


def _unused_bytes(name: str, folder: int, unused_s: float) -> int:
    """The size of a regular file that nobody has used for so long. Raises OSError for any other."""
    seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(seen.st_mode):
        raise OSError(0, "it is no regular file")
    if not _unused_s(seen) >= unused_s:  # nor where that is no number
        raise OSError(0, "it was used of late")
    return seen.st_size


def _put_back(shelf: int, partial: int, name: str, aside: str) -> None:
    """To where it was, if nobody has brought it there anew."""
    try:
        os.link(aside, name, src_dir_fd=partial, dst_dir_fd=shelf, follow_symlinks=False)
    except FileExistsError:
        pass
    except (OSError, NotImplementedError):  # a file system without hard links
        os.rename(aside, name, src_dir_fd=partial, dst_dir_fd=shelf)
        return
    os.unlink(aside, dir_fd=partial)


def _refuse_store(root: str) -> None:
    """What counts as a store is not cleaned as a node is: what lies there is the proof of what goes elsewhere."""
    from .shelves import LABEL  # which needs the module that needs this

    if os.path.lexists(os.path.join(root, OBJECTS[0], LABEL)):
        raise OSError(0, "%s is a store: what lies there counts" % os.path.join(root, OBJECTS[0]))


def _is_artifact(name: str, endings: Tuple[str, ...]) -> bool:
    return len(name) > 64 and _HEX.issuperset(name[:64]) and name[64:] in endings


def _unused_s(seen: os.stat_result) -> float:
    """How long ago it was written, asked for or read, as far as its file system notes that."""
    return time.time() - max(seen.st_mtime, seen.st_atime)


def _disk(root: str) -> List[int]:
    """Bytes of the disk, and those that are free, for who may not use what is kept for root, which counts as taken."""
    told = os.statvfs(root)
    free = told.f_bavail * told.f_frsize
    return [(told.f_blocks - told.f_bfree) * told.f_frsize + free, free]


@contextmanager
def _folder(root: str, parts: Tuple[str, ...]) -> Iterator[Optional[int]]:
    """A folder below the agent's own, held open; None where there is none, or a link on the way."""
    here: Optional[int] = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts:
            above, here = here, _opened(here, part)
            if above is not None:
                os.close(above)
        yield here
    finally:
        if here is not None:
            os.close(here)


@contextmanager
def _within(folder: Optional[int], name: str) -> Iterator[Optional[int]]:
    found = _opened(folder, name)
    try:
        yield found
    finally:
        if found is not None:
            os.close(found)


def _opened(folder: Optional[int], name: str) -> Optional[int]:
    if folder is None:
        return None
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        return None
