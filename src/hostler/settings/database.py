"""The database that the journal is kept in, as a fleet file names it."""

from __future__ import annotations

from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator

from hostler.model.errors import UsageError

SCHEMES = ("postgresql+psycopg", "postgresql", "postgres")


def _database(value: str) -> str:
    """An address that names a database and holds no password."""
    try:
        parts = urlsplit(value)
        password = parts.password
    except ValueError as error:
        raise ValueError(f"is no address ({error})") from error
    if parts.scheme not in SCHEMES:
        raise ValueError("is no address of PostgreSQL; write postgresql+psycopg://USER@HOST/NAME?sslmode=verify-full")
    if password is not None or "password=" in parts.query:
        raise ValueError("holds a password; put it into ~/.pgpass, PGPASSFILE or PGPASSWORD")
    if not parts.path.strip("/"):
        raise ValueError("names no database; write postgresql+psycopg://USER@HOST/NAME")
    return value


def checked_address(value: str) -> str:
    """An address from a command line; raises `UsageError`."""
    try:
        return _database(value)
    except ValueError as error:
        raise UsageError(f"--to {value.partition('@')[2] or value!r} {error}") from error


DatabaseAddress: TypeAlias = Annotated[str, AfterValidator(_database)]
