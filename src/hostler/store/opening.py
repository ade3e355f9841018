"""Opening a store: find the database, bring its tables to this version, refuse what a newer version wrote."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from hostler.model.errors import NotFound, SchemaMismatch
from hostler.store import leading
from hostler.store.dialect import (
    FILE,
    POSTGRESQL,
    Place,
    engine_of,
    folder_of,
    named,
    patiently,
    reading_once,
    translated,
)
from hostler.store.journal import Journal
from hostler.store.tables import SCHEMA

__all__ = ["FILE", "SCHEMA", "open_journal", "read_journal", "schema_of"]

MIGRATING = 0x686F7374
"""The number of the advisory lock under which one of several controllers brings the tables of a database up to date."""


def open_journal(place: Place) -> Journal:
    """The journal of a state directory or a database, made if there is none.

    Raises `SchemaMismatch` if a newer Hostler wrote it, `StoreFull` if it cannot be written, `StoreError`.
    """
    name = named(place)
    if isinstance(place, Path):
        _make_private(place)
    with _kept(engine_of(place), f"the store {name} cannot be opened") as engine:
        _migrate(engine, name)
        return Journal(engine)


def read_journal(place: Place) -> Journal:
    """The journal of a state directory or a database, to be read only, whoever writes it meanwhile.

    Raises `NotFound` where there is none, `SchemaMismatch` where another version wrote it.
    """
    if isinstance(place, Path) and not (place / FILE).exists():
        raise NotFound(f"there is no journal in {place}; name the state directory of a controller (--state-dir)")
    name = named(place)
    with _kept(engine_of(place), f"the store {name} cannot be read") as engine:
        with reading_once(engine) as connection:
            found = schema_of(connection)
        if found is None and not isinstance(place, Path):
            raise NotFound(f"there is no journal in {name}; a controller makes one when it starts")
        if found != SCHEMA:
            raise SchemaMismatch(
                f"the store {name} has schema {found!r}, and this version of Hostler reads {SCHEMA!r}; a controller "
                "of this version brings it up to date when it starts"
            )
        return Journal(engine)


def _make_private(folder: Path) -> None:
    """Let nobody but its owner read the file, wherever it is copied; SQLite gives its other files the same mode."""
    file = folder / FILE
    with suppress(OSError):  # what is wrong with the folder is told by whoever opens it
        if folder.is_dir() and not file.exists():
            os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        for path in (file, *(folder / f"{FILE}{side}" for side in ("-wal", "-shm"))):
            if path.exists() and path.stat().st_mode & 0o077:
                path.chmod(0o600)


@contextmanager
def _kept(engine: Engine, what: str) -> Iterator[Engine]:
    """The engine, which lets go of the database where something goes wrong; errors of the database as ours."""
    try:
        yield engine
    except DBAPIError as error:
        engine.dispose()
        raise translated(error, what, folder_of(engine)) from error
    except sqlite3.Error as error:
        engine.dispose()
        raise translated(DBAPIError(None, None, error), what, folder_of(engine)) from error
    except BaseException:
        engine.dispose()
        raise


def _migrate(engine: Engine, name: str) -> None:
    with engine.begin() as connection:
        if engine.dialect.name == POSTGRESQL:
            connection.execute(text("select pg_advisory_xact_lock(:number)"), {"number": MIGRATING})
        found = schema_of(connection)
        if found == SCHEMA:
            return
        patiently(connection)
        # Imported where it is needed: alembic takes longer to load than a start from a snapshot.
        from hostler.store.migrating import migrate

        migrate(connection, found, name)
        if found is not None:
            leading.take_away(connection)


def schema_of(connection: Connection) -> str | None:
    """The schema a store was written with; `None` for a new one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("select version_num from alembic_version")).scalar()
    return found
