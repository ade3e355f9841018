"""Opening a store: find the file, bring its tables to this version, refuse what a newer version wrote."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from hostler.model.errors import SchemaMismatch
from hostler.store.dialect import sqlite_engine, translated
from hostler.store.journal import Journal

FILE = "journal.sqlite"
MIGRATIONS = Path(__file__).parent / "migrations"


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


def _migrate(engine: Engine, path: Path) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    with engine.begin() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
        if found == script.get_current_head():
            return
        if found is not None and found not in {each.revision for each in script.walk_revisions()}:
            raise SchemaMismatch(
                f"the store {path} has schema {found!r}, which this version of Hostler does not know; "
                "it was written by a newer one. Install that version, or use another state directory"
            )
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
