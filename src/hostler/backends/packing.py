"""What of a folder of this machine goes to nodes elsewhere: its files and their hashes, each read once as it is."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pathspec import GitIgnoreSpec

from hostler.agent.patterns import matcher
from hostler.model.errors import FilesError
from hostler.model.record import record
from hostler.snapshots.selection import BUILD, select

FILES_MAX = 20_000
BYTES_MAX = 1 << 30
"""A folder that holds more is hardly meant to go along as a whole."""


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
            packed = [self._packed(folder, path) for path in chosen(folder, patterns, self._skip)]
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


LIBRARY = Path(__file__).parents[2], ("hostler/__init__.py", "hostler/workloads")
"""The folder with `hostler` in it, among much else perhaps, and what of it runs on nodes."""


def chosen(folder: Path, patterns: Sequence[str] | None, skip: Path | None) -> list[str]:
    """The files of a folder, without `skip`, that patterns mean; `None`: all but those it is told to ignore.

    Raises `FilesError` where there are none, or far too much.
    """
    if not folder.is_dir():
        raise FilesError(f"{folder} is no folder; `cwd` must name one of this machine, or `{{attempt}}`")
    if patterns is None:
        return list(_bounded(folder, select(folder, skip).paths))
    never = list(BUILD)
    if skip is not None and skip.is_relative_to(folder) and skip != folder:
        never.append(f"/{skip.relative_to(folder)}/")
    return list(_bounded(folder, _named(folder, patterns, never)))


def _named(folder: Path, patterns: Sequence[str], never: list[str]) -> Iterator[str]:
    """Each pattern is looked for only where it can be: the folder may be a large one."""
    ignored, found = GitIgnoreSpec.from_lines(never), set[str]()
    for pattern in patterns:
        plain = _plain(pattern)
        meant = matcher([plain])
        here = {path for path in _below(folder, _beginning(plain), ignored) if meant.fullmatch(path)}
        if not here:
            raise FilesError(f"{folder} holds no file that `files: {pattern}` means")
        found |= here
    yield from sorted(found)


def _plain(pattern: str) -> str:
    """The pattern without `.` in it. Raises `FilesError` where it leads out of the folder."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if pattern.startswith("/") or ".." in parts:
        raise FilesError(f"`files: {pattern}` leads out of the folder; name what is in it, or another `cwd`")
    return "/".join(parts) or "**"


def _beginning(pattern: str) -> str:
    """The part of a pattern before its first wildcard."""
    return "/".join(itertools.takewhile(lambda part: not {"*", "?"} & set(part), pattern.split("/")))


def _below(folder: Path, path: str, ignored: GitIgnoreSpec) -> Iterator[str]:
    if path and (folder / path).is_file():
        return iter([path])
    return _walk(folder, ignored, f"{path}/" if path else "")


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
        elif _is_file(entry) and not ignored.match_file(path):
            yield path


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:  # a link that leads to itself
        return False


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
