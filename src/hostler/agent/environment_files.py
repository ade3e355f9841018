"""Files that state a Python environment: their kind, their text with all that they include, and the key of a build.

Kinds, by the name of the file: ``uv.lock``, ``pyproject.toml``, ``*.yml`` or ``*.yaml`` (conda), and requirements files
of pip under any other name.
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import Dict, List

UV_LOCK, PYPROJECT, CONDA, REQUIREMENTS = "uv.lock", "pyproject.toml", "conda", "requirements"
_MOST_BYTES = 16 << 20
_MOST_FILES = 100
_INCLUDES = re.compile(r"^\s*(?:-r|--requirement|-c|--constraint)(?:\s*=\s*|\s*)(\S+)", re.M)


class FileError(Exception):
    """A file that states an environment cannot be used; the message says which and why."""


def kind_of(path: str) -> str:
    """What the name of a file says of its format."""
    name = path.rpartition("/")[2]
    if name in (UV_LOCK, PYPROJECT):
        return name
    return CONDA if name.endswith((".yml", ".yaml")) else REQUIREMENTS


def contents(folder: str, path: str) -> Dict[str, bytes]:
    """The file of that path below a folder, and the requirements files that it includes, by path. Raises FileError."""
    found: Dict[str, bytes] = {}
    waiting = [os.path.normpath(path)]
    while waiting:
        name = waiting.pop(0)
        if name in found:
            continue
        if len(found) >= _MOST_FILES:
            raise FileError("%s includes more than %d files" % (path, _MOST_FILES))
        found[name] = _read(folder, name)
        if kind_of(path) == REQUIREMENTS:
            waiting += [_beside(name, each) for each in _included(found[name])]
    if kind_of(path) == UV_LOCK:  # it says which groups of dependencies are installed
        beside = _beside(os.path.normpath(path), PYPROJECT)
        if os.path.exists(os.path.join(folder, beside)):
            found[beside] = _read(folder, beside)
    return found


def key_of(files: Dict[str, bytes], python: str) -> str:
    """The key of a build: of the files with their names, and of a description of the interpreter and its platform."""
    digest = hashlib.sha256()
    for part in (python.encode(), *(each for name in sorted(files) for each in (name.encode(), files[name]))):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()


def _read(folder: str, name: str) -> bytes:
    try:
        with open(os.path.join(folder, name), "rb") as source:
            data = source.read(_MOST_BYTES + 1)
    except OSError as error:
        raise FileError("%s cannot be read: %s" % (name, error.strerror)) from None
    if len(data) > _MOST_BYTES:
        raise FileError("%s is longer than %d bytes" % (name, _MOST_BYTES))
    return data


def _included(data: bytes) -> List[str]:
    names = _INCLUDES.findall(data.decode("utf-8", "replace"))
    return [name for name in names if "://" not in name]


def _beside(name: str, other: str) -> str:
    return os.path.normpath(os.path.join(os.path.dirname(name), other))
