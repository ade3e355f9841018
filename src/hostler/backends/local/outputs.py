"""What a script has left on this machine, copied to where results are kept."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from hostler.agent.files import LAID_AT_NS
from hostler.agent.patterns import changed, matcher, walk
from hostler.backends.base import Store, expect_few
from hostler.model.errors import FilesError
from hostler.model.files import Fetch, FileRef


def copied(folder: Path, what: Fetch, store: Store, attempt: str) -> tuple[FileRef, ...]:
    """Copy what an attempt left in a folder to that of its results, each file at once or not at all.

    Raises `FilesError` where a named output is not there or files cannot be read, `TooMuchLeft` for more new and
    changed files than are fetched, and `OSError` where they cannot be written.
    """
    paths = _found(store, folder, what)
    if not paths and what.changed_since is not None:
        return ()
    if not paths:
        raise FilesError(f"it left no file that `outputs: {', '.join(what.outputs)}` means")
    target, incoming = store.results / attempt, store.incoming(attempt)
    incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = incoming / "copy"
    try:
        return tuple(_copy(folder / path, copy, target / path, f"{attempt}/{path}") for path in paths)
    finally:
        copy.unlink(missing_ok=True)  # on a full disk, what is left of it keeps others from writing
        incoming.rmdir()


def _found(store: Store, folder: Path, what: Fetch) -> list[str]:
    """The paths of what is to be copied."""
    try:
        if what.changed_since is None:
            wanted = matcher(what.outputs)
            return [path for path in walk(str(folder)) if wanted.fullmatch(path)]
        laid = {file.path for file in store.snapshots.manifest(what.changed_since).files}
        paths = list(changed(str(folder), laid, LAID_AT_NS))
        expect_few([(path, os.lstat(folder / path).st_size) for path in paths])
    except OSError as error:
        raise FilesError(f"{error.filename or folder} cannot be read: {error.strerror}") from error
    return paths


def _copy(source: Path, temporary: Path, target: Path, path: str) -> FileRef:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    shutil.copyfile(source, temporary)
    with temporary.open("rb") as copy:
        digest = hashlib.file_digest(copy, "sha256").hexdigest()
        os.fsync(copy.fileno())
    temporary.replace(target)
    return FileRef(path=path, size=target.stat().st_size, sha256=digest)
