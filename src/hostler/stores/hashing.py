"""Reading while hashing: one way for all stores, so that none counts bytes that it did not compare."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hostler.model.errors import FilesChanged, FilesError
from hostler.stores.base import PIECE, Damaged, Missing, ObjectName, Pace

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})
_TEMPORARY = re.compile(r"\..+\.appearing\.[0-9a-f]{16}\.tmp")


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """All of a file, in pieces."""
    while piece := file.read(PIECE):
        yield piece


def checked(name: ObjectName, content: Iterable[bytes], pace: Pace, where: str) -> Iterator[bytes]:
    """The same pieces; at their end `Damaged` where all together do not have the hash of `name`."""
    digest, size = hashlib.sha256(), 0
    for piece in _readable(name, content, where):
        digest.update(piece)
        size += len(piece)
        pace(len(piece))
        yield piece
    if digest.hexdigest() != name.sha256:
        raise Damaged(f"{name.path} {where} is damaged: its {size} bytes have the SHA-256 {digest.hexdigest()}")


def _readable(name: ObjectName, content: Iterable[bytes], where: str) -> Iterator[bytes]:
    """A disk that cannot be read from is told of as that one: whoever writes elsewhere would be blamed for it."""
    try:
        yield from content
    except OSError as error:
        raise FilesError(f"{name.path} {where} cannot be read: {error.strerror or error}") from error


def verified(name: ObjectName, content: Iterable[bytes], pace: Pace, where: str) -> int:
    """Read all of it for its hash alone; answers the bytes. Raises `Damaged`."""
    return sum(map(len, checked(name, content, pace, where)))


@contextmanager
def arriving(where: str) -> Iterator[None]:
    """What is put there: that it is not there then says nothing of where it came from. Raises `FilesError` for that."""
    try:
        yield
    except Missing as error:
        raise FilesError(f"what was put {where} is not there: {error}; see whether it keeps what it takes") from error


@contextmanager
def opened(source: Path) -> Iterator[BinaryIO]:
    """A regular file to read; a link is none, wherever it leads. Raises `Missing` and `FilesError`."""
    with plain(source) as file:
        yield file


def plain(source: Path) -> BinaryIO:
    """The same, which the caller closes. Nobody waits for what is a pipe in its place, as one would for ever."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise Missing(f"{source} is not there") from error
    except OSError as error:
        raise FilesError(f"{source} cannot be read: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise FilesError(f"{source} is no regular file; see who has put it there, and take it away")
    return os.fdopen(descriptor, "rb")


def own(name: ObjectName, source: Path, file: BinaryIO, pace: Pace) -> Iterator[bytes]:
    """What is to be put: `FilesChanged` at its end where it is not what it is said to be."""
    try:
        yield from checked(name, pieces(file), pace, f"({source})")
    except Damaged as error:
        raise FilesChanged(f"it is not put anywhere: {error}") from error


@contextmanager
def appearing(target: Path) -> Iterator[BinaryIO]:
    """A file to write that appears at `target`, on the disk, when the block ends well; otherwise nothing is left.

    What somebody left in the same folder who was killed meanwhile is deleted. Raises `FilesError` where there is no
    room, or no right to write.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target.parent)
        with _begun(target) as file:
            temporary = Path(file.name)
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                temporary.rename(target)  # before its lock goes
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        sync_folder(target.parent)
    except OSError as error:
        raise FilesError(_refusal(target, error)) from error


def sync_folder(folder: Path) -> None:
    """Have the names in it on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _begun(target: Path) -> BinaryIO:
    """A file of our own beside the target, locked."""
    while True:
        file = target.with_name(f".{target.name}.appearing.{os.urandom(8).hex()}.tmp").open("xb")
        _lock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # somebody came between, and took it for a dead one's


def _sweep(folder: Path) -> None:
    """Delete what was to appear here and whose writer is no more: its lock went with it, on whichever machine."""
    with os.scandir(folder) as entries:
        left = [Path(entry) for entry in entries if _TEMPORARY.fullmatch(entry.name)]
    for path in left:
        with suppress(OSError), path.open("r+b") as file:  # it is in nobody's way
            if _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
                path.unlink()


def _lock(file: BinaryIO, how: int) -> bool:
    """Whether it is ours alone until it is closed. Where there are no locks nobody's file is, nor is it swept."""
    try:
        fcntl.flock(file.fileno(), how)
    except OSError:
        return False
    return True


def _refusal(target: Path, error: OSError) -> str:
    if error.errno in NO_ROOM:
        return (
            f"{target} cannot be written, its disk is full: make room there, or let `hostler disk plan` say what may go"
        )
    return f"{target} cannot be written: {error.strerror or error}"
