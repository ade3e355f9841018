"""What a script has left on this machine, copied to where results are kept."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from hostler.agent.patterns import matcher, walk
from hostler.model.errors import FilesError
from hostler.model.files import FileRef


def copied(folder: Path, patterns: Sequence[str], target: Path, incoming: Path) -> tuple[FileRef, ...]:
    """Copy the files of a folder that patterns mean, each at once or not at all, to a folder that the attempt names.

    Raises `FilesError` where there are none, or they cannot be read, and `OSError` where they cannot be written.
    """
    wanted = matcher(patterns)
    try:
        found = [path for path in walk(str(folder)) if wanted.fullmatch(path)]
    except OSError as error:
        raise FilesError(f"{error.filename or folder} cannot be read: {error.strerror}") from error
    if not found:
        raise FilesError(f"it left no file that `outputs: {', '.join(patterns)}` means")
    incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = incoming / "copy"
    try:
        return tuple(_copy(folder / path, copy, target / path, f"{target.name}/{path}") for path in found)
    finally:
        copy.unlink(missing_ok=True)  # on a full disk, what is left of it keeps others from writing
        incoming.rmdir()


def _copy(source: Path, temporary: Path, target: Path, path: str) -> FileRef:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(source, temporary)
    with temporary.open("rb") as copy:
        digest = hashlib.file_digest(copy, "sha256").hexdigest()
        os.fsync(copy.fileno())
    temporary.replace(target)
    return FileRef(path=path, size=target.stat().st_size, sha256=digest)
