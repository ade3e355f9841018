"""Empty journals in SQLite for tests that are not about how one is made."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hostler.store import open_journal
from hostler.store.opening import FILE


@cache
def _made() -> bytes:
    with TemporaryDirectory() as folder:
        open_journal(Path(folder)).close()
        return (Path(folder) / FILE).read_bytes()


def new_journal(folder: Path) -> Path:
    """Put the file that a first controller would make into a folder: to copy it costs a twentieth of making it."""
    (folder / FILE).write_bytes(_made())
    return folder
