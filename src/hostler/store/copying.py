"""All rows of a journal and its projections as members of an archive, and back, in whichever database.

They are taken in one transaction that only reads: one point of the journal, with the projections that go with it, and
the writer does not wait. Snapshots are left out: they say nothing that the journal does not.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Connection, LargeBinary, MetaData, Table, insert, inspect, select
from sqlalchemy.exc import DBAPIError

from hostler.model.errors import CorruptState, NotFound
from hostler.model.events import Entry
from hostler.model.record import record
from hostler.store import checking, segments
from hostler.store.archive import Archive, ArchiveWriter
from hostler.store.dialect import FILE, Place, engine_of, folder_of, named, reading_once, translated
from hostler.store.opening import schema_of

ROWS = 10_000
"""Rows of a member; they are in memory at once."""
LARGE_ROWS = 100
"""The same of tables with bytes, whose rows are larger."""
LEFT_OUT = frozenset({"snapshots", "alembic_version"})
LEVEL = 1


@record
class Copied:
    """What was taken."""

    schema: str
    """The migration that the tables are of."""
    seq: int
    """The newest entry."""
    at: float | None
    """When that happened; `None` of an empty journal."""
    epoch: int
    """The newest controller's."""
    rows: dict[str, int]
    """By table."""


def copy_out(place: Place, archive: ArchiveWriter) -> Copied:
    """Add the journal of a store, whoever writes it meanwhile. Raises `NotFound`, `StoreError`."""
    if isinstance(place, Path) and not (place / FILE).exists():
        raise NotFound(f"there is no journal in {place}; name the state directory of a controller (--state-dir)")
    engine = engine_of(place)
    try:
        with reading_once(engine) as connection:
            return _copy_all(connection, archive, named(place))
    except DBAPIError as error:
        raise translated(error, f"the journal of {named(place)} cannot be read", folder_of(engine)) from error
    finally:
        engine.dispose()


def copy_in(archive: Archive, place: Place) -> None:
    """Make the journal that an archive holds in an empty folder or database, with the tables it had.

    Raises `SchemaMismatch` for one of a newer Hostler, `CorruptState` where rows do not fit, `StoreError`.
    """
    path, schema = named(place), str(archive.manifest["schema"])
    engine = engine_of(place)
    try:
        with engine.begin() as connection:
            # Imported where it is needed: alembic takes longer to load than everything else here.
            from hostler.store.migrating import migrate, refuse_unknown

            refuse_unknown(schema, path)
            migrate(connection, None, path, schema)
            made = {table.name: table for table in _tables(connection)}
            told = archive.manifest["rows"]
            if made.keys() != told.keys():
                raise CorruptState(f"schema {schema} has the tables {sorted(made)}, the backup has {sorted(told)}")
            for table in made.values():
                _fill(connection, table, archive)
    except DBAPIError as error:
        raise translated(error, f"the journal {path} cannot be made", folder_of(engine)) from error
    finally:
        engine.dispose()


def check(archive: Archive) -> None:
    """Load every entry that an archive holds: a backup of a journal that does not load would be of no use.

    Raises `DamagedEntry` for an entry, `CorruptState` for a segment or a member.
    """
    after = 0
    for table in ("segments", "journal"):
        for name in archive.names(f"tables/{table}/"):
            columns, *rows = _unpacked(name, archive.read(name))
            for values in rows:
                row = dict(zip(columns, values, strict=True))
                for entry in _entries(table, row):
                    if entry.seq != after + 1:
                        raise checking.damaged(after + 1, f"there is none, and entry {entry.seq} comes next")
                    after = entry.seq
    told = archive.manifest["journal"]["seq"]
    if after != told:
        raise CorruptState(f"the backup ends at entry {after}, and was to end at {told}")


def _entries(table: str, row: dict[str, Any]) -> Iterator[Entry]:
    if table == "journal":
        yield checking.entry_of(SimpleNamespace(**row))
        return
    content = segments.Content(segments.Segment(**{**row, "data": base64.b64decode(row["data"])}))
    yield from map(checking.entry_of, content.rows())


def rows_of(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    """All rows of a table, in order of its primary key."""
    query = select(table).order_by(*table.primary_key.columns)
    for row in connection.execute(query, execution_options={"yield_per": rows_at_once(table)}):
        yield tuple(row)


def rows_at_once(table: Table) -> int:
    """How many rows of a table may be in memory."""
    return LARGE_ROWS if _bytes_of(table) else ROWS


def _copy_all(connection: Connection, archive: ArchiveWriter, name: str) -> Copied:
    schema = schema_of(connection)
    if schema is None:
        raise NotFound(f"the journal {name} is empty; there is nothing to back up")
    rows, last = {}, {}
    for table in _tables(connection):
        rows[table.name], last[table.name] = _copy(connection, table, archive)
    controller, (seq, at) = last["controllers"], _end(last)
    return Copied(
        schema=schema,
        seq=seq,
        at=at,
        epoch=0 if controller is None else int(controller["epoch"]),
        rows=rows,
    )


def _end(last: Mapping[str, dict[str, Any] | None]) -> tuple[int, float | None]:
    """The newest entry and its time, be it a row or in a segment; older schemas have none of these."""
    if (entry := last["journal"]) is not None:
        return int(entry["seq"]), float(entry["at"])
    if (segment := last.get("segments")) is not None:
        return int(segment["last"]), float(segment["last_at"])
    return 0, None


def _tables(connection: Connection) -> list[Table]:
    """As they are in this very database, which may be an older version's."""
    names = sorted(set(inspect(connection).get_table_names()) - LEFT_OUT)
    found = MetaData()
    return [Table(name, found, autoload_with=connection) for name in names]


def _copy(connection: Connection, table: Table, archive: ArchiveWriter) -> tuple[int, dict[str, Any] | None]:
    """How many rows there were, and the last one."""
    columns, count, some = (
        [column.name for column in table.columns],
        0,
        [_line(column.name for column in table.columns)],
    )
    row: tuple[Any, ...] | None = None
    size = rows_at_once(table)
    for row in rows_of(connection, table):
        some.append(_line(row))
        count += 1
        if count % size == 0:
            archive.add(_member(table.name, count // size - 1), _packed(some))
            some = [_line(columns)]
    if len(some) > 1:
        archive.add(_member(table.name, count // size), _packed(some))
    return count, None if row is None else dict(zip(columns, row, strict=True))


def _fill(connection: Connection, table: Table, archive: Archive) -> None:
    count = 0
    for name in archive.names(f"tables/{table.name}/"):
        columns, *rows = _unpacked(name, archive.read(name))
        if set(columns) != {column.name for column in table.columns}:
            raise CorruptState(f"{name} of the backup has other columns than its schema: {columns}")
        connection.execute(insert(table), [_row(columns, row, _bytes_of(table), name) for row in rows])
        count += len(rows)
    told = archive.manifest["rows"][table.name]
    if count != told:
        raise CorruptState(f"the backup has {count} rows of {table.name}, and its manifest says {told}")


def _bytes_of(table: Table) -> frozenset[str]:
    """Columns of bytes."""
    return frozenset(column.name for column in table.columns if isinstance(column.type, LargeBinary))


def _row(columns: Sequence[str], values: Sequence[Any], in_bytes: frozenset[str], name: str) -> dict[str, Any]:
    row = dict(zip(columns, values, strict=True))
    try:
        return {**row, **{column: base64.b64decode(row[column], validate=True) for column in in_bytes}}
    except (ValueError, TypeError) as error:
        raise CorruptState(f"{name} of the backup cannot be understood: {error}") from error


def _member(table: str, number: int) -> str:
    return f"tables/{table}/{number:06}.jsonl.gz"


def _line(values: Any) -> str:
    return json.dumps(list(values), separators=(",", ":"), default=_in_base64)


def _in_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _unpacked(name: str, data: bytes) -> list[Any]:
    try:
        return [json.loads(line) for line in gzip.decompress(data).splitlines()] or [[]]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise CorruptState(f"{name} of the backup cannot be understood: {error}") from error


def _packed(lines: list[str]) -> bytes:
    return gzip.compress("\n".join(lines).encode(), LEVEL, mtime=0)
