"""Everything that is one database's own. Nothing outside this file knows which one it talks to.

A store is named by its place: the state directory whose SQLite file it is, or the address of a PostgreSQL database.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import (
    Connection,
    Dialect,
    Engine,
    Executable,
    String,
    Table,
    Text,
    TypeDecorator,
    create_engine,
    event,
    insert,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, DontWrapMixin

from hostler.model.errors import StoreBusy, StoreError, StoreFull, StoreLost, StoreRefused

Place: TypeAlias = Path | str
"""A state directory, or the address of a database, `postgresql+psycopg://USER@HOST/NAME`."""

FILE = "journal.sqlite"
POSTGRESQL = "postgresql"
PRAGMAS = (
    "pragma journal_mode = wal",
    # Commands act on the world once their events are committed; a commit must therefore survive a power cut.
    "pragma synchronous = full",
    "pragma busy_timeout = 10000",
    "pragma foreign_keys = on",
)
NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""That character in JSON, and not the escape of it within a text that is JSON itself."""
SHOWN = 60
ROWS = 1_000
"""Rows in one parameter, which PostgreSQL reads as a whole."""
PATIENT_MS = 600_000
FULL, READ_ONLY, BUSY, LOST, DATA = "full", "read only", "busy", "lost", "data"
KINDS = {
    "53100": FULL,
    "53200": BUSY,  # out of memory
    "53300": LOST,  # too many connections
    "25006": READ_ONLY,
    "25P03": LOST,  # idle_in_transaction_session_timeout: we stood still in the middle
    "40001": BUSY,
    "40P01": BUSY,
    "55P03": BUSY,
    "57014": BUSY,  # statement_timeout
    "57P01": LOST,  # the server is told to end, or it was killed
    "57P02": LOST,
    "57P03": LOST,
    "57P05": LOST,
}
"""What PostgreSQL's codes of errors come to (its manual, appendix A); those of class 08 are lost connections."""

DATA_CLASSES = ("22", "23", "54")
"""Classes of PostgreSQL's codes that are about the data: data exceptions, violated constraints, exceeded limits."""
DATA_ERRORS = ("IntegrityError", "DataError")
"""What both drivers call errors about the data."""
NO_BINDING = "binding parameter"
"""What SQLite's driver says of a value of a type that no column has."""
SQLITE_DATA = ("SQLITE_CONSTRAINT", "SQLITE_MISMATCH", "SQLITE_TOOBIG", "SQLITE_RANGE")
"""The beginnings of the names of SQLite's codes about the data."""
VAGUE = ("disk I/O error", "unable to open")
"""What SQLite says where it finds no room for the files beside a database, too."""
ROOM_BYTES = 128 << 10
"""Those files and some pages take so much."""
UNANSWERED = ("OperationalError", "InterfaceError")
"""What psycopg, which need not be there, calls errors of the connection."""


def engine_of(place: Place) -> Engine:
    """An engine on the database of a place; nothing is asked of it yet."""
    if isinstance(place, Path):
        return sqlite_engine(place / FILE)
    from hostler.store.postgres import postgres_engine

    return postgres_engine(place)


def named(place: Place) -> str:
    """A place as people are told of it, without its password."""
    if isinstance(place, Path):
        return str(place / FILE)
    from hostler.store.postgres import shown

    return shown(place)


def sqlite_engine(path: Path) -> Engine:
    """An engine on a SQLite file: write-ahead log, transactions that lock when they begin."""
    engine = create_engine(f"sqlite:///{path}", connect_args={"check_same_thread": False, "isolation_level": None})
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin_immediate)
    return engine


@contextmanager
def reading_once(engine: Engine) -> Iterator[Connection]:
    """One transaction that only reads: all of it sees the same point, and the writer does not wait for it."""
    if engine.dialect.name == POSTGRESQL:
        options: dict[str, Any] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        with engine.connect().execution_options(**options) as connection, connection.begin():
            patiently(connection)
            yield connection
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("begin deferred")
        try:
            yield connection
        finally:
            connection.exec_driver_sql("rollback")


def patiently(connection: Connection) -> None:
    """This transaction may stand still for longer than those of a leader, for whose row others wait."""
    if connection.dialect.name == POSTGRESQL:
        connection.exec_driver_sql(f"set local idle_in_transaction_session_timeout = {PATIENT_MS}")


class Words(TypeDecorator[str]):
    """A text of a column. One with a NUL character is refused by every database, not by PostgreSQL alone."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Raises `RefusedText`."""
        if value is not None and "\0" in value:
            raise RefusedText(f"a text has a NUL character: {value[:SHOWN]!a}")
        return value


class Name(Words):
    """The same, of texts that are short."""

    impl = String  # type: ignore[assignment]
    cache_ok = True


class RefusedText(ValueError, DontWrapMixin):
    """A text that a store refuses by itself."""


def refuse_nul(rows_as_json: str) -> None:
    """Raise `RefusedText` where one of the texts of rows has a NUL character; PostgreSQL would refuse them all."""
    if NUL.search(rows_as_json):
        raise RefusedText("a text of a row has a NUL character")


def upsert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> None:
    """Insert rows, or replace those with the same primary key."""
    connection.execute(_upsert_into(table, connection.dialect.name), rows)


def insert_rows(
    connection: Connection, table: Table, rows: Sequence[dict[str, Any]], *, replacing: bool = False
) -> None:
    """Insert many rows in few statements; with `replacing`, rows with the same primary key go, and each has its own.

    Rows have all columns of the table, and no bytes.
    """
    if connection.dialect.name != POSTGRESQL:
        connection.execute(_upsert_into(table, connection.dialect.name) if replacing else insert(table), rows)
        return
    # One parameter with all rows: to hand them over one by one takes five times as long, on both sides.
    for at in range(0, len(rows), ROWS):
        statement = insertion(table, connection.dialect, replacing=replacing)
        given = json.dumps(rows[at : at + ROWS])
        refuse_nul(given)
        connection.exec_driver_sql(statement, (given,))


@cache
def insertion(table: Table, of: Dialect, *, replacing: bool, beside: str | None = None) -> str:
    """The statement, in PostgreSQL's own words, that inserts what its one parameter lists.

    With `beside` once for each row of that other part of the statement it is in.
    """
    quoted = {column.name: of.identifier_preparer.format_column(column) for column in table.columns}
    typed = ", ".join(f"{quoted[column.name]} {column.type.compile(of)}" for column in table.columns)
    names = ", ".join(quoted.values())
    source = f"{'' if beside is None else f'{beside}, '}json_to_recordset(%s::json) as given ({typed})"
    keys = [quoted[column.name] for column in table.primary_key]
    changed = ", ".join(f"{name} = excluded.{name}" for name in quoted.values() if name not in keys)
    known = f" on conflict ({', '.join(keys)}) do update set {changed}" if replacing else ""
    return f"insert into {table.name} ({names}) select {names} from {source}{known}"  # noqa: S608 - names of our own


def ignore_known(connection: Connection, table: Table) -> Executable:
    """The statement that inserts rows, but for those whose primary key is there; its `rowcount` says how many."""
    return _ignore_known_in(table, connection.dialect.name)


def table_bytes(connection: Connection, *of: Table) -> int | None:
    """What tables take on the disk, with their indexes; `None`: this database does not say."""
    sizes = [_table_bytes(connection, table.name) for table in of]
    return None if None in sizes else sum(size or 0 for size in sizes)


def translated(error: DBAPIError, what: str, folder: Path | None = None) -> StoreError:
    """A database's own error as one of ours, saying what to do. `folder` is that of its files, if they are here."""
    text, kind = " ".join(str(error.orig).split()), _kind(error)
    if kind == DATA:
        return StoreRefused(
            f"{what}: the database refuses the data ({text}). Another try cannot help: what was to be written is not "
            "written; report this message"
        )
    if kind == FULL or (folder is not None and any(each in text for each in VAGUE) and _has_no_room(folder)):
        return StoreFull(f"{what}: the disk is full. Free some space; nothing that was confirmed is lost")
    if kind == READ_ONLY:
        return StoreFull(f"{what}: it cannot be written ({text}). {_writable(error)}")
    if kind == BUSY:
        return StoreBusy(f"{what}: another program holds it ({text}). Stop that program")
    if kind == LOST:
        return StoreLost(f"{what}: the database does not answer ({text}). It is tried again")
    if "malformed" in text or "not a database" in text:
        return StoreError(f"{what}: the file is damaged ({text}). Restore it from a copy")
    return StoreError(f"{what}: {text}")


def _table_bytes(connection: Connection, table: str) -> int | None:
    if connection.dialect.name == POSTGRESQL:
        asked = text("select pg_total_relation_size(cast(:name as regclass))")
        return int(connection.execute(asked, {"name": table}).scalar_one())
    parts = text("select name from sqlite_schema where tbl_name = :name and rootpage > 0")
    names = connection.execute(parts, {"name": table}).scalars().all()
    # One question for each: of several names at once it reads the whole file.
    asked = text("select pgsize from dbstat where aggregate = 1 and name = :name")
    try:
        return sum(int(connection.execute(asked, {"name": name}).scalar_one()) for name in names)
    except DBAPIError as error:
        if "dbstat" in str(error.orig):
            return None  # this SQLite was built without it
        raise


def _kind(error: DBAPIError) -> str | None:
    """What an error comes to; `None`: nothing that would be answered in a way of its own."""
    code = getattr(error.orig, "sqlstate", None)
    if code is not None:
        if code.startswith(DATA_CLASSES):
            return DATA
        return LOST if code.startswith("08") else KINDS.get(code)
    if _is_about_data(error.orig):
        return DATA
    if error.connection_invalidated or _is_unanswered(error.orig):
        return LOST
    text = str(error.orig)
    if "full" in text or "No space" in text:
        return FULL
    if "readonly" in text or "read-only" in text or "unable to open" in text:
        return READ_ONLY
    if "locked" in text:
        return BUSY
    return None


def _is_about_data(error: BaseException | None) -> bool:
    """Whether an error of a driver without a code of the server is about the values that it was given."""
    name = getattr(error, "sqlite_errorname", None)
    if name is not None:
        return str(name).startswith(SQLITE_DATA)
    kinds = {each.__name__ for each in type(error).__mro__}
    return not kinds.isdisjoint(DATA_ERRORS) or NO_BINDING in str(error)


def _is_unanswered(error: BaseException | None) -> bool:
    """Whether the driver had no answer, or only servers that take no writes: those errors have no code.

    Others without one are about what was asked, which it never sent.
    """
    kinds = {each.__name__ for each in type(error).__mro__ if each.__module__.startswith("psycopg")}
    return not kinds.isdisjoint(UNANSWERED)


def folder_of(engine: Engine) -> Path | None:
    """The folder of a database's files; `None`: a server has them."""
    database = engine.url.database
    return None if engine.dialect.name == POSTGRESQL or database is None else Path(database).parent


def _has_no_room(folder: Path) -> bool:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < ROOM_BYTES or (disk.f_files > 0 and disk.f_favail == 0)


def _writable(error: DBAPIError) -> str:
    if getattr(error.orig, "sqlstate", None) is not None:
        return "It may be a replica: name the primary, or all hosts with target_session_attrs=read-write"
    return "Make its directory writable for this user"


@cache
def _upsert_into(table: Table, dialect: str) -> Executable:
    """The statement is the same every time, and making it costs more than a batch of rows."""
    into = (postgresql.insert if dialect == POSTGRESQL else sqlite.insert)(table)
    keys = [column.name for column in table.primary_key]
    changed = {column.name: into.excluded[column.name] for column in table.columns if column.name not in keys}
    return into.on_conflict_do_update(index_elements=keys, set_=changed)


@cache
def _ignore_known_in(table: Table, dialect: str) -> Executable:
    into = (postgresql.insert if dialect == POSTGRESQL else sqlite.insert)(table)
    # Of inserts the number of rows is kept for whoever asks for it.
    return into.on_conflict_do_nothing().execution_options(preserve_rowcount=True)


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
