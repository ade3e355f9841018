"""Writing what a repair has found: damaged rows are set aside and replaced, and the state to continue from is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, delete, insert, select

from hostler.model.events import Entry
from hostler.model.views import JobView
from hostler.store import segments, tables
from hostler.store.appending import entry_row, job_row
from hostler.store.checking import Fault
from hostler.store.dialect import upsert


def replace(connection: Connection, lost: Sequence[tuple[Fault, Entry]]) -> None:
    """Set rows aside, and put other entries into their places, each of the time and epoch of the one before it."""
    table = tables.journal
    for fault, entry in lost:
        upsert(connection, tables.set_aside, [{"seq": fault.seq, "why": fault.what, "data": fault.data}])
        connection.execute(delete(table).where(table.c.seq == fault.seq))
        at, epoch = _before(connection, fault.seq)
        connection.execute(
            insert(table), entry_row(dataclasses.replace(entry, at=entry.at if at is None else at), epoch)
        )


def keep(connection: Connection, base: Mapping[str, object], jobs: Sequence[JobView]) -> None:
    """Make a state the one to start from, and the projection of jobs agree with it."""
    connection.execute(delete(tables.bases))
    connection.execute(delete(tables.snapshots))
    connection.execute(insert(tables.bases), dict(base))
    connection.execute(insert(tables.snapshots), dict(base))
    left = {f"j{number}" for number in connection.execute(select(tables.past.c.number)).scalars()}
    known = left | {job.id for job in jobs}
    for name in set(connection.execute(select(tables.jobs.c.id)).scalars()) - known:
        connection.execute(delete(tables.jobs).where(tables.jobs.c.id == name))
    if jobs:
        upsert(connection, tables.jobs, [job_row(job) for job in jobs])


def _before(connection: Connection, seq: int) -> tuple[float | None, int | None]:
    """The time and the epoch of the entry before this one: neither ever falls."""
    table = tables.journal
    found = connection.execute(select(table.c.at, table.c.epoch).where(table.c.seq == seq - 1)).one_or_none()
    row = found or segments.at(connection, [seq - 1]).get(seq - 1)
    return (None, None) if row is None else (row.at, row.epoch)
