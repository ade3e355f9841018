"""The manifest of a snapshot: each file with its path, SHA-256, size and executable bit.

The digest of a snapshot is the SHA-256 of its manifest's bytes, and equal files give equal bytes. Modification times
are not part of it: a fresh checkout of the same files is the same snapshot.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from hostler.model.errors import SpecError

SCHEMA = 1
FILES_MAX = 100_000
MANIFEST_BYTES_MAX = 12 << 20
"""Less than the longest request to a node, which names the same paths."""
PATH_BYTES_MAX = 4096
SIZE_MAX = 1 << 50
SHA256 = re.compile(r"[0-9a-f]{64}")


class SnapshotFile(NamedTuple):
    """One file; `path` is relative, with slashes. `size` is in bytes."""

    path: str
    sha256: str
    size: int
    executable: bool


class Manifest(NamedTuple):
    """The files of a snapshot, sorted by path."""

    files: tuple[SnapshotFile, ...]

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(file.size for file in self.files)


def manifest_of(files: Sequence[SnapshotFile]) -> Manifest:
    """The manifest of these files."""
    return Manifest(tuple(sorted(files)))


def encode(manifest: Manifest) -> bytes:
    """The bytes of a manifest; names that are not UTF-8 keep their bytes as lone surrogates, escaped."""
    rows = [[file.path, file.sha256, file.size, file.executable] for file in manifest.files]
    return json.dumps({"files": rows, "schema": SCHEMA}, separators=(",", ":")).encode("ascii")


def digest_of(data: bytes) -> str:
    """The digest of a snapshot, from the bytes of its manifest."""
    return hashlib.sha256(data).hexdigest()


def parse(data: bytes) -> Manifest:
    """The manifest that these bytes are. Raises `SpecError` where they are not what `encode` writes."""
    if len(data) > MANIFEST_BYTES_MAX:
        raise SpecError(f"the manifest has {len(data)} bytes; at most {MANIFEST_BYTES_MAX} are accepted")
    try:
        document = json.loads(data)
        rows = document["files"]
        found = Manifest(tuple(_file(row) for row in rows))
    except SpecError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SpecError(f"the snapshot's manifest cannot be read: {error!r:.200}") from error
    if len(found.files) > FILES_MAX:
        raise SpecError(f"the snapshot has {len(found.files)} files; at most {FILES_MAX} are accepted")
    _refuse_clashes(found)
    if encode(manifest_of(found.files)) != data:
        raise SpecError("the snapshot's manifest is not in canonical form: sort the files by path, and write no spaces")
    return found


def _file(row: object) -> SnapshotFile:
    if not isinstance(row, list) or len(row) != 4:
        raise SpecError(f"the snapshot's manifest has a file {row!r:.200}; it needs path, SHA-256, size, executable")
    path, sha256, size, executable = row
    if not isinstance(path, str) or not is_path(path):
        raise SpecError(f"the snapshot's manifest has a file {path!r:.200}, which is not a path below its folder")
    if not isinstance(sha256, str) or not SHA256.fullmatch(sha256):
        raise SpecError(f"the snapshot's file {path!r:.200} has the SHA-256 {sha256!r:.80}, which is not one")
    if type(size) is not int or not 0 <= size <= SIZE_MAX or type(executable) is not bool:
        raise SpecError(f"the snapshot's file {path!r:.200} needs a size in bytes and true or false for executable")
    return SnapshotFile(path, sha256, size, executable)


def is_path(path: str) -> bool:
    """Whether this is a relative path without `.`, `..`, empty parts or NUL, which a file system can hold."""
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        return False
    try:
        data = path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return len(data) <= PATH_BYTES_MAX and all(len(part) <= 255 for part in data.split(b"/"))


def _refuse_clashes(manifest: Manifest) -> None:
    """A path is named once, and no file is a folder of another one."""
    # With NUL for the slash, what is below a path follows it at once.
    paths = sorted((file.path for file in manifest.files), key=lambda path: path.replace("/", "\0"))
    for path, following in pairwise(paths):
        if following == path:
            raise SpecError("the snapshot's manifest names a path twice")
        if following.startswith(f"{path}/"):
            raise SpecError(f"the snapshot's path {following!r:.200} runs through a file of the same snapshot")
