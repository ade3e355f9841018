"""Bringing the tables of an older store to this version."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from hostler.model.errors import SchemaMismatch

MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(connection: Connection, found: str | None, store: str, to: str = "head") -> None:
    """Run the migrations after schema `found` (`None`: all of them), up to `to`, on that store, in one
    transaction.

    Raises `SchemaMismatch` if this version does not know that schema.
    """
    config = _config()
    if found is not None:
        refuse_unknown(found, store)
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def refuse_unknown(schema: str, store: str) -> None:
    """Raise `SchemaMismatch` if this version does not know a schema."""
    if schema not in known_schemas(_config()):
        raise SchemaMismatch(
            f"the store {store} has schema {schema!r}, which this version of Hostler does not know; "
            "it was written by a newer one. Install that version, or use another state directory"
        )


def known_schemas(config: Config) -> list[str]:
    """Every schema there has been, newest first."""
    return [each.revision for each in ScriptDirectory.from_config(config).walk_revisions()]


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config
