"""Checksums of the journal's rows, and the search for rows that are damaged.

A row has the CRC-32 of its content. Rows that an older version wrote have none, and are believed where they load.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, LargeBinary, cast, select

from hostler.model.codec import load_event
from hostler.model.errors import CorruptState, DamagedEntry
from hostler.model.events import Entry
from hostler.model.record import record
from hostler.store import segments, tables
from hostler.store.dialect import POSTGRESQL

PAGE, MANY = 1_000, 10_000
"""Rows that are read at once: as events, and for their checksums."""
ADVICE = "Run `hostler journal repair`, which copies the journal first"
SHOWN = 300


@record
class Fault:
    """An entry that cannot be used."""

    seq: int
    what: str
    data: bytes | None
    """What stands in its row, as it is; `None`: there is no row."""


def checksum(seq: int, at: float, job: str | None, epoch: int | None, data: bytes) -> int:
    """The checksum of a row."""
    return zlib.crc32(data, zlib.crc32(f"{seq} {at.hex()} {job} {epoch} ".encode()))


def entry_of(row: Any) -> Entry:
    """The entry of a row of the journal or of a segment. Raises `DamagedEntry` naming it."""
    fault = None if getattr(row, "checksum", None) is None else _other_sum(row)
    try:
        event = load_event(row.data)
    except CorruptState as error:
        raise damaged(row.seq, f"{error}{'' if fault is None else f'; {fault}'}") from error
    if fault is not None:
        raise damaged(row.seq, fault)
    return Entry(seq=row.seq, at=row.at, event=event)


def expect_sums(rows: list[Any]) -> None:
    """Raise `DamagedEntry` for the first of these rows whose checksum is another one."""
    for row in rows:
        if row.checksum is not None and (fault := _other_sum(row)) is not None:
            raise damaged(row.seq, fault)


def damaged(seq: int, what: str) -> DamagedEntry:
    """The error about an entry, with what to do."""
    return DamagedEntry(f"entry {seq} of the journal is damaged: {what}. {ADVICE}", seq)


def faults(connection: Connection, after: int = 0, *, load: bool = True) -> Iterator[Fault]:
    """Entries beyond number `after` that are rows and cannot be used, in order; missing ones too.

    Without `load` only checksums are compared, and rows are not loaded as events.
    """
    expected = max(after, segments.last_seq(connection)) + 1
    while rows := _raw(connection, expected - 1):
        for row in rows:
            yield from (Fault(seq=seq, what="its row is missing", data=None) for seq in range(expected, row.seq))
            expected = row.seq + 1
            what = _fault(row, load=load)
            if what is not None:
                yield Fault(seq=row.seq, what=what, data=_bytes(row.data))


def check(connection: Connection, after: int) -> tuple[Fault | None, int | None]:
    """The first of the next rows whose checksum is another one, and the last row looked at; `None`: there are no more.

    Numbers that are missing are no faults here: entries go into segments meanwhile.
    """
    rows = _raw(connection, after, MANY)
    for row in rows:
        what = _fault(row, load=False)
        if what is not None:
            return Fault(seq=row.seq, what=what, data=_bytes(row.data)), row.seq
    return None, rows[-1].seq if rows else None


def survey(connection: Connection, after: int = 0) -> Iterator[Entry | Fault]:
    """Every entry beyond number `after`, in order, or what is wrong with it.

    Raises `CorruptState` for a damaged segment: what it holds is one piece.
    """
    for rows in segments.all_rows(connection):
        yield from (entry_of(row) for row in rows if row.seq > after)
    expected = max(after, segments.last_seq(connection)) + 1
    while found := _raw(connection, expected - 1):
        for row in found:
            yield from (Fault(seq=seq, what="its row is missing", data=None) for seq in range(expected, row.seq))
            expected = row.seq + 1
            what = _fault(row, load=True)
            if what is None:
                yield Entry(seq=row.seq, at=float(row.at), event=load_event(_bytes(row.data) or b""))
            else:
                yield Fault(seq=row.seq, what=what, data=_bytes(row.data))


def _fault(row: Any, *, load: bool) -> str | None:
    try:
        at = float(row.at)
        found = checksum(row.seq, at, _text(row.job), row.epoch, _bytes(row.data) or b"")
    except (TypeError, ValueError) as error:
        return f"its columns cannot be understood: {error}"
    if row.checksum is not None and found != row.checksum:
        return "its checksum does not match its content"
    if not load:
        return None
    try:
        load_event(_bytes(row.data) or b"")
    except CorruptState as error:
        return str(error)[:SHOWN]
    return None


def _raw(connection: Connection, after: int, limit: int = PAGE) -> list[Any]:
    """Rows as bytes: a text that is no UTF-8 is found here, and would stop a reader of texts."""
    table = tables.journal
    columns: list[Any] = [table.c.seq, table.c.at, table.c.job, table.c.data, table.c.epoch, table.c.checksum]
    if connection.dialect.name != POSTGRESQL:  # which keeps no text that is not UTF-8
        columns[2:4] = [cast(table.c.job, LargeBinary).label("job"), cast(table.c.data, LargeBinary).label("data")]
    query = select(*columns).where(table.c.seq > after).order_by(table.c.seq).limit(limit)
    return list(connection.execute(query).all())


def _text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else value


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _other_sum(row: Any) -> str | None:
    if checksum(row.seq, row.at, row.job, row.epoch, row.data.encode()) == row.checksum:
        return None
    return "its checksum does not match its content"
