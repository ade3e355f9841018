"""Immutable files named by the SHA-256 of their content, as docs/reference/learning.md lays down."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEGMENT = ".segment.npz"
DATASET = ".dataset.npz"
MODEL = ".safetensors"

CLOSED = "closed"
"""The field of an order that says what other lives of it have left elsewhere."""
LEFT_S = 3600.0
"""After this nobody is still writing a file: it takes seconds."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


class ArtifactError(Exception):
    """An artifact is missing or damaged, or cannot be written; the message names the file and what to do."""


class DamagedError(ArtifactError):
    """An artifact's content does not have the hash that it is named by."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """What a result says of a published file."""

    sha256: str
    bytes: int


class Artifacts:
    """The artifact folder of a node."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def publish(self, suffix: str, content: bytes) -> Artifact:
        """Write `content`, or nothing if it is there already. After an `ArtifactError` nothing new is there."""
        artifact = Artifact(hashlib.sha256(content).hexdigest(), len(content))
        path = self.path(artifact.sha256, suffix)
        try:
            if _holds(path, artifact.sha256):
                os.utime(path)  # in use: not to be cleaned up before the result that tells of it has been read
            else:
                _write(path, content, artifact.sha256)
        except OSError as error:
            raise ArtifactError(
                f"{path} ({len(content)} bytes) cannot be written: {error.strerror}; {_free(self._root)}"
            ) from error
        return artifact

    def read(self, sha256: str, suffix: str) -> bytes:
        """The content, whose hash was checked: `DamagedError` if it is another one."""
        path = self.path(sha256, suffix)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ArtifactError(
                f"{path} cannot be read: {error.strerror}; copy it here from a node that has it"
            ) from error
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise DamagedError(
                f"{path} is damaged: its {len(content)} bytes have the SHA-256 {found}; "
                "delete it and copy it here from a node that has it"
            )
        return content

    def path(self, sha256: str, suffix: str) -> Path:
        """Where the artifact lies, or would."""
        if not _SHA256.fullmatch(sha256):
            raise ArtifactError(f"{sha256!r} is no SHA-256: 64 hexadecimal digits, in lower case")
        return self._root / "objects" / sha256[:2] / f"{sha256}{suffix}"

    @contextmanager
    def alone(self, order: Mapping[str, Any]) -> Iterator[None]:
        """No other life of the same order works in its work folder meanwhile; `ArtifactError` if one does already."""
        folder = self.work(order)
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise ArtifactError(f"{folder} cannot be opened: {error.strerror}; start again") from error
        try:
            _lock(descriptor, folder)
            yield
        finally:
            os.close(descriptor)

    def work(self, order: Mapping[str, Any]) -> Path:
        """The folder, made if need be, in which a stage keeps what its next life with the same order needs.

        What others have closed of an order meanwhile makes no other order of it.
        """
        folder = self._root / "work" / digest({name: order[name] for name in order if name != CLOSED})
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArtifactError(f"{folder} cannot be made: {error.strerror}; {_free(self._root)}") from error
        return folder


def digest(order: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical JSON of an order."""
    text = json.dumps(order, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def replace(path: Path, content: bytes) -> None:
    """Put `content` at `path` so that whoever reads it, at any moment, sees either all of the old or all of the new."""
    _write(path, content, hashlib.sha256(content).hexdigest())


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ArtifactError(
            f"another process is at work on the same order in {folder}: wait for its end or stop it, then start again"
        ) from error
    except OSError as error:
        raise ArtifactError(f"{folder} cannot be locked: {error.strerror}; see to its file system") from error


def _holds(path: Path, sha256: str) -> bool:
    return path.exists() and _hash_of(path) == sha256


def _hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write(path: Path, content: bytes, sha256: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path)
    temporary = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.tmp")
    try:
        _write_through(temporary, content)
        if _hash_of(temporary) != sha256:
            raise OSError(0, "what was read back is not what was written: the disk is failing")
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _fsync_folder(path.parent)


def _sweep(path: Path) -> None:
    """Remove what processes of this machine left in the same folder when they were killed.

    What is left of another file must be old as well: containers may share the name of their machine, but not its
    processes. A life after a kill may never write that file again, for it may have played other games.
    """
    for left in path.parent.glob(f".*.{socket.gethostname()}.*.tmp"):
        writer = left.name.split(".")[-2]
        same = left.name.startswith(f".{path.name}.")
        if writer.isdigit() and not _lives(int(writer)) and (same or _is_old(left)):
            left.unlink(missing_ok=True)


def _is_old(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return time.time() - path.stat().st_mtime > LEFT_S
    return False


def _lives(pid: int) -> bool:
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


def _write_through(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _free(folder: Path) -> str:
    try:
        numbers = os.statvfs(folder)
    except OSError as error:
        return f"how much is free in {folder} is unknown ({error.strerror}): check the folder, then start again"
    return f"{numbers.f_bavail * numbers.f_frsize} bytes are free in {folder}: see to it, then start again"
