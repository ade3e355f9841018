"""What of a folder of this machine goes to nodes elsewhere: its files and their hashes, each read once as it is."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pathspec import GitIgnoreSpec

from hostler.agent.patterns import matcher
from hostler.model.errors import FilesError
from hostler.model.record import record

FILES_MAX = 20_000
BYTES_MAX = 1 << 30
"""A folder that holds more is hardly meant to go along as a whole."""
IGNORES = (".hostlerignore", ".gitignore")
"""Files that say, as git's do, what stays here; the first that is there counts."""
NEVER = (".git/", ".hg/", ".svn/", ".venv/", "venv/", "__pycache__/", "*.pyc", "node_modules/", ".mypy_cache/")


@record
class Packed:
    """A file as it was when it was read."""

    path: str
    """Relative to the folder."""
    source: Path
    size: int
    sha256: str
    executable: bool


class Packer:
    """Packs folders; what was read once is read again only if it has changed since."""

    def __init__(self, skip: Path | None = None) -> None:
        self._skip = skip
        """A folder that never goes along: the controller's own."""
        self._known: dict[str, tuple[tuple[int, int, int], str]] = {}

    def pack(self, folder: Path, patterns: Sequence[str] | None) -> list[Packed]:
        """The files of a folder that patterns mean, or all but those it is told to ignore.

        Raises `FilesError` where it cannot be read, holds nothing of that kind, or far too much.
        """
        try:
            packed = [self._packed(folder, path) for path in _chosen(folder, patterns, self._skip)]
        except OSError as error:
            raise FilesError(f"{error.filename or folder} cannot be read: {error.strerror}") from error
        return [each for each in packed if each is not None]

    def _packed(self, folder: Path, path: str) -> Packed | None:
        """`None` where it is gone meanwhile, as what editors and compilers keep for a moment."""
        source = folder / path
        try:
            found = source.stat()
            mark = (found.st_mtime_ns, found.st_size, found.st_ino)
            known = self._known.get(str(source))
            digest = known[1] if known is not None and known[0] == mark else _digest_of(source)
        except FileNotFoundError:
            return None
        self._known[str(source)] = mark, digest
        return Packed(
            path=path,
            source=source,
            size=found.st_size,
            sha256=digest,
            executable=bool(found.st_mode & 0o100),
        )


def library() -> tuple[Path, list[str]]:
    """The folder with `hostler` in it, and patterns of what runs on nodes."""
    return Path(__file__).parents[2], ["hostler/__init__.py", "hostler/workloads"]


def _chosen(folder: Path, patterns: Sequence[str] | None, skip: Path | None) -> list[str]:
    if not folder.is_dir():
        raise FilesError(f"{folder} is no folder; `cwd` must name one of this machine, or `{{attempt}}`")
    never = list(NEVER)
    if skip is not None and skip.is_relative_to(folder) and skip != folder:
        never.append(f"/{skip.relative_to(folder)}/")
    paths = _unignored(folder, never) if patterns is None else _named(folder, patterns, never)
    return list(_bounded(folder, paths))


def _named(folder: Path, patterns: Sequence[str], never: list[str]) -> Iterator[str]:
    wanted = matcher(patterns)
    found = [path for path in _walk(folder, GitIgnoreSpec.from_lines(never)) if wanted.fullmatch(path)]
    for pattern in patterns:
        if not any(matcher([pattern]).fullmatch(path) for path in found):
            raise FilesError(f"{folder} holds no file that `files: {pattern}` means")
    yield from found


def _unignored(folder: Path, never: list[str]) -> Iterator[str]:
    said = next((folder / name for name in IGNORES if (folder / name).is_file()), None)
    lines = [] if said is None else said.read_text(errors="replace").splitlines()
    return _walk(folder, GitIgnoreSpec.from_lines([*never, *lines]))


def _walk(folder: Path, ignored: GitIgnoreSpec, below: str = "") -> Iterator[str]:
    """Regular files, those that links lead to included; a link to a folder is followed nowhere."""
    try:
        with os.scandir(folder / below) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:  # gone meanwhile
        return
    for entry in entries:
        path = below + entry.name
        if entry.is_dir(follow_symlinks=False):
            if not ignored.match_file(path + "/"):
                yield from _walk(folder, ignored, path + "/")
        elif entry.is_file() and not ignored.match_file(path):
            yield path


def _bounded(folder: Path, paths: Iterable[str]) -> Iterator[str]:
    fix = 'say what it needs in `files:`, keep the rest away by a .hostlerignore, or write `cwd: "{attempt}"`'
    count = total = 0
    for path in paths:
        count, total = count + 1, total + _size(folder / path)
        if count > FILES_MAX or total > BYTES_MAX:
            raise FilesError(
                f"{folder} is too much to be sent along: more than {FILES_MAX} files or {BYTES_MAX >> 30} GiB; {fix}"
            )
        yield path


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _digest_of(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
