"""Patterns of files: ``*`` and ``?`` within a name, ``**`` for folders in between; a folder means all that is in it."""

from __future__ import annotations

import os
import re
from typing import AbstractSet, Iterable, Iterator, Pattern

BUILD_FOLDERS = (
    ".git", ".hg", ".svn", ".venv", "venv", "__pycache__", "node_modules", ".mypy_cache", ".pytest_cache",
    ".ruff_cache", ".tox", ".nox", ".ipynb_checkpoints",
)  # fmt: skip
"""Folders that tools make for themselves: neither sent nor fetched unless they are named."""

_PARTS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_WORD = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")


def matcher(patterns: Iterable[str]) -> Pattern[str]:
    """What matches whole paths, relative and with slashes, that one of the patterns means."""
    return re.compile("|".join("(?:%s)" % _translated(each) for each in patterns), re.DOTALL)


def walk(root: str, without: Iterable[str] = ()) -> Iterator[str]:
    """The regular files below a folder, as paths relative to it, in order; links are not followed, nor told of.

    Folders with a name of ``without`` are passed over.

    Raises OSError where a folder cannot be read, as one whose path is too long.
    """
    passed = frozenset(without)
    waiting = [""]  # a folder has a slash at its end; no recursion, whose limit is less than the folders there may be
    while waiting:
        path = waiting.pop()
        if path and not path.endswith("/"):
            yield path
            continue
        with os.scandir(os.path.join(root, path)) as found:
            entries = sorted(found, key=lambda entry: entry.name, reverse=True)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in passed:
                    waiting.append(path + entry.name + "/")
            elif entry.is_file(follow_symlinks=False):
                waiting.append(path + entry.name)


def changed(root: str, laid: AbstractSet[str], laid_at_ns: int) -> Iterator[str]:
    """The files below a folder that are not among ``laid``, or were written since, outside of `BUILD_FOLDERS`.

    Raises OSError as `walk`.
    """
    for path in walk(root, BUILD_FOLDERS):
        if path not in laid or os.lstat(os.path.join(root, path)).st_mtime_ns != laid_at_ns:
            yield path


def _translated(pattern: str) -> str:
    words = _WORD.findall(pattern.strip("/"))
    return "".join(_PARTS.get(word) or re.escape(word) for word in words) + "(?:/.*)?"
