"""Repairing a journal of which entries are damaged: copied first, then repaired in one transaction, with a report."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from hostler import __version__
from hostler.core import Core
from hostler.core.snapshot import load_state
from hostler.core.views import job_view
from hostler.model.errors import CorruptState, NotFound, StoreFull, StoreLost
from hostler.model.record import record
from hostler.runtime.moving import SIDES
from hostler.runtime.salvage import fold_what_fits, record_of
from hostler.runtime.snapshots import snapshot_of
from hostler.runtime.statedir import StateDir
from hostler.runtime.term import claim
from hostler.store import Journal, archive, named, open_journal
from hostler.store.checking import Fault
from hostler.store.copying import copy_out
from hostler.store.dialect import FILE


@record
class Repaired:
    """What a repair has found and done."""

    store: str
    copy: Path | None
    """The journal as it was; `None`: nothing was damaged, and nothing was changed."""
    newest: int
    """The newest entry."""
    base: int
    """The snapshot that the state was taken from; 0: every entry was folded."""
    lost: tuple[Fault, ...]
    """Entries that were set aside, in order."""
    jobs_gone: tuple[str, ...]
    """Jobs that nothing is known of any more."""

    @property
    def without_effect(self) -> int:
        """Entries that were set aside and whose effect the snapshot has."""
        return sum(fault.seq <= self.base for fault in self.lost)


def repair(directory: StateDir, now: float) -> Repaired:
    """Mend the journal of a state directory; no controller may run.

    Raises `StoreBusy` while one does, `NotFound`, `CorruptState` where it cannot be repaired, `StoreError`.
    """
    if isinstance(directory.place, Path) and not (directory.path / FILE).exists():
        raise NotFound(f"there is no journal in {directory.path}; name the state directory of a controller")
    directory.take()
    try:
        copy = _copied(directory, now)
        try:
            return _repair(directory, copy, now)
        except StoreLost:
            raise  # the answer was lost, and it may be repaired
        except BaseException:
            _remove(copy)
            raise
    finally:
        directory.release()


def _repair(directory: StateDir, copy: Path, now: float) -> Repaired:
    journal = open_journal(directory.place)
    try:
        journal.begin_epoch(now, claim(directory))  # the leader of a shared journal is fenced
        faults = list(journal.faults())
        base, core = _newest(journal, faults)
        made = fold_what_fits(core, journal.survey(after=base))
        state = made.core.state
        lost = [*((fault, record_of(fault, state.at)) for fault in faults if fault.seq <= base), *made.lost]
        known = _jobs(journal)
        if lost:
            journal.repair(lost, snapshot_of(made.core), [job_view(state, job) for job in state.jobs.values()])
        else:
            _remove(copy)
        return Repaired(
            store=named(directory.place),
            copy=copy if lost else None,
            newest=state.seq,
            base=base,
            lost=tuple(fault for fault, _ in lost),
            jobs_gone=tuple(sorted(known - _jobs(journal))),
        )
    finally:
        journal.close()


def _newest(journal: Journal, faults: list[Fault]) -> tuple[int, Core]:
    """The newest snapshot that can be read, and its entry; entry 0 and an empty state, where there is none."""
    damaged = {fault.seq: fault for fault in faults}
    for snapshot in journal.snapshots():
        try:
            state = load_state(snapshot.data)
        except CorruptState:
            continue
        if snapshot.seq in damaged:
            return state.seq, Core(state, record_of(damaged[snapshot.seq], state.at))
        last = next(iter(journal.read(after=snapshot.seq - 1, limit=1)), None)
        if last is not None and (last.seq, last.at) == (state.seq, state.at):
            return state.seq, Core(state, last)
    return 0, Core()


def _jobs(journal: Journal) -> set[str]:
    with journal.catalogue() as connection:
        return set(connection.exec_driver_sql("select id from jobs").scalars())


def _copied(directory: StateDir, now: float) -> Path:
    """The journal as it is, beside it. A file is copied byte by byte, a database row by row."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    place = directory.place
    if not isinstance(place, Path):
        target = directory.path / f"before-repair-{stamp}.backup"
        with archive.writing(target, now) as out:
            copied = copy_out(place, out)
            out.seal({"hostler": __version__, "made_at": now, "schema": copied.schema, "rows": copied.rows})
        return target
    target = directory.path / f"before-repair-{stamp}"
    try:
        target.mkdir(mode=0o700)
        for side in SIDES:
            source = place / f"{FILE}{side}"
            if source.exists():
                shutil.copyfile(source, target / source.name)
                (target / source.name).chmod(0o600)
                _sync(target / source.name)
        _sync(target)
    except OSError as error:
        raise StoreFull(
            f"the journal cannot be copied to {target}, and nothing was changed: {error.strerror or error}"
        ) from error
    return target


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(copy: Path) -> None:
    if copy.is_dir():
        shutil.rmtree(copy)
    else:
        copy.unlink(missing_ok=True)
