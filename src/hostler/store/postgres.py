"""Connections to PostgreSQL: time-outs, so that nothing waits for ever, and durability that nobody turned off.

The address is libpq's, as SQLAlchemy writes it; what its query says (`sslmode`, `sslrootcert`, several `host`s,
`target_session_attrs`, `passfile`) reaches libpq as it stands.
"""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import Any

from sqlalchemy import URL, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from hostler.model.errors import StoreError

DRIVER = "postgresql+psycopg"
PLAIN = ("postgresql", "postgres", DRIVER)
POOL = 4
CONNECT_S = 5
RESTED_S = 2.0
USED = "used"
POOL_S = 10.0
STATEMENT_MS, LOCK_MS = 30_000, 10_000
IDLE_MS = 3_000
"""A leader that stands still in the middle of a transaction holds its row: whoever takes over waits for so long."""
SILENT_MS = 15_000
"""A peer that acknowledges nothing for so long is gone, and so is one that keeps silent through its keepalives."""
CONNECTING: dict[str, Any] = {
    "connect_timeout": CONNECT_S,
    "application_name": "hostler",
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": SILENT_MS,
    # Of several hosts the one that takes writes, which after a fail-over is another one.
    "target_session_attrs": "read-write",
}


def parsed(address: str) -> URL:
    """An address of a database, whichever of its usual spellings it has. Raises `StoreError`."""
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise StoreError(f"store: {address.partition('@')[2] or address!r} is no address; {_usual()}") from None
    if url.drivername not in PLAIN:
        raise StoreError(f"store: {url.drivername!r} is no database that Hostler keeps its journal in; {_usual()}")
    if not url.database:
        raise StoreError(f"store: {shown(address)} names no database; {_usual()}")
    return url.set(drivername=DRIVER)


def shown(address: str) -> str:
    """The address without its password, for people."""
    try:
        return make_url(address).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return "the store"


def postgres_engine(address: str) -> Engine:
    """An engine on a database: a few connections; one that has rested is tried before its use. Raises `StoreError`."""
    url = parsed(address)
    given = {name: value for name, value in CONNECTING.items() if name not in url.query}
    given["options"] = " ".join([str(url.query.get("options", "")), *_settings()]).strip()
    try:
        engine = create_engine(
            url,
            connect_args=given,
            pool_size=POOL,
            max_overflow=POOL,
            pool_timeout=POOL_S,
        )
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("psycopg"):
            raise
        raise StoreError("a store in PostgreSQL needs psycopg: pip install 'hostler[postgres]'") from error
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "checkin", _note_use)
    event.listen(engine, "checkout", partial(_try_if_it_rested, engine.dialect))
    return engine


def _settings() -> list[str]:
    timeouts = {
        "statement_timeout": STATEMENT_MS,
        "lock_timeout": LOCK_MS,
        "idle_in_transaction_session_timeout": IDLE_MS,
    }
    return [f"-c {name}={value}" for name, value in timeouts.items()]


def _prepare(connection: Any, _record: Any) -> None:
    """Commands act on the world once their events are committed: a commit waits for the disk, whatever the default."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'"
        )
    connection.commit()


def _note_use(_connection: Any, record: ConnectionPoolEntry) -> None:
    record.info[USED] = monotonic()


def _try_if_it_rested(dialect: Dialect, connection: Any, record: ConnectionPoolEntry, _proxy: Any) -> None:
    """Whether the other side is there still; not asked of a connection that was used a moment ago: it costs a wait."""
    if monotonic() - record.info.get(USED, monotonic()) < RESTED_S:
        return
    assert dialect.loaded_dbapi is not None
    try:
        dialect.do_ping(connection)
    except dialect.loaded_dbapi.Error as error:
        raise DisconnectionError(str(error)) from error  # the pool makes another one then


def _usual() -> str:
    return f"write {DRIVER}://USER@HOST/NAME?sslmode=verify-full"
