"""One file with members, of which every byte is accounted for: what backups are kept in.

It is a tar file that ends in a line with the SHA-256 of everything before it, so that one that was cut off, or of
which a single bit is another one, is never taken for a whole one. `manifest.json` is its last member and names the
others with their sizes and hashes. It may hold secrets: nobody but its owner may read it.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import re
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

from hostler.model.errors import Conflict, CorruptState, NotFound, StoreFull

MANIFEST = "manifest.json"
FORMAT = 1
SEAL = b"hostler-backup-1 sha256 "
SEAL_BYTES = len(SEAL) + 64 + 1
"""Of the last line: the hash in hexadecimal, and a line feed."""
PIECE = 1 << 20
TEMPORARY = re.compile(r"\..+\.[0-9]+\.[0-9a-f]{8}\.tmp")
FRESH_S = 5.0


class Hashing:
    """A file that remembers the hash of what was written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write, and add to the hash."""
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        """As of any file."""
        self._file.flush()


class ArchiveWriter:
    """Adds members; `seal` is the end."""

    def __init__(self, file: Hashing, made_at: float) -> None:
        self._file = file
        self._made_at = made_at
        self._members: dict[str, dict[str, Any]] = {}
        self._tar = tarfile.open(fileobj=cast(IO[bytes], file), mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115

    def add(self, name: str, data: bytes) -> None:
        """One more member."""
        self._members[name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        self._put(name, data)

    def seal(self, about: Mapping[str, Any]) -> str:
        """Write the manifest, which also has what `about` says, and the last line; answers the hash in it."""
        manifest = {"format": FORMAT, **about, "members": self._members}
        self._put(MANIFEST, json.dumps(manifest, indent=1).encode() + b"\n")
        self.close()
        digest = self._file.digest.hexdigest()
        self._file.write(SEAL + digest.encode() + b"\n")
        return digest

    def close(self) -> None:
        """No more members; once more does no harm."""
        self._tar.close()

    def _put(self, name: str, data: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode, member.mtime = len(data), 0o600, int(self._made_at)
        self._tar.addfile(member, io.BytesIO(data))


class Archive:
    """A whole archive, to be read: `manifest`, and members by name."""

    def __init__(self, path: Path, tar: tarfile.TarFile) -> None:
        self._path = path
        self._tar = tar
        self.manifest = self._manifest()

    def names(self, prefix: str = "") -> list[str]:
        """Members whose names begin so, in order."""
        return [name for name in self.manifest["members"] if name.startswith(prefix)]

    def read(self, name: str) -> bytes:
        """All of a member. Raises `CorruptState` where it is not what the manifest says."""
        data, told = self._content(name), self.manifest["members"][name]
        if len(data) != told["bytes"] or hashlib.sha256(data).hexdigest() != told["sha256"]:
            raise CorruptState(f"the backup {self._path} is damaged: {name} is not what its manifest says")
        return data

    def _manifest(self) -> dict[str, Any]:
        names = self._tar.getnames()
        if any(not member.isreg() for member in self._tar.getmembers()):
            raise CorruptState(f"the backup {self._path} has members that are no files; it was not made by Hostler")
        if not names or names[-1] != MANIFEST:
            raise CorruptState(f"the backup {self._path} has no manifest at its end; it was not made by Hostler")
        manifest: dict[str, Any] = json.loads(self._content(MANIFEST))
        if not isinstance(manifest, dict) or not isinstance(manifest.get("members", {}), dict):
            raise CorruptState(f"the backup {self._path} is damaged: its manifest is none")
        if manifest.get("format") != FORMAT:
            raise CorruptState(
                f"the backup {self._path} has format {manifest.get('format')!r}, and this version of Hostler knows "
                f"{FORMAT} only; use the version that made it ({manifest.get('hostler')})"
            )
        if list(manifest["members"]) != names[:-1]:
            raise CorruptState(f"the backup {self._path} is damaged: its members are not those of its manifest")
        if not all(
            isinstance(told, dict) and told.keys() >= {"bytes", "sha256"} for told in manifest["members"].values()
        ):
            raise CorruptState(f"the backup {self._path} is damaged: its manifest does not tell of all members")
        return manifest

    def _content(self, name: str) -> bytes:
        file = self._tar.extractfile(name)
        if file is None:
            raise CorruptState(f"the backup {self._path} is damaged: {name} is no file")
        return file.read()


@contextmanager
def writing(target: Path, made_at: float, check: Callable[[Archive], None] | None = None) -> Iterator[ArchiveWriter]:
    """An archive to fill and seal; raises as `publishing`. `check` reads it before it has its name."""

    def read_back(temporary: Path) -> None:
        if check is not None:
            with opened(temporary) as made:
                check(made)

    with publishing(target, 0o600, read_back) as file:
        out = ArchiveWriter(file, made_at)
        try:
            yield out
        finally:
            out.close()


@contextmanager
def publishing(target: Path, mode: int, check: Callable[[Path], None] | None = None) -> Iterator[Hashing]:
    """A file that appears under its name, on the disk and read back, when the block ends well, and else not at all.

    What a process that was killed has left of such files in the folder is removed.

    Raises `Conflict` where there is something of that name, `StoreFull` where it cannot be written, `CorruptState`
    where what is read is not what was written.
    """
    _refuse_taken(target)
    _remove_left(target.parent)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # shows that somebody is at it
            hashing = Hashing(file)
            yield hashing
            file.flush()
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):  # so that the disk is asked, and not what the system remembers
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with temporary.open("rb") as written:
            if hashlib.file_digest(written, "sha256").digest() != hashing.digest.digest():
                raise CorruptState(f"{target}: what was written is not what is read; its disk is failing")
        if check is not None:
            check(temporary)
        _refuse_taken(target)
        temporary.rename(target)
        _sync_folder(target.parent)
    except OSError as error:
        why = f"{target} cannot be written: {error.strerror or error}; nothing is left of it"
        raise StoreFull(why) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def opened(path: Path) -> Iterator[Archive]:
    """An archive that is whole. Raises `NotFound`, and `CorruptState` where it is not."""
    check_seal(path)
    with path.open("rb") as file:
        try:
            made = Archive(path, tarfile.open(fileobj=file, mode="r:"))  # noqa: SIM115 - it holds nothing but the file
        except (tarfile.TarError, KeyError, ValueError, TypeError, RecursionError) as error:
            raise CorruptState(f"the backup {path} cannot be understood: {type(error).__name__}: {error}") from error
        yield made


def check_seal(path: Path) -> str:
    """Read all of it; answers the hash it is sealed with. Raises `NotFound`, and `CorruptState` where it is another."""
    try:
        with path.open("rb") as file:
            told, found = _seal_of(path, file), _digest(file)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError) as error:
        raise NotFound(f"there is no backup {path} that could be read: {error.strerror}") from error
    except OSError as error:
        raise CorruptState(f"the backup {path} cannot be read: {error.strerror}; its disk may be failing") from error
    if told != SEAL + found.encode() + b"\n":
        raise CorruptState(f"the backup {path} is damaged: its bytes are not those that were written; use another one")
    return found


def _seal_of(path: Path, file: IO[bytes]) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - SEAL_BYTES, 0))
    told = file.read()
    if len(told) != SEAL_BYTES or not told.startswith(SEAL):
        raise CorruptState(f"the backup {path} has no end: it was cut off, or is something else; use another one")
    return told


def _digest(file: IO[bytes]) -> str:
    left = file.seek(0, os.SEEK_END) - SEAL_BYTES
    file.seek(0)
    digest = hashlib.sha256()
    while left > 0 and (piece := file.read(min(PIECE, left))):
        digest.update(piece)
        left -= len(piece)
    return digest.hexdigest()


def _remove_left(folder: Path) -> None:
    """Remove temporary files that nobody writes any more: their processes were killed."""
    for path in folder.glob(".*.tmp"):
        if not TEMPORARY.fullmatch(path.name):
            continue
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - os.fstat(file.fileno()).st_mtime > FRESH_S:  # it may be about to be locked
                path.unlink()


def _refuse_taken(target: Path) -> None:
    if target.exists() or target.is_symlink():  # a link that leads nowhere would be replaced
        raise Conflict(f"{target} is there already and is left as it is; name another file, or a folder")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
