"""Opening a store: find the file, bring its tables to this version, refuse what a newer version wrote."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from hostler.model.errors import NotFound, SchemaMismatch
from hostler.store.dialect import reading_once, sqlite_engine, translated
from hostler.store.journal import Journal

FILE = "journal.sqlite"
SCHEMA = "0005"
"""The newest migration; what this version writes."""


def open_journal(directory: Path) -> Journal:
    """The journal of a state directory, made if there is none.

    Raises `SchemaMismatch` if a newer Hostler wrote it, `StoreFull` if it cannot be written.
    """
    engine = sqlite_engine(directory / FILE)
    try:
        _migrate(engine, directory / FILE)
    except DBAPIError as error:
        raise translated(error, f"the store {directory / FILE} cannot be opened") from error
    except sqlite3.Error as error:
        raise translated(DBAPIError(None, None, error), f"the store {directory / FILE} cannot be opened") from error
    return Journal(engine)


def read_journal(directory: Path) -> Journal:
    """The journal of a state directory, to be read only, whoever writes it meanwhile.

    Raises `NotFound` where there is none, `SchemaMismatch` where another version wrote it.
    """
    path = directory / FILE
    if not path.exists():
        raise NotFound(f"there is no journal in {directory}; name the state directory of a controller (--state-dir)")
    engine = sqlite_engine(path)
    try:
        with reading_once(engine) as connection:
            found = schema_of(connection)
    except DBAPIError as error:
        raise translated(error, f"the store {path} cannot be read") from error
    if found != SCHEMA:
        raise SchemaMismatch(
            f"the store {path} has schema {found!r}, and this version of Hostler reads {SCHEMA!r}; a controller of "
            "this version brings it up to date when it starts"
        )
    return Journal(engine)


def _migrate(engine: Engine, path: Path) -> None:
    with engine.begin() as connection:
        found = schema_of(connection)
        if found == SCHEMA:
            return
        # Imported where it is needed: alembic takes longer to load than a start from a snapshot.
        from hostler.store.migrating import migrate

        migrate(connection, found, path)


def schema_of(connection: Connection) -> str | None:
    """The schema a store was written with; `None` for a new one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.execute(text("select version_num from alembic_version")).scalar()
    return found
