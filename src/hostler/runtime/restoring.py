"""Checking a backup by making its journal anew, and going on from one in a state directory of its own.

What is in a backup is believed only after it was folded: every entry, every invariant, every row of the projections.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Table

from hostler import __version__
from hostler.core import Core
from hostler.core.snapshot import load_state
from hostler.core.views import job_view
from hostler.model.artifacts import HUB
from hostler.model.errors import CorruptState, StoreFull
from hostler.model.events import Entry, subject
from hostler.model.inputs import CopiesTold, Input, Restored
from hostler.model.record import record
from hostler.runtime import holding
from hostler.runtime.backing import STATE
from hostler.runtime.holding import Named
from hostler.runtime.losing import JOBS, PARTS
from hostler.runtime.places import Places
from hostler.runtime.pump import refused
from hostler.runtime.snapshots import snapshot_of
from hostler.runtime.statedir import StateDir
from hostler.store import Batch, Claim, Journal, archive, open_journal, segments, tables
from hostler.store.archive import Archive
from hostler.store.copying import copy_in, rows_of
from hostler.store.opening import FILE

Tell = Callable[[str], None]
PAGE = 10_000
DIFFERENCES = 5
EPOCHS, EPOCHS_PER_S = 1000, 1
"""Controllers that may have been started since a backup was made: so many, and so many in every second."""
JOBS_PER_S, PARTS_PER_S = 10, 1000
"""Beside what any loss may have had (`losing`): jobs that may have been submitted in each second since, and attempts of
any job or chunks of any sweep.
"""
REBUILT = (tables.hits, tables.requests, tables.artifacts, tables.lineage, tables.copies)
"""Projections of which every row follows from the entries alone,"""
NOTED = frozenset({tables.artifacts.c.settled_on})
"""but for these columns: what the making of copies has noted for itself."""


@record
class Checked:
    """A backup that is whole."""

    manifest: dict[str, Any]
    nowhere: tuple[Named, ...]
    """Artifacts that its index names and that no place lists which answers."""
    silent: dict[str, str]
    """Places that do not answer, and why."""


@record
class Restoration:
    """A journal that goes on from a backup."""

    checked: Checked
    directory: Path
    epoch: int
    """No controller that begins now has a lower one."""
    next_job: int
    fetched: int
    """Artifacts that were brought into the controller's own store."""


def verify(path: Path, directory: StateDir, environ: Mapping[str, str]) -> Checked:
    """Fold all of a backup in a temporary folder. Raises `NotFound`, and `CorruptState` saying what is wrong with it,
    and `StoreFull` where that folder has no room.

    `directory` is where artifacts are looked for, besides the stores of the fleet file in the backup.
    """
    with _scratch() as place, archive.opened(path) as made:
        _unpack(made, place.path)
        journal, _ = _folded(made, place.path)
        try:
            places, faults = holding.places_of(place, directory.artifacts, environ)
            return _checked(made, journal, holding.look_around(places), faults)
        finally:
            journal.close()


def restore(
    path: Path, directory: StateDir, environ: Mapping[str, str], now: float, tell: Tell, *, fetch: bool
) -> Restoration:
    """Let a journal go on in a state directory that has nothing of a controller.

    Raises `Conflict` where it has, `StoreBusy` where one runs, `NotFound`, `CorruptState`; nothing is changed then.
    With `fetch`, what the controller's own store had is brought there from wherever it lies.
    """
    directory.refuse_used()
    with archive.opened(path) as made, _taken(directory), _staging(directory) as place:
        return _restore(made, directory, place, environ, now, tell, fetch)


def _restore(
    made: Archive,
    directory: StateDir,
    place: StateDir,
    environ: Mapping[str, str],
    now: float,
    tell: Tell,
    fetch: bool,
) -> Restoration:
    _unpack(made, place.path)
    journal, core = _folded(made, place.path)
    try:
        since_s = max(now - made.manifest["made_at"], 0.0)
        epoch = journal.begin_epoch(now, Claim(__version__), EPOCHS + int(since_s * EPOCHS_PER_S))
        _tell(core, journal, now, _left_out(made, since_s))
        places, faults = holding.places_of(place, directory.artifacts, environ)
        fetched, around = _bring(core, journal, directory, places, now, tell, fetch)
        checked = _checked(made, journal, around, faults)
        journal.save_snapshot(snapshot_of(core))
    finally:
        journal.close()
    _publish(place, directory)
    return Restoration(
        checked=checked,
        directory=directory.path,
        epoch=epoch,
        next_job=core.state.next_job,
        fetched=fetched,
    )


def _left_out(made: Archive, since_s: float) -> Restored:
    return Restored(
        made_at=made.manifest["made_at"],
        jobs=JOBS + int(since_s * JOBS_PER_S),
        parts=PARTS + int(since_s * PARTS_PER_S),
    )


def _bring(
    core: Core, journal: Journal, directory: StateDir, places: Places, now: float, tell: Tell, fetch: bool
) -> tuple[int, holding.Holdings]:
    """Make the controller's own store what the index says, and the index what the store is."""
    directory.artifacts.mkdir(exist_ok=True)
    held = holding.look_around(places)
    missing = holding.lacking(journal, held)
    left = holding.fetch(missing, places, held, directory.artifacts, tell) if fetch else missing
    for names in holding.some_names(left):
        why = "it was not there when the journal was restored from a backup"
        _tell(core, journal, now, CopiesTold(place=HUB, gone=names, why=why))
    came = len(missing) - len(left)
    return came, holding.look_around(places) if came else held


def _tell(core: Core, journal: Journal, now: float, said: Input) -> None:
    outcome = core.handle(now, said)
    refusal = refused(outcome.answers)
    if refusal is not None:
        raise refusal
    touched = dict.fromkeys(subject(entry.event) for entry in outcome.entries)
    jobs = [job_view(core.state, core.state.jobs[name]) for name in touched if name in core.state.jobs]
    journal.append([Batch(entries=outcome.entries, jobs=jobs, left=outcome.left, hours=outcome.hours)])


def _checked(made: Archive, journal: Journal, held: holding.Holdings, faults: Mapping[str, str]) -> Checked:
    return Checked(
        manifest=made.manifest, nowhere=tuple(holding.nowhere(journal, held)), silent={**held.silent, **faults}
    )


def _unpack(made: Archive, folder: Path) -> None:
    """Every member is read, and its hash compared, by now."""
    copy_in(made, folder)
    for name in made.names(STATE):
        path = folder / name.removeprefix(STATE)
        if not path.resolve().is_relative_to(folder.resolve()):
            raise CorruptState(f"the backup has a member {name!r}, which is no file of a state directory")
        path.parent.mkdir(mode=0o700, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(made.read(name))
            file.flush()
            os.fsync(file.fileno())


def _folded(made: Archive, folder: Path) -> tuple[Journal, Core]:
    """The journal and what it comes to, once all of it agrees. Raises `CorruptState`."""
    journal = open_journal(folder)
    core = _base(journal)
    base = core.state.seq
    (folder / "rebuilt").mkdir()
    rebuilt = open_journal(folder / "rebuilt")
    try:
        for entries in _by_page(journal.read()):
            core.replay(entry for entry in entries if entry.seq > base)
            rebuilt.append([Batch(entries=entries, jobs=())])
        core.validate()
        faults = [
            *_other_end(made, core),
            # What a repair has set aside is missing in the entries, and not in the projections.
            *(_other_rows(journal, rebuilt) if base == 0 else ()),
            *_other_jobs(journal, core),
            *_astray(journal),
        ]
        if faults:
            raise CorruptState(f"the backup contradicts itself: {'; '.join(islice(faults, DIFFERENCES))}")
    except BaseException:
        journal.close()
        raise
    finally:
        rebuilt.close()
        shutil.rmtree(folder / "rebuilt")
    return journal, core


def _base(journal: Journal) -> Core:
    """What the entries are folded into: an empty state, or the one that a repair of the journal has kept."""
    seq = journal.base()
    if seq is None:
        return Core()
    state = next(load_state(each.data) for each in journal.snapshots() if each.seq == seq)
    return Core(state, next(journal.read(after=seq - 1, limit=1)))


def _by_page(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    while page := list(islice(entries, PAGE)):
        yield page


def _other_end(made: Archive, core: Core) -> Iterator[str]:
    told = made.manifest["journal"]["seq"]
    if core.state.seq != told:
        yield f"its journal ends at entry {core.state.seq}, and its manifest says {told}"


def _other_rows(journal: Journal, rebuilt: Journal) -> Iterator[str]:
    """Rows of the projections that are others than what the entries say."""
    with journal.catalogue() as one, rebuilt.catalogue() as other:
        for table in REBUILT:
            found, should = _told(rows_of(one, table), table), _told(rows_of(other, table), table)
            yield from islice(_differences(table.name, found, should), DIFFERENCES)


def _told(rows: Iterator[tuple[Any, ...]], table: Table) -> Iterator[tuple[Any, ...]]:
    kept = [place for place, column in enumerate(table.columns) if column not in NOTED]
    return (tuple(row[place] for place in kept) for row in rows)


def _differences(table: str, found: Iterator[tuple[Any, ...]], should: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    ends = object()
    while True:
        one, other = next(found, ends), next(should, ends)
        if one is ends and other is ends:
            return
        if one != other:
            yield f"{table} has {_words(one, ends)}, its journal says {_words(other, ends)}"
            return  # those behind it may be moved by one


def _words(row: object, ends: object) -> str:
    return "nothing more" if row is ends else str(row)[:200]


def _other_jobs(journal: Journal, core: Core) -> Iterator[str]:
    """A row of a job that is not over may be older than the job: what passes quickly does not touch it."""
    with journal.catalogue() as connection:
        rows = {row[0]: row for row in rows_of(connection, tables.jobs)}
        left = {f"j{number}": f"{work} {state}" for number, _, work, state, _ in rows_of(connection, tables.past)}
    columns = [column.name for column in tables.jobs.columns]
    left = {name: what for name, what in left.items() if name not in core.state.jobs}
    if Counter(left.values()) != core.state.past.counts:
        yield f"jobs that have left are {Counter(left.values())}, its journal says {core.state.past.counts}"
        return
    strange = sorted(rows.keys() ^ (core.state.jobs.keys() | left.keys()))
    if strange:
        yield f"its table of jobs has others than its journal: {strange[:DIFFERENCES]}"
        return
    for name, row in ((name, row) for name, row in rows.items() if name not in left):
        told, job = dict(zip(columns, row, strict=True)), core.state.jobs[name]
        should = {"number": job.number, "name": job.spec.name, "work": str(job.spec.work), "priority": job.priority}
        if job.state.final:
            should |= {"state": str(job.state), "ended_at": job.ended_at}
        if any(told[column] != value for column, value in should.items()):
            yield f"{name} is {told}, its journal says {should}"


def _astray(journal: Journal) -> Iterator[str]:
    """Jobs that would not be found in segments; what segments hold was read by now."""
    with journal.catalogue() as connection:
        yield from segments.faults(connection)


@contextmanager
def _taken(directory: StateDir) -> Iterator[None]:
    """No controller begins meanwhile. Where there was no folder, there is none after a failure."""
    was_there = directory.path.exists()
    directory.take(to_restore=True)
    try:
        yield
    except BaseException:
        if not was_there:
            with suppress(OSError):  # artifacts that have come stay
                (directory.path / "lock").unlink()
                directory.path.rmdir()
        raise
    finally:
        directory.release()


@contextmanager
def _scratch() -> Iterator[StateDir]:
    """A folder for temporary files, which goes in any case. Raises `StoreFull` where they cannot be written."""
    try:
        with tempfile.TemporaryDirectory(prefix="hostler-verify-") as folder:
            yield StateDir(Path(folder))
    except OSError as error:
        raise StoreFull(
            f"a backup is unpacked to be proved, which cannot be done in {tempfile.gettempdir()}: "
            f"{error.strerror or error}; make room there, or name another folder in TMPDIR"
        ) from error


@contextmanager
def _staging(directory: StateDir) -> Iterator[StateDir]:
    """A folder in which everything is made, and nobody takes it for a state directory's; it goes in any case."""
    folder = directory.restoring
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
        yield StateDir(folder)
    except OSError as error:
        raise StoreFull(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _publish(place: StateDir, directory: StateDir) -> None:
    """Move all of it to where it belongs, the journal last: there is none before everything is there, or nothing is."""
    _sync(place.path / FILE)
    moved = list[Path]()
    try:
        for path in sorted(_files(place.path.rglob("*")), key=lambda each: each.name == FILE):
            target = directory.path / path.relative_to(place.path)
            target.parent.mkdir(mode=0o700, exist_ok=True)
            path.replace(target)
            moved.append(target)
            _sync(target.parent)
    except BaseException:
        for target in moved:
            with suppress(OSError):  # what is wrong is told by the first error
                target.unlink()
        raise


def _files(paths: Iterable[Path]) -> list[Path]:
    return [path for path in paths if path.is_file()]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
