"""Jobs that have left the controller's state: one row each, written once, beside the entry that says so.

Rows are only added (and replaced where a job came back and left again), so that PostgreSQL has nothing to vacuum here.
What the columns do not say is compressed: ten million jobs are a few gigabytes.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import Column, Connection, func, select, text

from hostler.model.errors import CorruptState
from hostler.model.past import PastJob
from hostler.model.work import JOB_ID, JobState, WorkKind
from hostler.store import tables

KNOWN = (
    b'"sweep":{"job":"j","ledger":{"start":0,"stop":,"done":[[0,]],"free":[],"leased":{}},"leases":{},"workers":['
    b'"chunks":1,"chunks_done":1,"served_s":,"hits":0,"hours":{},"strikes":{},"struck":{},"in_a_row":{},"silent":{},'
    b'"barred":{},"given_up":null,"progressed_at":17'
    b'"payload":{"kind":"sweep","schema":1,"worker":["params":{"digest":"kernel":"min_chunk":1,"max_chunk":null,"max_hits":'
    b'{"job":{"id":"j","number":,"spec":{"name":"","payload":{"kind":"script","schema":1,"argv":["python3","],"env":{},'
    b'"cwd":null,"files":null,"outputs":[],"require_result":false},"key":"","resources":{"device":"any","vram_gb":0.0,'
    b'"memory_gb":null,"gpus":1,"shards":false,"shared":false,"cpus":0.0,"tiers":[],"cpu_too":false,"disk_gb":null},'
    b'"priority":0,"after":[],"retry":{"max_attempts":{},"backoff_s":1.0,"backoff_max_s":300.0},"walltime_s":null,'
    b'"grace_s":10.0,"work_as":null,"config":null,"expected_s":{},"checkpoints":false,"batch":null},"priority":0,'
    b'"submitted_at":17,"after":[],"state":"done","not_before":0.0,"attempts":1,"attempt":null,"last_device":"/gpu0",'
    b'"failures":{},"avoid":{},"vram_above":null,"vram_until":0.0,"batch_scale":1.0,"cancelling":null,"wanted":null,'
    b'"why":null,"failure":null,"started_at":17,"ended_at":17,"result":null,"files":[],"progress":0.0,"cut_off":0,'
    b'"preempted":0,"in_vain":[]},"sweep":null}'
)
"""What most rows say, so that each need not. It can never change: rows that were written with it are read with it."""
RARE_STATE, RARE_WORK = "state <> 'done'", "work <> 'script'"
LEVEL = 6
ASKED = 500
"""Names in one question."""


def row_of(job: PastJob) -> dict[str, Any]:
    """A job as a row of the table."""
    return {
        "number": job.number,
        "key": job.key,
        "work": str(job.work),
        "state": str(job.state),
        "data": packed(job.data),
    }


def find(connection: Connection, names: Collection[str]) -> list[PastJob]:
    """The jobs of these ids or keys that have left, or had once."""
    table = tables.past
    numbers = [int(name[1:]) for name in names if JOB_ID.fullmatch(name) and len(name) < 20]
    keys = [name for name in names if not JOB_ID.fullmatch(name)]
    found: list[PastJob] = []
    columns: tuple[tuple[Column[Any], list[Any]], ...] = ((table.c.number, numbers), (table.c.key, keys))
    for column, wanted in columns:
        for first in range(0, len(wanted), ASKED):
            some = wanted[first : first + ASKED]
            found += [_job(row) for row in connection.execute(select(table).where(column.in_(some)))]
    return found


def texts(connection: Connection, ids: Collection[str]) -> dict[str, str]:
    """What is kept of the jobs of these ids that have left, or had once, by id: `PastJob.data` without the rest."""
    table = tables.past
    numbers = [int(name[1:]) for name in ids]
    found: dict[str, str] = {}
    for first in range(0, len(numbers), ASKED):
        query = select(table.c.number, table.c.data).where(table.c.number.in_(numbers[first : first + ASKED]))
        found |= {f"j{number}": unpacked(data) for number, data in connection.execute(query)}
    return found


def page(
    connection: Connection,
    states: Collection[JobState] | None,
    after: int,
    limit: int,
    work: WorkKind | None = None,
) -> list[PastJob]:
    """Jobs in order of submission beyond number `after`; `None`: of all states."""
    # One question for each state: each is a walk along an index, however rare the state is.
    wanted: Collection[JobState | None] = [None] if states is None else sorted(states)
    found = [job for state in wanted for job in _walk(connection, after, limit, state, work)]
    return sorted(found, key=lambda job: job.number)[:limit]


def counts(connection: Connection) -> dict[str, int]:
    """How many rows there are, by work kind and state."""
    table = tables.past
    query = select(table.c.work, table.c.state, func.count()).group_by(table.c.work, table.c.state)
    return {f"{work} {state}": count for work, state, count in connection.execute(query)}


def _walk(
    connection: Connection, after: int, limit: int, state: JobState | None, work: WorkKind | None
) -> Iterator[PastJob]:
    table = tables.past
    query = select(table).where(table.c.number > after).order_by(table.c.number).limit(limit)
    # Said as the indexes say it: SQLite takes them for nothing else.
    if state is not None:
        query = query.where(table.c.state == str(state))
        query = query if state is JobState.DONE else query.where(text(RARE_STATE))
    if work is not None:
        query = query.where(table.c.work == str(work))
        query = query if work is WorkKind.SCRIPT else query.where(text(RARE_WORK))
    return (_job(row) for row in connection.execute(query))


def _job(row: Any) -> PastJob:
    return PastJob(
        id=f"j{row.number}",
        number=row.number,
        key=row.key,
        work=WorkKind(row.work),
        state=JobState(row.state),
        data=unpacked(row.data),
    )


def packed(said: str) -> str:
    """A text as it is kept: deflated, as ASCII, which every copy and backup of a database takes as it is."""
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -15, zdict=KNOWN)
    return base64.b64encode(deflate.compress(said.encode()) + deflate.flush()).decode()


def unpacked(kept: str) -> str:
    """What `packed` was given. Raises `CorruptState`."""
    inflate = zlib.decompressobj(-15, zdict=KNOWN)
    try:
        said = (inflate.decompress(base64.b64decode(kept, validate=True)) + inflate.flush()).decode()
    except (ValueError, zlib.error) as error:
        raise _damaged(kept, str(error)) from error
    if not inflate.eof:
        raise _damaged(kept, "its end is missing")
    return said


def _damaged(kept: str, why: str) -> CorruptState:
    return CorruptState(f"what is kept of a job that has left is damaged ({why}): {kept[:60]!r}")
