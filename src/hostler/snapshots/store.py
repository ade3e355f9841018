"""The controller's folder of snapshots: manifests and file contents by SHA-256, and copies for attempts.

Contents that several snapshots share are kept once. A manifest is kept only when all its contents are here, so that
a job that names a snapshot can start from it. Every method blocks and may be called from any thread.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

from hostler.agent.files import LAID_AT_NS
from hostler.model.errors import Conflict, FilesChanged, FilesError, NotFound, SpecError
from hostler.snapshots.manifest import SHA256, Manifest, SnapshotFile, digest_of, parse
from hostler.snapshots.reserve import RESERVE
from hostler.snapshots.upload import Piece

SMALL_BYTES = 16 << 20
"""A copy for an attempt that has less is made whatever is free: a nearly full disk does not stop all jobs. It is made
of contents that are here already, and goes with the attempt."""
PARTIAL_UNUSED_S = 86_400.0


class SnapshotStore:
    """Snapshots below `root`, which is made when the first one comes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        """One writer at a time; a piece is small."""

    def add(self, data: bytes) -> tuple[str, Mapping[str, int]]:
        """Keep a manifest if all contents are here: its digest, and the bytes that are here of each missing content.

        Raises `SpecError` for a manifest that is not valid, and `FilesError` where there is no room for what is
        missing.
        """
        manifest, digest = parse(data), digest_of(data)
        with self._lock:
            missing = self._missing(manifest)
            if missing:
                sizes = {file.sha256: file.size for file in manifest.files}
                self._expect_room(sum(sizes[name] - here for name, here in missing.items()))
            elif not self.has(digest):
                self._publish(data, self._manifest_path(digest))
        return digest, missing

    def write(self, piece: Piece) -> None:
        """Append a piece to a content, and keep the content when it is complete.

        Raises `Conflict` where the piece does not follow what is here, `FilesChanged` where the complete content has
        another SHA-256, and `FilesError` where it cannot be written.
        """
        path, partial = self.content(piece.sha256), self._partial(piece.sha256)
        with self._lock:
            if path.exists() or (piece.data and _size(partial) >= piece.offset + len(piece.data)):
                return
            self._expect_room(len(piece.data))
            try:
                self._append(partial, piece)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    partial.unlink(missing_ok=True)
                raise FilesError(f"{partial} cannot be written: {error.strerror}. Make room on its disk") from error
        if piece.offset + len(piece.data) == piece.size:
            self._complete(partial, path, piece)

    def has(self, digest: str) -> bool:
        """Whether a snapshot is here with all its contents; one that is asked for is in use."""
        path = self._manifest_path(digest)
        with suppress(OSError):
            os.utime(path)
            return True
        return False

    def manifest(self, digest: str) -> Manifest:
        """The manifest of a snapshot. Raises `NotFound`, and `FilesError` for one that is damaged."""
        path = self._manifest_path(digest)
        try:
            manifest = _read(path)
            os.utime(path)  # in use
        except FileNotFoundError as error:
            raise NotFound(
                f"the snapshot {digest} is not kept any more; submit the job again from its folder"
            ) from error
        return manifest

    def content(self, sha256: str) -> Path:
        """The path at which a content is kept."""
        return self._root / "contents" / sha256[:2] / sha256

    def lay_out(self, digest: str, target: Path) -> None:
        """Make `target` a folder with copies of a snapshot's files. What was there is replaced.

        Raises `NotFound`, `FilesError`, and `OSError` where it cannot be written.
        """
        manifest = self.manifest(digest)
        draft = target.with_name(f"{target.name}.new")
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if manifest.size > SMALL_BYTES:
            RESERVE.expect(target.parent, manifest.size)
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700, parents=True)
        try:
            for file in manifest.files:
                path = draft / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                self._copy(file, path)
                path.chmod(0o755 if file.executable else 0o644)
                os.utime(path, ns=(LAID_AT_NS, LAID_AT_NS))
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def prune(self, needed: Collection[str], unused_s: float) -> int:
        """Delete snapshots that no job needs and that were unused for so long, and contents of none; bytes freed.

        Raises `FilesError`, and deletes no contents, where a manifest cannot be read: what it needs is not known.
        """
        now, freed = time.time(), 0
        with self._lock:
            wanted: set[str] = set()
            for path in self._named("manifests"):
                if path.name not in needed and now - path.stat().st_mtime > unused_s:
                    path.unlink()
                    continue
                try:
                    wanted |= {file.sha256 for file in _read(path).files}
                except (OSError, SpecError) as error:
                    raise FilesError(f"the manifest {path} cannot be read: {error}. Restore or delete it") from error
            for path in [*self._named("contents/*"), *self._named("partial")]:
                found = path.stat()
                if path.name not in wanted and now - found.st_mtime > PARTIAL_UNUSED_S:
                    path.unlink()
                    freed += found.st_size
        return freed

    def _missing(self, manifest: Manifest) -> dict[str, int]:
        missing = {}
        for file in manifest.files:
            try:
                path = self.content(file.sha256)
                if path.stat().st_size != file.size:
                    self._set_aside_damaged(path, file)  # and missing below
                os.utime(path)  # in use: not to be deleted before the manifest is here
            except FileNotFoundError:
                missing[file.sha256] = _size(self._partial(file.sha256))
        return missing

    def _set_aside_damaged(self, path: Path, file: SnapshotFile) -> None:
        """Set a damaged content aside. Raises `FilesChanged` where it is whole, and the manifest's size is wrong."""
        if _hash(path) == file.sha256:
            raise FilesChanged(f"{file.path!r:.200} with the SHA-256 {file.sha256} has another size: it changed")
        _set_aside(path)

    def _append(self, partial: Path, piece: Piece) -> None:
        here = _size(partial)
        if here < piece.offset:
            raise Conflict(f"{piece.sha256} has {here} bytes here; the piece begins at {piece.offset}")
        partial.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with partial.open("r+b" if here else "wb") as output:
            output.truncate(piece.offset)
            output.seek(piece.offset)
            output.write(piece.data)
            if piece.offset + len(piece.data) == piece.size:
                output.flush()
                os.fsync(output.fileno())

    def _complete(self, partial: Path, path: Path, piece: Piece) -> None:
        """Keep a content with the right hash. That of a large one takes a while: others may write meanwhile."""
        try:
            found = _hash(partial)
        except FileNotFoundError:  # another client has completed the same content
            return
        with self._lock:
            if path.exists() or _size(partial) != piece.size:
                return
            if found != piece.sha256:
                partial.unlink()
                raise FilesChanged(
                    f"a file came with the SHA-256 {found} instead of {piece.sha256}: it changed while it was sent"
                )
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.replace(path)

    def _publish(self, data: bytes, path: Path) -> None:
        draft = path.with_name(f".{path.name}.new")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with draft.open("wb") as output:
                output.write(data)
                output.flush()
                os.fsync(output.fileno())
            draft.replace(path)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise FilesError(f"{path} cannot be written: {error.strerror}. Make room on its disk") from error

    def _expect_room(self, size: int) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            RESERVE.expect(self._root, size)
        except OSError as error:
            raise FilesError(f"{self._root} has {error.strerror}. Make room on its disk, or send less") from error

    def _copy(self, file: SnapshotFile, path: Path) -> None:
        """Copy a content. One whose hash is not right is set aside, so that the next submission sends it again."""
        source = self.content(file.sha256)
        digest = hashlib.sha256()
        try:
            original = source.open("rb")
        except FileNotFoundError as error:
            raise FilesError(f"{source} of the snapshot is gone. Submit the job again from its folder") from error
        with original, path.open("wb") as copy:
            while data := original.read(1 << 20):
                digest.update(data)
                copy.write(data)
        if digest.hexdigest() != file.sha256:
            _set_aside(source)
            raise FilesError(f"{source} of the snapshot is damaged and was set aside. Submit the job again")

    def _named(self, folder: str) -> list[Path]:
        return [path for path in self._root.glob(f"{folder}/*") if SHA256.fullmatch(path.name)]

    def _manifest_path(self, digest: str) -> Path:
        if not SHA256.fullmatch(digest):
            raise NotFound(f"{digest!r:.80} is not the digest of a snapshot")
        return self._root / "manifests" / digest

    def _partial(self, sha256: str) -> Path:
        return self._root / "partial" / sha256


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _set_aside(content: Path) -> None:
    content.replace(content.with_name(f"{content.name}.damaged"))


def _read(path: Path) -> Manifest:
    """A manifest from its file. Raises `FilesError` for one that is damaged."""
    data = path.read_bytes()
    if digest_of(data) != path.name:
        raise FilesError(f"the manifest {path} is damaged: its SHA-256 differs from its name. Restore the file")
    return parse(data)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
