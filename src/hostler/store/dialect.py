"""Everything that is one database's own. Nothing outside this file knows which one it talks to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Executable, Table, create_engine, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from hostler.model.errors import StoreBusy, StoreError, StoreFull

PRAGMAS = (
    "pragma journal_mode = wal",
    # Commands act on the world once their events are committed; a commit must therefore survive a power cut.
    "pragma synchronous = full",
    "pragma busy_timeout = 10000",
    "pragma foreign_keys = on",
)


def sqlite_engine(path: Path) -> Engine:
    """An engine on a SQLite file: write-ahead log, transactions that lock when they begin."""
    engine = create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False, "isolation_level": None})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin_immediate)
    return engine


@contextmanager
def reading_once(engine: Engine) -> Iterator[Connection]:
    """One transaction that only reads: all of it sees the same point, and the writer does not wait for it."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("begin deferred")
        try:
            yield connection
        finally:
            connection.exec_driver_sql("rollback")


def upsert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows, or replace those with the same primary key."""
    connection.execute(_upsert_into(table, connection.dialect.name), rows)


def ignore_known(connection: Connection, table: Table) -> Executable:
    """The statement that inserts rows, but for those whose primary key is there."""
    return _ignore_known_in(table, connection.dialect.name)


def translated(error: DBAPIError, what: str) -> StoreError:
    """A database's own error as one of ours, saying what to do."""
    text = str(error.orig)
    if "full" in text or "No space" in text:
        return StoreFull(f"{what}: the disk is full. Free some space; nothing that was confirmed is lost")
    if "readonly" in text or "read-only" in text or "unable to open" in text:
        return StoreFull(f"{what}: it cannot be written ({text}). Make its directory writable for this user")
    if "locked" in text:
        return StoreBusy(f"{what}: another program holds it ({text}). Stop that program")
    if "malformed" in text or "not a database" in text:
        return StoreError(f"{what}: the file is damaged ({text}). Restore it from a copy")
    return StoreError(f"{what}: {text}")


@cache
def _upsert_into(table: Table, dialect: str) -> Executable:
    """The statement is the same every time, and making it costs more than a batch of rows."""
    insert = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
    keys = [column.name for column in table.primary_key]
    changed = {column.name: insert.excluded[column.name] for column in table.columns if column.name not in keys}
    return insert.on_conflict_do_update(index_elements=keys, set_=changed)


@cache
def _ignore_known_in(table: Table, dialect: str) -> Executable:
    insert = (postgresql.insert if dialect == "postgresql" else sqlite.insert)(table)
    return insert.on_conflict_do_nothing()


def _prepare(connection: Any, _record: Any) -> None:
    cursor = connection.cursor()
    for pragma in PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin_immediate(connection: Connection) -> None:
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        return  # it is told of these too, and a reader that begins so keeps the writer out
    # SQLite's own BEGIN takes the lock only at the first write, and then fails at once if another has it.
    connection.exec_driver_sql("begin immediate")
