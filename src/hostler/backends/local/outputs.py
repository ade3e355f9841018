"""What a script has left on this machine, copied to where results are kept."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from hostler.agent.files import CHANGED_MAX, LAID_AT_NS, LEFT_SHOWN, OUTPUTS_MAX
from hostler.agent.patterns import changed, matcher, walk
from hostler.backends.base import Changed, Store, expect_no_links
from hostler.model.errors import FilesError
from hostler.model.files import FileRef
from hostler.snapshots.reserve import RESERVE

READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""A link that a job left is not followed, and a pipe is not waited for."""


def copied(folder: Path, patterns: Sequence[str], store: Store, attempt: str) -> tuple[FileRef, ...]:
    """Copy the files of a folder that patterns mean to that of an attempt's results, each at once or not at all.

    Raises `FilesError` where there are none, or too many, or one cannot be read, `PartlyFetched` where there are
    symbolic links among them, and `OSError` where they cannot be written.
    """
    wanted = matcher(patterns)
    links: list[str] = []
    try:
        paths = [path for path in walk(str(folder), links=links) if wanted.fullmatch(path)]
    except OSError as error:
        raise FilesError(f"{error.filename or folder} cannot be read: {error.strerror}") from error
    if not paths:
        raise FilesError(f"it left no file that `outputs: {', '.join(patterns)}` means; links are not taken for files")
    if len(paths) > OUTPUTS_MAX:
        raise FilesError(f"it left {len(paths)} files, of which {OUTPUTS_MAX} can be fetched; pack them into one")
    files = _copied(folder, paths, store, attempt)
    links = [path for path in links if wanted.fullmatch(path)]
    expect_no_links(_told(links), len(links), files)
    return files


def copied_changes(folder: Path, snapshot: str, store: Store, attempt: str) -> tuple[FileRef, ...]:
    """Copy the files of a workspace that are new or changed since it was laid out.

    Raises `PartlyFetched` where they are too many or some cannot be read, and `OSError` where they cannot be written.
    """
    laid = {file.path for file in store.snapshots.manifest(snapshot).files}
    left: list[str] = []
    links: list[str] = []
    try:
        paths = changed(str(folder), laid, LAID_AT_NS, left, links)
        found = [(path, os.lstat(folder / path).st_size) for path in paths]
    except OSError as error:
        raise FilesError(f"{error.filename or folder} cannot be read: {error.strerror}") from error
    largest = tuple(sorted(found, key=lambda file: -file[1])[:CHANGED_MAX])
    size = sum(size for _, size in found)
    told = Changed(largest, len(found), size, _told(left), len(left), _told(links), len(links))
    told.expect_few(str(folder))
    files = _copied(folder, [path for path, _ in found], store, attempt) if found else ()
    told.expect_all(files)
    return files


def _told(paths: Sequence[str]) -> tuple[str, ...]:
    """The first of some paths, as text."""
    return tuple(path.encode("utf-8", "backslashreplace").decode() for path in paths[:LEFT_SHOWN])


def _copied(folder: Path, paths: Sequence[str], store: Store, attempt: str) -> tuple[FileRef, ...]:
    target, incoming = store.results / attempt, store.incoming(attempt)
    incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = incoming / "copy"
    try:
        RESERVE.expect(incoming, sum(os.lstat(folder / path).st_size for path in paths))
        return tuple(_copy(folder / path, copy, target / path, f"{attempt}/{path}") for path in paths)
    finally:
        copy.unlink(missing_ok=True)  # on a full disk, what is left of it keeps others from writing
        incoming.rmdir()


def _copy(source: Path, temporary: Path, target: Path, path: str) -> FileRef:
    try:
        descriptor = os.open(source, READ_FLAGS)
    except OSError as error:
        raise FilesError(f"{source} cannot be read: {error.strerror}") from error
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(descriptor, "rb") as original, temporary.open("wb+") as copy:
        shutil.copyfileobj(original, copy, 1 << 20)
        copy.flush()
        os.fsync(copy.fileno())
        copy.seek(0)
        digest = hashlib.file_digest(copy, "sha256").hexdigest()
    temporary.replace(target)
    return FileRef(path=path, size=target.stat().st_size, sha256=digest)
