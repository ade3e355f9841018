"""A snapshot of a folder on the client's machine: files chosen and hashed, ready to be sent."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from hostler.agent.patterns import matcher, walk
from hostler.model.errors import FilesError
from hostler.snapshots.manifest import (
    FILES_MAX,
    MANIFEST_BYTES_MAX,
    Manifest,
    SnapshotFile,
    digest_of,
    encode,
    manifest_of,
)
from hostler.snapshots.selection import BUILD, LeftOut, Selection, select
from hostler.snapshots.upload import Source


class FolderSnapshot(NamedTuple):
    """The files of a folder as they were when they were read."""

    folder: Path
    manifest: Manifest
    data: bytes
    """The bytes of the manifest."""
    left_out: tuple[LeftOut, ...]

    @property
    def digest(self) -> str:
        """The digest of the snapshot."""
        return digest_of(self.data)

    def sources(self, missing: Mapping[str, int]) -> list[Source]:
        """The files with contents that the controller lacks, by SHA-256 with the bytes that it has of them."""
        paths = {file.sha256: file for file in self.manifest.files}
        return [
            Source(self.folder / paths[name].path, name, paths[name].size, missing[name])
            for name in sorted(missing)
            if name in paths
        ]


def take(folder: Path, patterns: Sequence[str] | None = None, skip: Path | None = None) -> FolderSnapshot:
    """A snapshot of a folder: all files but ignored ones, or those that patterns mean.

    `skip` is left out without a word: the controller's own folder. Raises `FilesError` where a file cannot be read, a
    pattern means none, or there are too many.
    """
    return hashed(measured(folder, patterns, skip))


def measured(folder: Path, patterns: Sequence[str] | None = None, skip: Path | None = None) -> FolderSnapshot:
    """What `take` would take, by its sizes: no file has been read, so the snapshot has no digests. Raises as `take`."""
    chosen = select(folder, skip) if patterns is None else _named(folder, patterns)
    if len(chosen.paths) > FILES_MAX:
        raise FilesError(
            f"{folder} has {len(chosen.paths)} files; a snapshot takes {FILES_MAX}. "
            f"Leave some out by {folder}/.hostlerignore"
        )
    with _readable(folder):
        files = [_sized(folder, path) for path in chosen.paths]
    return FolderSnapshot(folder, manifest_of([file for file in files if file is not None]), b"", chosen.left_out)


def hashed(sized: FolderSnapshot) -> FolderSnapshot:
    """The snapshot of the files that `measured` has found, which are read for it. Raises as `take`."""
    folder = sized.folder
    with _readable(folder):
        files = [_file(folder, file.path) for file in sized.manifest.files]
    manifest = manifest_of([file for file in files if file is not None])
    data = encode(manifest)
    if len(data) > MANIFEST_BYTES_MAX:
        raise FilesError(f"the paths of {folder} take {len(data)} bytes; {MANIFEST_BYTES_MAX} are sent. Leave some out")
    return FolderSnapshot(folder, manifest, data, sized.left_out)


@contextmanager
def _readable(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FilesError(
            f"{error.filename or folder} cannot be read: {error.strerror}. Leave it out by {folder}/.hostlerignore"
        ) from error


def _named(folder: Path, patterns: Sequence[str]) -> Selection:
    """The files that patterns mean; what an ignore file says does not count for them."""
    found = set[str]()
    try:
        paths = list(walk(str(folder), [name.rstrip("/") for name in BUILD if name.endswith("/")], linked=True))
    except OSError as error:
        raise FilesError(f"{error.filename or folder} cannot be read: {error.strerror}") from error
    for pattern in patterns:
        parts = [part for part in pattern.split("/") if part not in ("", ".")]
        if pattern.startswith("/") or ".." in parts:
            raise FilesError(f"--file {pattern} leads out of {folder}; name what is below it, or another --cwd")
        meant = matcher(["/".join(parts) or "**"])
        here = {path for path in paths if meant.fullmatch(path)}
        if not here:
            raise FilesError(f"{folder} has no file that --file {pattern} means")
        found |= here
    return Selection(tuple(sorted(found)), ())


def _sized(folder: Path, path: str) -> SnapshotFile | None:
    """A file with its size, and without a digest; `None` where it was deleted meanwhile."""
    try:
        found = (folder / path).stat()
    except FileNotFoundError:
        return None
    return SnapshotFile(path, "", found.st_size, bool(found.st_mode & 0o100))


def _file(folder: Path, path: str) -> SnapshotFile | None:
    """A file as it is now; `None` where it was deleted meanwhile, as what editors keep for a moment."""
    try:
        with (folder / path).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            found = os.fstat(file.fileno())
    except FileNotFoundError:
        return None
    return SnapshotFile(path, digest, found.st_size, bool(found.st_mode & 0o100))
