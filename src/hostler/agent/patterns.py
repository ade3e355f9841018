"""Patterns of files: ``*`` and ``?`` within a name, ``**`` for folders in between; a folder means all that is in it."""

from __future__ import annotations

import os
import re
from typing import AbstractSet, Iterable, Iterator, List, Optional, Pattern

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


def walk(
    root: str,
    without: Iterable[str] = (),
    unreadable: Optional[List[str]] = None,
    linked: bool = False,
    links: Optional[List[str]] = None,
) -> Iterator[str]:
    """The regular files below a folder, as paths relative to it, in order; links are not followed.

    With ``linked``, links to regular files count as these; links to folders are never followed. Other links are added
    to ``links``, if that is given.

    Folders with a name of ``without`` are passed over; those that may not be read are added to ``unreadable``, if that
    is given. Raises OSError where another cannot be read, as one whose path is too long.
    """
    passed = frozenset(without)
    waiting = [""]  # a folder has a slash at its end; no recursion, whose limit is less than the folders there may be
    while waiting:
        path = waiting.pop()
        if path and not path.endswith("/"):
            yield path
            continue
        try:
            with os.scandir(os.path.join(root, path)) as found:
                entries = sorted(found, key=lambda entry: entry.name, reverse=True)
        except PermissionError:
            if unreadable is None or not path:
                raise
            unreadable.append(path)
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in passed:
                    waiting.append(path + entry.name + "/")
            elif entry.is_file(follow_symlinks=False) or (
                linked and os.path.isfile(os.path.join(root, path, entry.name))
            ):
                waiting.append(path + entry.name)
            elif links is not None and entry.is_symlink():
                links.append(path + entry.name)


def changed(root: str, laid: AbstractSet[str], laid_at_ns: int, left: List[str], links: List[str]) -> Iterator[str]:
    """The files below a folder that are not among ``laid``, or were written since, outside of `BUILD_FOLDERS`.

    Those that may not be read, or whose names are not UTF-8, are added to ``left`` instead, and symbolic links to
    ``links``: no link is laid out. Raises OSError as `walk`.
    """
    for path in walk(root, BUILD_FOLDERS, left, links=links):
        full = os.path.join(root, path)
        if path in laid and os.lstat(full).st_mtime_ns == laid_at_ns:
            continue
        if _is_text(path) and os.access(full, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
            yield path
        else:
            left.append(path)


def _is_text(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _translated(pattern: str) -> str:
    words = _WORD.findall(pattern.strip("/"))
    return "".join(_PARTS.get(word) or re.escape(word) for word in words) + "(?:/.*)?"
