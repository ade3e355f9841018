"""Taking a journal from one database to another: all of it, proved row by row, or nothing.

What is in the target is read back before it counts, and compared by its hashes; whoever wrote the source may write it
no more, from the moment its rows are read.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, func, insert, select
from sqlalchemy.exc import DBAPIError

from hostler.model.errors import Conflict, CorruptState
from hostler.model.record import record
from hostler.store import leading, segments
from hostler.store.copying import rows_at_once, rows_of
from hostler.store.dialect import FILE, Place, engine_of, folder_of, named, patiently, reading_once, translated
from hostler.store.leading import Claim
from hostler.store.opening import SCHEMA, open_journal, schema_of
from hostler.store.tables import metadata


@record
class Moved:
    """What was taken: rows by table, and the hash of each table's rows in the order of their keys."""

    rows: dict[str, int]
    sha256: dict[str, str]
    seq: int
    """The newest entry of the journal."""


def move(source: Place, target: Place, at: float, version: str) -> Moved:
    """Take the journal to an empty folder or database; the source is brought to this version's tables first.

    `at` is the time now, `version` ours: a controller of the source is fenced under that name. Raises `NotFound` where
    there is no journal, `Conflict` where the target has one, `CorruptState` where something else was read back than was
    written, `StoreError`.
    """
    journal = open_journal(source)
    try:
        # Whoever stands by would lead here again as soon as nothing is heard of us.
        journal.begin_epoch(at, Claim(version, holder="moving", moved_to=named(target)))
        try:
            with _made(target) as place, _reading(source) as theirs, _writing(place) as ours:
                moved = _copy_all(theirs, ours)
                leading.arrive(ours, None)
                return moved
        except BaseException:
            journal.stay()
            raise
    finally:
        journal.close()


@contextmanager
def _made(target: Place) -> Iterator[Place]:
    """Where the target is made; a file has its name only when it is whole."""
    if not isinstance(target, Path):
        yield target
        return
    if (target / FILE).exists():
        raise Conflict(f"there is a journal in {target / FILE} already; move it away, or name another place")
    draft = target / f".moving-{os.getpid()}"
    draft.mkdir()
    try:
        yield draft
        (draft / FILE).replace(target / FILE)
    finally:
        for path in draft.iterdir():
            path.unlink()
        draft.rmdir()


@contextmanager
def _reading(place: Place) -> Iterator[Connection]:
    engine = engine_of(place)
    try:
        with reading_once(engine) as connection:
            yield connection
    except DBAPIError as error:
        raise translated(error, f"the store {named(place)} cannot be read", folder_of(engine)) from error
    finally:
        engine.dispose()


@contextmanager
def _writing(place: Place) -> Iterator[Connection]:
    """One transaction that makes the tables and fills them."""
    engine = engine_of(place)
    try:
        with engine.begin() as connection:
            patiently(connection)
            if schema_of(connection) is not None:
                raise Conflict(f"there is a journal in {named(place)} already; name an empty database")
            # Imported where it is needed: alembic takes longer to load than everything else here.
            from hostler.store.migrating import migrate

            migrate(connection, None, named(place))
            yield connection
    except DBAPIError as error:
        raise translated(error, f"the store {named(place)} cannot be made", folder_of(engine)) from error
    finally:
        engine.dispose()


def _copy_all(theirs: Connection, ours: Connection) -> Moved:
    found = schema_of(theirs)
    assert found == SCHEMA, found  # it was opened
    rows, hashes = {}, {}
    for table in metadata.sorted_tables:
        rows[table.name], hashes[table.name] = _copy(theirs, ours, table)
        back = _hashed(rows_of(ours, table))
        if back != (rows[table.name], hashes[table.name]):
            raise CorruptState(
                f"of table {table.name} {back[0]} rows were read back and {rows[table.name]} were written, or they are "
                "other ones; nothing was taken over"
            )
    newest = ours.execute(select(func.max(metadata.tables["journal"].c.seq))).scalar()
    return Moved(rows=rows, sha256=hashes, seq=newest or segments.last_seq(ours))


def _copy(theirs: Connection, ours: Connection, table: Table) -> tuple[int, str]:
    hashed, names = _Hashed(), [column.name for column in table.columns]
    rows = hashed.through(rows_of(theirs, table))
    while some := list(islice(rows, rows_at_once(table))):
        ours.execute(insert(table), [dict(zip(names, row, strict=True)) for row in some])
    return hashed.count, hashed.hexdigest()


def _hashed(rows: Iterator[tuple[Any, ...]]) -> tuple[int, str]:
    hashed = _Hashed()
    for _ in hashed.through(rows):
        pass
    return hashed.count, hashed.hexdigest()


class _Hashed:
    """The hash of rows, whichever database they come from."""

    def __init__(self) -> None:
        self.count = 0
        self._made = hashlib.sha256()

    def through(self, rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The rows, hashed as they pass."""
        for row in rows:
            self._made.update(json.dumps([_plain(value) for value in row]).encode() + b"\n")
            self.count += 1
            yield row

    def hexdigest(self) -> str:
        """Of all that passed."""
        return self._made.hexdigest()


def _plain(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value
