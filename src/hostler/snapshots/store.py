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
from hostler.model.errors import Conflict, FilesChanged, FilesError, NotFound
from hostler.snapshots.manifest import SHA256, Manifest, digest_of, parse
from hostler.snapshots.upload import Piece

SPARE_BYTES = 1 << 30
"""Left free on the disk for the journal and all else."""
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
            if path.exists():
                return
            try:
                self._append(partial, piece)
                if piece.offset + len(piece.data) == piece.size:
                    self._complete(partial, path, piece.sha256)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    partial.unlink(missing_ok=True)
                raise FilesError(f"{partial} cannot be written: {error.strerror}. Make room on its disk") from error

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
            data = path.read_bytes()
            os.utime(path)  # in use
        except FileNotFoundError as error:
            raise NotFound(
                f"the snapshot {digest} is not kept any more; submit the job again from its folder"
            ) from error
        if digest_of(data) != digest:
            raise FilesError(f"the manifest {path} is damaged: its SHA-256 differs from its name. Restore the file")
        return parse(data)

    def content(self, sha256: str) -> Path:
        """The path at which a content is kept."""
        return self._root / "contents" / sha256[:2] / sha256

    def lay_out(self, digest: str, target: Path) -> None:
        """Make `target` a folder with copies of a snapshot's files. What was there is replaced.

        Raises `NotFound`, `FilesError`, and `OSError` where it cannot be written.
        """
        manifest = self.manifest(digest)
        draft = target.with_name(f"{target.name}.new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700, parents=True)
        try:
            for file in manifest.files:
                path = draft / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                self._copy(file.sha256, file.size, path)
                path.chmod(0o755 if file.executable else 0o644)
                os.utime(path, ns=(LAID_AT_NS, LAID_AT_NS))
            shutil.rmtree(target, ignore_errors=True)
            draft.rename(target)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise

    def prune(self, needed: Collection[str], unused_s: float) -> int:
        """Delete snapshots that no job needs and that were unused for so long, and contents of none; bytes freed."""
        now, freed = time.time(), 0
        with self._lock:
            wanted: set[str] = set()
            for path in self._named("manifests"):
                if path.name in needed or now - path.stat().st_mtime < unused_s:
                    with suppress(FilesError, NotFound):
                        wanted |= {file.sha256 for file in self.manifest(path.name).files}
                else:
                    path.unlink()
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
                    raise Conflict(f"{file.path!r:.200} has another size than its SHA-256 had before; read it again")
                os.utime(path)  # in use: not to be deleted before the manifest is here
            except FileNotFoundError:
                missing[file.sha256] = _size(self._partial(file.sha256))
        return missing

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

    def _complete(self, partial: Path, path: Path, sha256: str) -> None:
        with partial.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            partial.unlink()
            raise FilesChanged(
                f"a file came with the SHA-256 {found} instead of {sha256}: it changed while it was sent"
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
        free = shutil.disk_usage(self._root).free - SPARE_BYTES
        if size > free:
            raise FilesError(
                f"{self._root} has no room for {size} bytes: {max(free, 0)} are free beside the "
                f"{SPARE_BYTES >> 30} GiB that are kept free. Make room there, or send less"
            )

    def _copy(self, sha256: str, size: int, path: Path) -> None:
        source = self.content(sha256)
        try:
            shutil.copyfile(source, path)
        except FileNotFoundError as error:
            if not source.exists():
                raise FilesError(f"{source} of the snapshot is gone. Submit the job again from its folder") from error
            raise
        if path.stat().st_size != size:
            raise FilesError(
                f"{source} of the snapshot is damaged: it has not {size} bytes. Delete it and submit again"
            )

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
