"""Reading while hashing: one way for all stores, so that none counts bytes that it did not compare."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hostler.model.errors import FilesChanged, FilesError
from hostler.stores.base import PIECE, Damaged, Missing, ObjectName, Pace

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def pieces(file: BinaryIO) -> Iterator[bytes]:
    """All of a file, in pieces."""
    while piece := file.read(PIECE):
        yield piece


def checked(name: ObjectName, content: Iterable[bytes], pace: Pace, where: str) -> Iterator[bytes]:
    """The same pieces; at their end `Damaged` where all together do not have the hash of `name`."""
    digest, size = hashlib.sha256(), 0
    for piece in content:
        digest.update(piece)
        size += len(piece)
        pace(len(piece))
        yield piece
    if digest.hexdigest() != name.sha256:
        raise Damaged(f"{name.path} {where} is damaged: its {size} bytes have the SHA-256 {digest.hexdigest()}")


def verified(name: ObjectName, content: Iterable[bytes], pace: Pace, where: str) -> int:
    """Read all of it for its hash alone; answers the bytes. Raises `Damaged`."""
    return sum(map(len, checked(name, content, pace, where)))


@contextmanager
def opened(source: Path) -> Iterator[BinaryIO]:
    """A regular file to read; a link is none, wherever it leads. Raises `Missing` and `FilesError`."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise Missing(f"{source} is not there") from error
    except OSError as error:
        raise FilesError(f"{source} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        yield file


def own(name: ObjectName, source: Path, file: BinaryIO, pace: Pace) -> Iterator[bytes]:
    """What is to be put: `FilesChanged` at its end where it is not what it is said to be."""
    try:
        yield from checked(name, pieces(file), pace, f"({source})")
    except Damaged as error:
        raise FilesChanged(f"it is not put anywhere: {error}") from error


@contextmanager
def appearing(target: Path) -> Iterator[BinaryIO]:
    """A file to write that appears at `target`, on the disk, when the block ends well; otherwise nothing is left.

    Raises `FilesError` where there is no room, or no right to write.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(target)
        sync_folder(target.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise FilesError(_refusal(target, error)) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Have the names in it on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refusal(target: Path, error: OSError) -> str:
    if error.errno in NO_ROOM:
        return (
            f"{target} cannot be written, its disk is full: make room there, or let `hostler disk plan` say what may go"
        )
    return f"{target} cannot be written: {error.strerror or error}"
