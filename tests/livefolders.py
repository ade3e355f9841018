"""Files of folders that other processes change meanwhile: `Path.rglob` raises where a folder vanishes on its way."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


def files_below(folder: Path) -> Iterator[Path]:
    """The files below a folder; what vanishes while they are listed is passed over."""
    for at, _, names in os.walk(folder):
        yield from (path for name in names if (path := Path(at, name)).is_file())


def contents_below(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The same with their contents."""
    for path in files_below(folder):
        with contextlib.suppress(FileNotFoundError):
            yield path, path.read_bytes()


def folders_below(folder: Path) -> Iterator[Path]:
    """The folders below a folder; what vanishes while they are listed is passed over."""
    for at, names, _ in os.walk(folder):
        yield from (Path(at, name) for name in names)
