"""Patterns of files: ``*`` and ``?`` within a name, ``**`` for folders in between; a folder means all that is in it."""

from __future__ import annotations

import os
import re
from typing import Iterable, Iterator, Pattern

_PARTS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
_WORD = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")


def matcher(patterns: Iterable[str]) -> Pattern[str]:
    """What matches whole paths, relative and with slashes, that one of the patterns means."""
    return re.compile("|".join("(?:%s)" % _translated(each) for each in patterns), re.DOTALL)


def walk(root: str, folder: str = "") -> Iterator[str]:
    """The regular files below a folder, as paths relative to it, in order; links are not followed, nor told of.

    Raises OSError where a folder cannot be read.
    """
    with os.scandir(os.path.join(root, folder)) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        path = folder + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from walk(root, path + "/")
        elif entry.is_file(follow_symlinks=False):
            yield path


def _translated(pattern: str) -> str:
    words = _WORD.findall(pattern.strip("/"))
    return "".join(_PARTS.get(word) or re.escape(word) for word in words) + "(?:/.*)?"
