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


def walk(root: str) -> Iterator[str]:
    """The regular files below a folder, as paths relative to it, in order; links are not followed, nor told of.

    Raises OSError where a folder cannot be read, as one whose path is too long.
    """
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
                waiting.append(path + entry.name + "/")
            elif entry.is_file(follow_symlinks=False):
                waiting.append(path + entry.name)


def _translated(pattern: str) -> str:
    words = _WORD.findall(pattern.strip("/"))
    return "".join(_PARTS.get(word) or re.escape(word) for word in words) + "(?:/.*)?"
