"""The files of a folder that a snapshot takes, and what it leaves out with the reason.

`.hostlerignore` decides or, where there is none, every `.gitignore` of the folder, as git reads them: the last pattern
that matches counts, and a file deeper in the tree goes before one above it. Build folders, environments and files that
usually hold secrets are left out unless one of these files takes them back (`!.env`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pathspec import GitIgnoreSpec, Pattern, RegexPattern

from hostler.agent.patterns import BUILD_FOLDERS
from hostler.model.errors import FilesError

HOSTLERIGNORE = ".hostlerignore"
GITIGNORE = ".gitignore"
BUILD = (*(f"{name}/" for name in BUILD_FOLDERS), "*.pyc", "*.egg-info/", ".DS_Store")
BUILD_REASON = "usual build folders"
DANGLING_REASON = "links that lead to no file"
EMPTY_REASON = "empty folders"
SPECIAL_REASON = "pipes, sockets and devices"
LINK_REASON = "links to folders, which are not followed"
UNSIZED = (LINK_REASON, DANGLING_REASON, SPECIAL_REASON, EMPTY_REASON)
"""Reasons of what has no size, and is named before what has one."""
SECRETS = (
    *(".ssh/", ".gnupg/", ".aws/", ".kube/", ".docker/", ".netrc", ".env", ".git-credentials", ".pypirc"),
    *("id_rsa", "id_ecdsa", "id_ed25519"),
)
FOLDER = "ps_d"
"""The group of a pattern's regular expression, as pathspec makes it, that ends a folder's name."""
MEASURED_MAX = 50_000
"""Entries of left-out folders whose sizes are added up; beyond that a size is a lower bound."""


STATE_REASON = "state directories of controllers"
STATE_FILES = ("token", "session.key", "journal.sqlite")
"""Files by which the state directory of a controller is known: all of them are in it."""


class LeftOut(NamedTuple):
    """A file or folder that the snapshot does not take."""

    path: str
    """Relative; a folder ends with a slash."""
    reason: str
    """What leaves it out: `.gitignore`, `data/.gitignore`, `usual build folders`, `files that may hold secrets`."""
    size: int
    """In bytes, at least."""


class Selection(NamedTuple):
    """What a snapshot of a folder takes, and what it leaves out."""

    paths: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


def select(folder: Path, skip: Path | None = None) -> Selection:
    """The files of a folder but for what is ignored. `skip`, a folder below it, is left out without a word.

    Regular files, and those that links lead to; a link to a folder is not followed. Raises `FilesError` where the
    folder or an ignore file cannot be read.
    """
    if not folder.is_dir():
        raise FilesError(f"{folder} is not a folder")
    if folder.resolve() in (Path.home().resolve(), Path("/")):
        what = "the root folder" if folder.resolve() == Path("/") else "the home folder"
        raise FilesError(
            f"{folder} is {what}, which is not sent as a whole: change to the folder of the program, "
            "or name its files with --file"
        )
    walk = _Walk(folder, skip)
    try:
        paths = tuple(walk.files())
    except OSError as error:
        raise FilesError(f"{error.filename or folder} cannot be read: {error.strerror}") from error
    return Selection(paths, tuple(walk.left_out))


class _Rules(NamedTuple):
    """The patterns of one ignore file, or built-in ones."""

    base: str
    """The folder whose paths they match, relative, with a slash at its end; empty: the whole folder."""
    spec: GitIgnoreSpec
    reasons: tuple[str, ...]
    """By the number of a pattern."""


class _Walk:
    """One walk through a folder; `left_out` fills while `files` runs."""

    def __init__(self, folder: Path, skip: Path | None) -> None:
        self._folder = folder
        own, theirs = folder.resolve(), None if skip is None else skip.resolve()
        self._skip = None if theirs is None or not theirs.is_relative_to(own) else f"{theirs.relative_to(own)}/"
        self.left_out: list[LeftOut] = []
        self._measured = 0
        self._file = HOSTLERIGNORE if (folder / HOSTLERIGNORE).is_file() else GITIGNORE

    def files(self) -> Iterator[str]:
        """The files that are taken, in order of their paths within each folder."""
        builtin = [*BUILD, *SECRETS]
        reasons = (BUILD_REASON,) * len(BUILD) + ("files that may hold secrets",) * len(SECRETS)
        yield from self._below("", (_Rules("", GitIgnoreSpec.from_lines(builtin), reasons),))

    def _below(self, base: str, rules: tuple[_Rules, ...]) -> Iterator[str]:
        with os.scandir(self._folder / base) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        if not base or self._file == GITIGNORE:
            rules = self._with_own(base, rules)
        for entry in entries:
            path = base + entry.name
            if entry.is_dir(follow_symlinks=False):
                path += "/"
                if path == self._skip:
                    continue
                if _is_state(self._folder / path):
                    self.left_out.append(LeftOut(path, STATE_REASON, 0))
                    continue
                reason = _reason(path, rules)
                if reason is None and not os.listdir(self._folder / path):
                    self.left_out.append(LeftOut(path, EMPTY_REASON, 0))
                elif reason is None:
                    yield from self._below(path, rules)
                else:
                    self.left_out.append(LeftOut(path, reason, self._size_below(path)))
            elif _is_kind(entry, os.DirEntry.is_dir):
                if _reason(path, rules) is None:
                    self.left_out.append(LeftOut(path, LINK_REASON, 0))
            elif _is_kind(entry, os.DirEntry.is_file):
                reason = _reason(path, rules)
                if reason is None:
                    yield path
                else:
                    self.left_out.append(LeftOut(path, reason, entry.stat().st_size))
            elif _reason(path, rules) is None:
                self.left_out.append(LeftOut(path, DANGLING_REASON if entry.is_symlink() else SPECIAL_REASON, 0))

    def _with_own(self, base: str, rules: tuple[_Rules, ...]) -> tuple[_Rules, ...]:
        """The rules with those of the folder's own ignore file, if it has one."""
        path = self._folder / base / self._file
        if not path.is_file():
            return rules
        lines = path.read_text(encoding="utf-8-sig", errors="replace").splitlines()
        try:
            spec = GitIgnoreSpec.from_lines(lines)
        except (ValueError, re.error) as error:
            raise FilesError(f"{path} cannot be read: {error}. Each line is a pattern as in .gitignore") from error
        return (*rules, _Rules(base, spec, (base + self._file,) * len(spec.patterns)))

    def _size_below(self, path: str) -> int:
        """Bytes of the files of a folder; of a huge one those that were found first."""
        size, waiting = 0, [self._folder / path]
        while waiting and self._measured < MEASURED_MAX:
            try:
                with os.scandir(waiting.pop()) as found:
                    for entry in found:
                        self._measured += 1
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(Path(entry.path))
                        else:
                            size += entry.stat(follow_symlinks=False).st_size
            except OSError:  # nothing of it is sent: that it cannot be read is no fault
                continue
        return size


def _is_state(folder: Path) -> bool:
    """Whether a folder is the state directory of some controller, with its token and its journal."""
    return all((folder / name).exists() for name in STATE_FILES)


def _reason(path: str, rules: Sequence[_Rules]) -> str | None:
    """What leaves a path out; `None`: it is taken. The rules deepest in the tree that say something count."""
    for each in reversed(rules):
        own = path.removeprefix(each.base)
        for number, pattern in reversed([*enumerate(each.spec.patterns)]):
            if pattern.include is not None and _matches(pattern, own):
                return each.reasons[number] if pattern.include else None
    return None


def _matches(pattern: Pattern, path: str) -> bool:
    """Whether a pattern matches a path itself, and not only a folder above it.

    What is below a folder that is left out is never looked at; what is below one that is taken back (`!data/`) is not
    taken back with it, as with git.
    """
    if not isinstance(pattern, RegexPattern) or pattern.regex is None:
        return False
    found = pattern.regex.finditer(path)
    if FOLDER not in pattern.regex.groupindex:
        return any(True for _ in found)
    return any(each.end() == len(path) for each in found)


def _is_kind(entry: os.DirEntry[str], kind: Callable[[os.DirEntry[str]], bool]) -> bool:
    try:
        return kind(entry)
    except OSError:  # a link that leads to itself
        return False
