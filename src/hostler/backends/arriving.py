"""Files on their way to the disk of this machine: what is wanted, what has come, and when it has its name.

A file is whole, hashed and written through before it is called what it is called; what has come of others is gone on
from.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from hostler.backends.volumes import Volume
from hostler.model.errors import FilesChanged, FilesError
from hostler.model.record import record
from hostler.snapshots.reserve import RESERVE

Piece: TypeAlias = bytes | memoryview
Each: TypeAlias = Callable[[Callable[[str], None], Iterable[str]], Iterable[None]]
PIECE = 4 << 20
SYNCS = 8
"""Files that are written through side by side."""
SYNC_EVERY = 64 << 20
"""Bytes of a large file, or of small ones, after which the disk begins with them: at the end there is little left."""
SMALL = 1 << 20
"""Bytes of a file that alone keeps no disk busy."""
MANY = 32
"""Small files, or folders, that are written through by one call."""


@record
class Wanted:
    """A file of the node, at `path` below its agent's folder, that is to be here as `target`."""

    path: str
    size: int
    target: str
    partial: str
    """Where what has come of it is kept until all has: nobody else's, and of the same file system."""
    sha256: str | None = None
    """`None`: nobody knows yet."""
    growth: int = 0
    """Bytes by which it may have grown since its size was told; what has a name does not grow."""

    @property
    def most(self) -> int:
        """Bytes that are taken: there is room for no more."""
        return self.size + self.growth


class Disk:
    """Files on their way to the disk while others come: many at a time cost little more than one.

    `folders`: where they are written; these are there.
    """

    def __init__(self, folders: Iterable[str] = ()) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._syncing: list[Future[None]] = []
        self._volume = Volume(folders)
        self._small: list[str] = []
        self._small_bytes = 0

    def begin(self, path: str) -> None:
        """Begin to write through what there is of a file."""
        self._syncing.append(self._pool.submit(_sync, path))

    def sync(self, path: str, *, size: int | None = None) -> None:
        """Write a file through before it is named: large ones from now on, small ones together."""
        size = os.stat(path).st_size if size is None else size
        if size > SMALL or not self._volume.is_of_use:
            self.begin(path)
            return
        self._small.append(path)
        self._small_bytes += size
        if self._small_bytes >= SYNC_EVERY:
            self._syncing.append(self._pool.submit(self._sync_all, self._small, map))
            self._small, self._small_bytes = [], 0

    def publish(self, files: Sequence[Wanted]) -> None:
        """Wait until everything is on the disk, and give the files their names. Raises `OSError`."""
        self._sync_all(self._small)
        for each in self._syncing:
            each.result()
        for wanted in files:
            os.replace(wanted.partial, wanted.target)
        self._sync_all(folders(each.target for each in files))

    def close(self) -> None:
        """Wait for nothing any more."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._volume.close()

    @property
    def _pool(self) -> ThreadPoolExecutor:
        """What is on the disk by one call needs none."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(SYNCS)
        return self._threads

    def _sync_all(self, paths: Collection[str], each: Each | None = None) -> None:
        if len(paths) < MANY or not self._volume.sync():
            list((each or self._pool.map)(_sync, paths))


class Sink:
    """A file that is written and hashed, and now and then begun to be written through. `moved`: another piece came."""

    def __init__(
        self, output: BinaryIO, digest: hashlib._Hash, sync: Callable[[], None], moved: Callable[[], None]
    ) -> None:
        self._output = output
        self._digest = digest
        self._sync = sync
        self._moved = moved
        self._unsynced = 0

    def write(self, piece: Piece) -> None:
        """The next bytes. Raises `OSError`."""
        self._output.write(piece)
        self._digest.update(piece)
        self._moved()
        self._unsynced += len(piece)
        if self._unsynced >= SYNC_EVERY:
            self._sync()
            self._unsynced = 0
            RESERVE.expect(os.path.dirname(self._output.name), 0)

    def write_all(self, pieces: Sequence[bytes]) -> None:
        """All of these. Each call gives the interpreter away, and waits to have it back: there is one for all."""
        self.write(b"".join(pieces))


def opened(path: str, mode: str) -> BinaryIO:
    """To open it takes no longer than to switch to a thread and back."""
    return cast(BinaryIO, open(path, mode))


def come(files: Iterable[Wanted]) -> dict[str, int]:
    """How much of files has come before, by where it is kept; of others there is nothing."""
    found = dict[str, int]()
    for folder in folders(each.partial for each in files):
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            found.update((entry.path, entry.stat().st_size) for entry in entries)
    return found


def looked(files: Sequence[Wanted]) -> tuple[list[str | None], list[Wanted], dict[str, int]]:
    """The hashes of those that are here already, the others, and how much of these has come before."""
    here = [each.sha256 if _is_here(each) else None for each in files]
    todo = [each for each, digest in zip(files, here, strict=True) if digest is None]
    return here, todo, _expected(todo)


def _expected(files: Sequence[Wanted]) -> dict[str, int]:
    """How much of files has come before; the folders for all of them are there."""
    for folder in folders(path for each in files for path in (each.target, each.partial)):
        if not os.path.isdir(folder):
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    return come(files)


def folders(paths: Iterable[str]) -> set[str]:
    """What `os.path.dirname` says of each; there may be many."""
    return {path.rpartition("/")[0] or "/" for path in paths}


def _is_here(wanted: Wanted) -> bool:
    if wanted.sha256 is None or size_of(wanted.target) != wanted.size:
        return False
    with open(wanted.target, "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest() == wanted.sha256


def resumed(output: BinaryIO, partial: str, offset: int, moved: Callable[[], None]) -> hashlib._Hash:
    """The hash of what has come before, of which everything behind the offset is dropped."""
    output.truncate(offset)
    digest = hashlib.sha256()
    with open(partial, "rb") as source:
        while data := source.read(PIECE):
            digest.update(data)
            moved()  # though nothing does on the line
    return digest


def verified(wanted: Wanted, found: str, told: str, where: str) -> str:
    """The hash that a file was found to have, if it was told to be that, and is wanted. Raises `FilesError`."""
    if found == told and wanted.sha256 in (None, found):
        return found
    os.unlink(wanted.partial)
    fault = FilesError if found == told else FilesChanged
    raise fault(f"{wanted.path} of {where} is not what it should be: its hash is another one")


@contextmanager
def written(path: str) -> Iterator[None]:
    """An error of the system that names no file is about this one."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, path) from error


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with written(path):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def size_of(path: str) -> int | None:
    """Bytes of a file; `None`: there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None
