"""huey: on SQLite by its own storage, on PostgreSQL by its SqlHuey (peewee, psycopg). Clients are threads, the consumer
is a process of its own with threads that work.

Its state changes of a job: enqueued, taken (its row is removed before it runs), result stored; what was taken when the
consumer dies is lost. Without a result nothing says that a job was done, so the job returns one. It submits jobs one
at a time only. Its storage for SQLite leaves `synchronous` at the library's default, full, where `fsync` is not given;
here it is given.
"""

import sqlite3
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from clients import WORKER, Asked, asked, submitted_by_threads, tell, through_by_threads, workers
from huey import SqliteHuey  # type: ignore[import-not-found]
from huey.contrib.sql_huey import SqlHuey  # type: ignore[import-not-found]
from peewee import PostgresqlDatabase  # type: ignore[import-not-found]

WORKERS = {"sqlite": 4, "postgresql": 8}
"""Threads that work; more are no faster."""
STATES = 3
BUSY_S = 60
"""How long a client waits for SQLite's lock: by default 5 s, after which a submission fails."""


def main() -> None:
    """Run one case, or the worker of it."""
    what, role = asked(__doc__)
    huey = _huey(what)
    task = huey.task(name="nothing")(_nothing)
    if role == WORKER:
        huey.create_consumer(workers=WORKERS["postgresql" if "://" in what.store else "sqlite"], periodic=False).run()
        return

    def submit(_client: int, count: int) -> None:
        for number in range(count):
            task(number)

    if what.case != "through":
        made = submitted_by_threads(what, submit)
    else:
        with workers():
            made = through_by_threads(what, submit, huey.result_count, 1)
    tell(made.line(version("huey"), states=STATES, sqlite=sqlite3.sqlite_version))


def _nothing(_number: int) -> bool:
    return True


def _huey(what: Asked):
    if "://" not in what.store:
        return SqliteHuey(filename=str(Path(what.store) / "huey.sqlite"), fsync=True, timeout=BUSY_S)
    address = urlsplit(what.store)
    database = PostgresqlDatabase(
        address.path.strip("/"), user=address.username, host=address.hostname, port=address.port
    )
    return SqlHuey(database=database)


if __name__ == "__main__":
    main()
