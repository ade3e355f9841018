"""Snapshots, made by a process of their own: it folds the journal as a start would, and the controller never waits."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

from hostler.core import Core
from hostler.core.snapshot import dump_state, load_state
from hostler.model.errors import CorruptState, StoreBusy, StoreError
from hostler.model.events import Entry
from hostler.runtime.salvage import fold_what_fits
from hostler.store import Journal, Place, Snapshot, open_journal

BUSY = os.EX_TEMPFAIL
"""The exit status of the process that folds, where the journal was locked whenever it asked."""


def recovered(journal: Journal, on_damage: Callable[[str], None]) -> Core:
    """The core as the journal has it: newest snapshot that can be read, then every entry after it.

    The journal is the truth and is kept whole, its old entries in segments, so a damaged snapshot, or one of another
    version or of what a shared database has lost, only costs time; `on_damage` hears of it. Raises `CorruptState` if
    the journal itself lacks entries.
    """
    for snapshot in journal.snapshots():
        if not journal.shared:
            _expect_entry(journal, snapshot.seq)
        entries = journal.read(after=max(snapshot.seq - 1, 0))
        core = _core_of(snapshot, next(entries, None), on_damage)
        if core is not None:
            core.replay(entries)
            return core
    core = Core()
    if journal.base() is None:
        core.replay(journal.read())
        return core
    # A repaired journal lacks entries, and the state that its repair has kept is of another version.
    made = fold_what_fits(core, journal.survey())
    for fault, _ in made.lost:
        on_damage(f"entry {fault.seq} is left out: {fault.what}")
    return made.core


def _expect_entry(journal: Journal, seq: int) -> None:
    """A file loses nothing by itself. A database that several share does, where a replica takes over that lagged."""
    newest = journal.newest_seq()
    if seq > newest:
        raise CorruptState(
            f"there is a snapshot of entry {seq}, but the journal ends at {newest}: entries are missing. "
            "Restore the state directory from a copy"
        )


def _core_of(snapshot: Snapshot, last: Entry | None, on_damage: Callable[[str], None]) -> Core | None:
    """What a snapshot holds, where this is the entry that it ends with; `None`: it is of no use."""
    try:
        state = load_state(snapshot.data)
        # Whoever made it may have read the journal before the database lost this entry, and kept it after that.
        if last is None or (last.seq, last.at) != (state.seq, state.at):
            raise CorruptState("the journal has lost that entry, or has another one by now")
    except CorruptState as error:
        on_damage(f"snapshot of entry {snapshot.seq}: {error}")
        return None
    return Core(state, last)


def snapshot_of(core: Core) -> Snapshot:
    """The state as it is now."""
    return Snapshot(seq=core.state.seq, at=core.state.at, data=dump_state(core.state))


async def fold_in_background(place: Place) -> None:
    """Bring the snapshots of a store up to date. Raises `StoreError` with what the folder said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hostler.runtime.snapshots",
        "--store" if isinstance(place, str) else "--state-dir",
        str(place),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode == BUSY:
        raise StoreBusy("the snapshot was not made: the journal was being written all the time")
    if process.returncode != 0:
        raise StoreError(f"the snapshot was not made: {said.decode(errors='replace').strip()[-500:]}")


def main() -> None:
    """`python -m hostler.runtime.snapshots --state-dir DIR`, or `--store ADDRESS`: fold the journal, keep the state."""
    kind, where = sys.argv[1:]
    journal = open_journal(where if kind == "--store" else Path(where))
    try:
        journal.save_snapshot(snapshot_of(recovered(journal, on_damage=print)))
    except StoreBusy:
        sys.exit(BUSY)
    finally:
        journal.close()


if __name__ == "__main__":
    main()
