"""Making a backup of a state directory: the journal with its projections, and what nodes and people know it by.

It may be made beside a running controller. What can be made again from the journal (snapshots), or has copies of its
own (artifacts), is not in it; what scripts left (`results`) and what they said (`logs`) are files like any others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostler import __version__
from hostler.model.errors import NotFound, StoreFull
from hostler.model.record import record
from hostler.runtime.statedir import StateDir
from hostler.store import archive
from hostler.store.copying import check, copy_out

STATE = "state/"
"""What members are called that are files of the state directory."""


@record
class Backup:
    """What a backup holds."""

    path: Path
    bytes: int
    sha256: str
    manifest: dict[str, Any]


def create(directory: StateDir, target: Path, now: float) -> Backup:
    """Make a backup: the file `target` or, where that is a folder, one in it that is called after the time.

    Every entry is read back from the file and loaded before it has its name. Raises `NotFound` where there is no
    journal, `Conflict` where there is such a file, `CorruptState` where an entry does not load, `StoreError`.
    """
    path = target / time.strftime("hostler-%Y%m%dT%H%M%SZ.backup", time.gmtime(now)) if target.is_dir() else target
    if not path.parent.is_dir():
        raise NotFound(f"there is no folder {path.parent} to put the backup into; make it first")
    with archive.writing(path, now, check) as out:
        # Before the journal: nothing in them may be ahead of it.
        for name, data in _files(directory):
            out.add(STATE + name, data)
        copied = copy_out(directory.place, out)
        rows = dict(copied.rows)
        about = {
            "hostler": __version__,
            "made_at": now,
            "schema": copied.schema,
            "journal": {"seq": copied.seq, "at": copied.at, "entries": rows["journal"], "epoch": copied.epoch},
            "artifacts": rows.get("artifacts", 0),
            "fleet": directory.fleet_path(),
            "rows": rows,
        }
        sha256 = out.seal(about)
    with archive.opened(path) as made:
        return Backup(path=path, bytes=path.stat().st_size, sha256=sha256, manifest=made.manifest)


def _files(directory: StateDir) -> Iterator[tuple[str, bytes]]:
    for path in directory.secrets():
        try:
            yield str(path.relative_to(directory.path)), path.read_bytes()
        except FileNotFoundError:
            continue  # it is gone meanwhile, as ended sessions are
        except OSError as error:
            raise StoreFull(
                f"{path} cannot be read: {error.strerror}; a backup without it would be of no use"
            ) from error
