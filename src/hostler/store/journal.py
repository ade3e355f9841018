"""The journal: append facts, read them back, keep snapshots beside them. One writer; every call here blocks."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError

from hostler.model.codec import dump_event, load_event
from hostler.model.errors import CorruptState, StoreFenced
from hostler.model.events import ChunkDone, ChunkReturned, ChunkTaken, Entry, RequestAccepted, job_of, subject
from hostler.model.past import PastJob
from hostler.model.record import record
from hostler.model.views import HitView, JobView
from hostler.store import catalogue, past, tables
from hostler.store.dialect import translated, upsert

SNAPSHOTS_KEPT = 2
LEADER = 1
"""The only row of its table."""
PAGE = 10_000


@record
class Batch:
    """What one step of the core wants durable: its entries, and the jobs as they are after the last of them."""

    entries: Sequence[Entry]
    jobs: Sequence[JobView]
    left: Sequence[PastJob] = ()
    """Jobs that have left the state."""


@record
class Snapshot:
    """A state as bytes, after entry `seq`."""

    seq: int
    at: float
    data: bytes


class Leader(NamedTuple):
    """The controller that may write: its epoch, how often it has shown that it lives, who and where it is."""

    epoch: int
    beat: int
    holder: str
    url: str | None


class Journal:
    """The store of one controller. Errors of the database come as `StoreError` and its kinds.

    Once an epoch was begun, nothing is written after a newer one has begun: `StoreFenced`. Without one (tools, on a
    store that nobody leads) nothing is asked.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        """Facts are written by one thread, marks by another: one after the other, whatever the database does."""
        self._epoch: int | None = None
        self._in_doubt = False
        """Whether the last append may have been written although nobody said so."""

    def begin_epoch(self, at: float, version: str, skipping: int = 0, holder: str = "", url: str | None = None) -> int:
        """Note that a controller starts, and give it its number: one more than any before, or so many more.

        From then on it leads, and what was leading may write no more. `holder` and `url` are for people.
        """
        with self._writing("the store cannot be opened") as connection:
            upsert(connection, tables.leader, [{"id": LEADER, "epoch": 0, "beat": 0, "holder": holder, "url": url}])
            newest = connection.execute(select(func.max(tables.controllers.c.epoch))).scalar()
            epoch = (newest or 0) + skipping + 1
            connection.execute(insert(tables.controllers), {"epoch": epoch, "started_at": at, "version": version})
            connection.execute(update(tables.leader).values(epoch=epoch))
        self._epoch = epoch
        return epoch

    def leader(self) -> Leader:
        """Who may write; epoch 0 where nobody has begun yet."""
        with self._reading() as connection:
            row = connection.execute(select(tables.leader)).one_or_none()
        return Leader(0, 0, "", None) if row is None else Leader(row.epoch, row.beat, row.holder, row.url)

    def append(self, batches: Sequence[Batch]) -> None:
        """Make batches durable, in order, in one transaction: journal and projections, or nothing.

        After an error in which the answer was lost they may be there already: the same batches, given again, are then
        written once.
        """
        entries = [entry for batch in batches for entry in batch.entries]
        if self._in_doubt and entries and self._are_there(entries):
            self._in_doubt = False
            return
        self._in_doubt = True
        self._append(batches, entries)
        self._in_doubt = False

    def _append(self, batches: Sequence[Batch], entries: Sequence[Entry]) -> None:
        newest = {job.id: job for batch in batches for job in batch.jobs}
        hit_rows = [row for entry in entries for row in _hit_rows(entry)]
        asked = [{"seq": entry.seq} for entry in entries if isinstance(entry.event, RequestAccepted)]
        with self._writing("the journal cannot be written") as connection:
            self._fence(connection)
            if entries:
                connection.execute(insert(tables.journal), [_journal_row(entry, self._epoch) for entry in entries])
            if newest:
                upsert(connection, tables.jobs, [_job_row(job) for job in newest.values()])
            if hit_rows:
                connection.execute(insert(tables.hits), hit_rows)
            if asked:
                connection.execute(insert(tables.requests), asked)
            catalogue.note(connection, entries)
            past.write(connection, [job for batch in batches for job in batch.left])

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        """Entries beyond number `after`, in order. Raises `CorruptState` at a gap."""
        expected = after + 1
        for entry in self._pages(after, limit):
            if entry.seq != expected:
                raise CorruptState(f"the journal has a gap: entry {entry.seq} stands where {expected} should")
            expected += 1
            yield entry

    def story(self, job: str) -> list[Entry]:
        """The entries of one job."""
        table = tables.journal
        query = select(table.c.seq, table.c.at, table.c.data).where(table.c.job == job).order_by(table.c.seq)
        with self._reading() as connection:
            return [_entry(row) for row in connection.execute(query)]

    def hits(self, job: str, after: int, limit: int) -> list[HitView]:
        """Accepted hits of a sweep in order of acceptance, beyond the first `after`."""
        table = tables.hits
        query = select(table.c.data).where(table.c.job == job).order_by(table.c.seq, table.c.place)
        with self._reading() as connection:
            found = [json.loads(row.data) for row in connection.execute(query.offset(after).limit(limit))]
        return [HitView(job=job, at=hit["at"], data=hit) for hit in found]

    def requests(self, before: int | None, limit: int) -> list[Entry]:
        """What was asked for (`RequestAccepted`), newest first, before entry number `before`."""
        table, asked = tables.journal, tables.requests
        query = select(table.c.seq, table.c.at, table.c.data).join(asked, asked.c.seq == table.c.seq)
        if before is not None:
            query = query.where(asked.c.seq < before)
        with self._reading() as connection:
            return [_entry(row) for row in connection.execute(query.order_by(asked.c.seq.desc()).limit(limit))]

    @contextmanager
    def catalogue(self) -> Iterator[Connection]:
        """To ask what is known of artifacts, by the functions of `store.catalogue`."""
        with self._reading() as connection:
            yield connection

    @contextmanager
    def marking(self) -> Iterator[Connection]:
        """To write marks of the catalogue that no fact says (`store.settling`), while no fact is written."""
        with self._writing("what lacks copies cannot be marked") as connection:
            self._fence(connection)
            yield connection

    def newest_seq(self) -> int:
        """The number of the last entry; 0 in an empty journal."""
        with self._reading() as connection:
            return connection.execute(select(func.max(tables.journal.c.seq))).scalar() or 0

    def snapshots(self) -> Iterator[Snapshot]:
        """The snapshots to start from, newest first."""
        table = tables.snapshots
        with self._reading() as connection:
            for row in connection.execute(select(table).order_by(table.c.seq.desc())):
                yield Snapshot(seq=row.seq, at=row.at, data=row.data)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and drop all but the newest few. The journal itself stays whole."""
        row = {"seq": snapshot.seq, "at": snapshot.at, "data": snapshot.data}
        table = tables.snapshots
        with self._writing("the snapshot cannot be written") as connection:
            upsert(connection, table, [row])
            kept = select(table.c.seq).order_by(table.c.seq.desc()).limit(SNAPSHOTS_KEPT).scalar_subquery()
            connection.execute(delete(table).where(table.c.seq.not_in(kept)))

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def _fence(self, connection: Connection) -> None:
        """Hold the leader's row until the end of this transaction; raise `StoreFenced` where it is another's."""
        if self._epoch is None:
            return
        table = tables.leader
        # An update, not a look: whoever takes over waits for what is being written, or this waits and is refused.
        kept = connection.execute(
            update(table).where(table.c.id == LEADER, table.c.epoch == self._epoch).values(beat=table.c.beat + 1)
        )
        if kept.rowcount != 1:
            newest = connection.execute(select(table.c.epoch)).scalar()
            raise StoreFenced(
                f"controller {self._epoch} leads no more: {newest} has taken over. What it had not written is not done"
            )

    def _are_there(self, entries: Sequence[Entry]) -> bool:
        """Whether these entries were written after all, by this controller. Raises `CorruptState`, `StoreFenced`."""
        table, last = tables.journal, entries[-1]
        with self._reading() as connection:
            found = connection.execute(select(table).where(table.c.seq == last.seq)).one_or_none()
        if found is None:
            return False
        if found.epoch != self._epoch:
            raise StoreFenced(
                f"entry {last.seq} is of controller {found.epoch} and not of {self._epoch}: that one leads"
            )
        if (found.at, found.data) != (last.at, dump_event(last.event)):
            raise CorruptState(f"entry {last.seq} is in the journal, and is another one")
        return True

    def _pages(self, after: int, limit: int | None) -> Iterator[Entry]:
        table = tables.journal
        query = select(table.c.seq, table.c.at, table.c.data).order_by(table.c.seq)
        left = limit
        while left is None or left > 0:
            size = PAGE if left is None else min(PAGE, left)
            with self._reading() as connection:
                rows = connection.execute(query.where(table.c.seq > after).limit(size)).all()
            yield from (_entry(row) for row in rows)
            if len(rows) < size:
                return
            after = rows[-1].seq
            left = None if left is None else left - len(rows)

    @contextmanager
    def _writing(self, what: str) -> Iterator[Connection]:
        try:
            with self._lock, self._engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise translated(error, what) from error

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        # Outside a transaction of ours: a reader of the write-ahead log never stands in the writer's way.
        try:
            with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
                yield connection
        except DBAPIError as error:
            raise translated(error, f"the journal {self._engine.url.database} cannot be read") from error


def _journal_row(entry: Entry, epoch: int | None) -> dict[str, Any]:
    event = entry.event
    return {"seq": entry.seq, "at": entry.at, "job": subject(event), "data": dump_event(event), "epoch": epoch}


def _entry(row: Any) -> Entry:
    return Entry(seq=row.seq, at=row.at, event=load_event(row.data))


def _job_row(job: JobView) -> dict[str, Any]:
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


def _hit_rows(entry: Entry) -> Iterator[dict[str, Any]]:
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
