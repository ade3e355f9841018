"""What one append writes: its rows, and the statements that write them, behind the fence.

On PostgreSQL that is one statement, and so a transaction where it stands alone: one wait, and no leader that stands
still holds its row open.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import Connection, Dialect, Table

from hostler.model.codec import dump_event
from hostler.model.events import ChunkDone, ChunkReturned, ChunkTaken, Entry, RequestAccepted, job_of, subject
from hostler.model.past import PastJob
from hostler.model.views import JobView
from hostler.store import leading, past, tables
from hostler.store.checking import checksum
from hostler.store.dialect import POSTGRESQL, ROWS, insert_rows, insertion, refuse_nul
from hostler.store.leading import Fence

Rows: TypeAlias = Mapping[str, list[dict[str, Any]]]
"""By table; none is empty."""

TABLES: Mapping[str, Table] = {
    each.name: each for each in (tables.journal, tables.jobs, tables.hits, tables.requests, tables.past)
}
REPLACED = (tables.jobs.name, tables.past.name)
"""What is known of a job takes the place of what was."""


def rows_of(
    entries: Sequence[Entry], jobs: Sequence[JobView], left: Sequence[PastJob], epoch: int | None
) -> dict[str, list[dict[str, Any]]]:
    """The rows of entries, and of jobs as they are after them; of several views of one job the last counts."""
    rows = {
        tables.journal.name: [entry_row(entry, epoch) for entry in entries],
        tables.jobs.name: [job_row(job) for job in {job.id: job for job in jobs}.values()],
        tables.hits.name: [row for entry in entries for row in _hits(entry)],
        tables.requests.name: [{"seq": entry.seq} for entry in entries if isinstance(entry.event, RequestAccepted)],
        tables.past.name: [past.row_of(job) for job in {job.number: job for job in left}.values()],
    }
    return {name: some for name, some in rows.items() if some}


def is_one_statement(rows: Rows) -> bool:
    """Whether `write` needs but one, where the database takes as many: larger ones would take too long."""
    return all(len(some) <= ROWS for some in rows.values())


def write(connection: Connection, rows: Rows, fence: Fence | None) -> None:
    """Write rows if the fence lets them through. Raises `StoreFenced` where it does not, and has written none then."""
    if connection.dialect.name == POSTGRESQL and is_one_statement(rows):
        _write_at_once(connection, rows, fence)
        return
    if fence is not None:
        leading.hold_row(connection, fence)
    for name, some in rows.items():
        insert_rows(connection, TABLES[name], some, replacing=name in REPLACED)


def _write_at_once(connection: Connection, rows: Rows, fence: Fence | None) -> None:
    condition, wanted = leading.in_sql(fence)
    statement = _statement(condition, tuple(rows), connection.dialect)
    given = [json.dumps(some) for some in rows.values()]
    for each in given:
        refuse_nul(each)
    if connection.exec_driver_sql(statement, (*wanted, *given)).scalar_one():
        return
    assert fence is not None
    raise leading.refusal(connection, fence)


@cache
def _statement(condition: str, names: tuple[str, ...], of: Dialect) -> str:
    """Each insert takes its rows only beside the one that shows that the leader's row is held."""
    parts = [f"held as ({condition})"]
    for name in names:
        insert = insertion(TABLES[name], of, replacing=name in REPLACED, beside="held")
        parts.append(f"of_{name} as ({insert})")
    return f"with {', '.join(parts)} select count(*) from held"  # noqa: S608 - names of our own


def entry_row(entry: Entry, epoch: int | None) -> dict[str, Any]:
    """An entry as a row of the journal."""
    job, data = subject(entry.event), dump_event(entry.event)
    found = checksum(entry.seq, float(entry.at), job, epoch, data.encode())
    return {"seq": entry.seq, "at": entry.at, "job": job, "data": data, "epoch": epoch, "checksum": found}


def job_row(job: JobView) -> dict[str, Any]:
    """A job as a row of its projection."""
    return {
        "id": job.id,
        "number": int(job.id[1:]),
        "name": job.name,
        "work": job.work,
        "state": job.state,
        "priority": job.priority,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
        "ended_at": job.ended_at,
        "attempts": job.attempts,
        "why": job.why,
    }


def _hits(entry: Entry) -> Iterator[dict[str, Any]]:
    if not isinstance(entry.event, ChunkDone | ChunkReturned | ChunkTaken):
        return
    for place, hit in enumerate(entry.event.hits):
        yield {
            "seq": entry.seq,
            "place": place,
            "job": job_of(entry.event.chunk),
            "item": str(hit["at"]),
            "data": json.dumps(hit),
        }
