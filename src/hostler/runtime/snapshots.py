"""Snapshots, made by a process of their own: it folds the journal as a start would, and the controller never waits."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hostler.core import Core
from hostler.core.snapshot import dump_state, load_state
from hostler.model.errors import CorruptState, StoreError
from hostler.store import Journal, Snapshot, open_journal


def recovered(journal: Journal) -> Core:
    """The core as the journal has it: newest snapshot, then every entry after it. Raises `CorruptState`."""
    snapshot, newest = journal.newest_snapshot(), journal.newest_seq()
    if snapshot is not None and snapshot.seq > newest:
        raise CorruptState(
            f"the newest snapshot is of entry {snapshot.seq}, but the journal ends at {newest}: entries are missing. "
            "Restore the state directory from a copy"
        )
    core = Core() if snapshot is None else Core(load_state(snapshot.data))
    core.replay(journal.read(after=core.state.seq))
    return core


def snapshot_of(core: Core) -> Snapshot:
    """The state as it is now."""
    return Snapshot(seq=core.state.seq, at=core.state.at, data=dump_state(core.state))


async def fold_in_background(directory: Path) -> None:
    """Bring the snapshots of a state directory up to date. Raises `StoreError` with what the folder said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "hostler.runtime.snapshots",
        str(directory),
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
    if process.returncode != 0:
        raise StoreError(f"the snapshot was not made: {said.decode(errors='replace').strip()[-500:]}")


def main() -> None:
    """`python -m hostler.runtime.snapshots DIR`: fold the journal of DIR and keep the result."""
    journal = open_journal(Path(sys.argv[1]))
    journal.save_snapshot(snapshot_of(recovered(journal)))
    journal.close()


if __name__ == "__main__":
    main()
