"""Snapshots that a controller has, for tests of what starts from them."""

from __future__ import annotations

from pathlib import Path

from hostler.snapshots.folder import take
from hostler.snapshots.store import SnapshotStore
from hostler.snapshots.upload import bodies, parse


def kept(store: SnapshotStore, folder: Path) -> str:
    """The digest of a snapshot of a folder, which the store has now."""
    snapshot = take(folder)
    _, missing = store.add(snapshot.data)
    for body in bodies(snapshot.sources(missing)):
        for piece in parse(body.data):
            store.write(piece)
    return store.add(snapshot.data)[0]
