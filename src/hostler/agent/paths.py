"""Paths that somebody else names: below a folder of ours, and nowhere else; and what they lead to."""

from __future__ import annotations

import os
from typing import Optional, Tuple

from .protocol import RequestError


def relative(path: object) -> str:
    """A path below a folder; raises RequestError for anything else."""
    parts = path.split("/") if type(path) is str else [""]
    if "\0" in str(path) or any(part in ("", ".", "..") for part in parts):
        raise RequestError("%.200r is no path below a folder" % path)
    return str(path)


def inside(root: str, path: object) -> str:
    """The path below ``root``; raises RequestError if it leads out of it, by a link, too."""
    full = os.path.join(root, relative(path))
    if not (os.path.realpath(full) + "/").startswith(os.path.realpath(root) + "/"):
        raise RequestError("%.200r leads out of the agent's folder" % path)
    return full


def file_id(path: str) -> Optional[Tuple[int, int]]:
    """What tells a file from another one of its name; None where there is none. Raises OSError."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
