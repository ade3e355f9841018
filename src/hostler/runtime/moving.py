"""Taking the journal of a state directory to another database, and telling the directory where it is now."""

from __future__ import annotations

from pathlib import Path

from hostler.model.errors import Conflict
from hostler.runtime.statedir import StateDir
from hostler.store import Place, named, open_journal
from hostler.store.dialect import FILE
from hostler.store.moving import Moved, move

SIDES = ("", "-wal", "-shm")
"""What SQLite has beside a file."""


def take(directory: StateDir, target: Place, now: float, version: str) -> tuple[Moved, str]:
    """Take the journal to `target`; what was taken, and where the old one stands now.

    Raises `StoreBusy` while a controller holds the directory, `Conflict`, `NotFound`, `CorruptState`, `StoreError`.
    """
    directory.take()
    try:
        source = directory.place
        if source == target:
            raise Conflict(f"the journal is in {named(target)} already")
        moved = move(source, target, now, version)
        _name(target, directory.identity())
        directory.set_store(None if isinstance(target, Path) else target)
        return moved, _set_aside(source)
    finally:
        directory.release()


def _name(target: Place, identity: str) -> None:
    """Agents elsewhere have their folders under the identity: whichever controller comes first finds them again."""
    journal = open_journal(target)
    try:
        journal.arrive(identity)
    finally:
        journal.close()


def _set_aside(source: Place) -> str:
    """A file is renamed, so that no controller takes it up again; a database is left, with its writers fenced."""
    if not isinstance(source, Path):
        return named(source)
    for side in SIDES:
        old = source / f"{FILE}{side}"
        if old.exists():
            old.replace(source / f"{FILE}.moved{side}")
    return str(source / f"{FILE}.moved")
