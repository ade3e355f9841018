"""The journal: append facts, read them back, keep snapshots beside them. One writer; every call here blocks.

Old entries are in segments (`store.segments`); whoever reads does not know the difference.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate
from typing import Any

from sqlalchemy import Connection, Engine, delete, func, select
from sqlalchemy.exc import DBAPIError, TimeoutError as PoolTimeout

from hostler.model.codec import dump_event
from hostler.model.errors import CorruptState, DamagedEntry, StoreBusy, StoreFenced, StoreForked, StoreRefused
from hostler.model.events import Entry
from hostler.model.past import PastJob
from hostler.model.record import record
from hostler.model.rules import CompactRules
from hostler.model.usage import HourRow
from hostler.model.views import HitView, JobView
from hostler.store import appending, catalogue, checking, compacting, leading, repairing, segments, tables, usage
from hostler.store.checking import ADVICE, entry_of
from hostler.store.dialect import POSTGRESQL, RefusedText, folder_of, table_bytes, translated, upsert
from hostler.store.leading import Claim, Fence, Leader

SNAPSHOTS_KEPT = 2
UNDECODABLE = "Could not decode"
"""What SQLite's driver says of a text that is not UTF-8."""
PAGE = 10_000
HITS_BYTES = 8 << 20
"""Hits that are read at once, as JSON: calls of functions may each have a hit of megabytes."""


@record
class Batch:
    """What one step of the core wants durable: its entries, and the jobs as they are after the last of them."""

    entries: Sequence[Entry]
    jobs: Sequence[JobView]
    left: Sequence[PastJob] = ()
    """Jobs that have left the state."""
    hours: Sequence[HourRow] = ()
    """How devices were used in hours that are over."""


@record
class Snapshot:
    """A state as bytes, after entry `seq`."""

    seq: int
    at: float
    data: bytes


@record
class Sizes:
    """How much there is of the journal."""

    rows: int
    """Entries that are rows,"""
    row_bytes: int | None
    """and what they take on the disk, with their indexes; `None`: this database does not say."""
    packed: segments.Sums
    """What is in segments,"""
    packed_disk_bytes: int | None
    """and what they take on the disk, with what finds jobs in them."""


class Journal:
    """The store of one controller. Errors of the database come as `StoreError` and its kinds.

    Once an epoch was begun, nothing is written after a newer one has begun: `StoreFenced`. Without one (tools, on a
    store that nobody leads) nothing is asked.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._alone = engine.execution_options(isolation_level="AUTOCOMMIT")
        """The same connections; each statement is a transaction."""
        self._lock = threading.Lock()
        """Facts are written by one thread, marks by another: one after the other, whatever the database does."""
        self._is_closed = False
        self._held: Connection | None = None
        self._holding = threading.Lock()
        self._epoch: int | None = None
        self._controller = ""
        """Who has begun that."""
        self._newest: int | None = None
        """The last entry that was written here."""
        self._in_doubt = False
        """Whether the last append may have been written although nobody said so."""

    @property
    def shared(self) -> bool:
        """Whether other controllers can come to this journal: then its leader has to show that it lives."""
        return self._engine.dialect.name == POSTGRESQL

    def begin_epoch(self, at: float, claim: Claim, skipping: int = 0, seen: Leader | None = None) -> int:
        """Note that a controller starts, and give it its number: one more than any before, or so many more.

        From then on it leads, and what was leading may write no more. With `seen` only if nothing was heard since of
        the one that led then; raises `StoreBusy` otherwise.
        """
        with self._writing("the store cannot be led") as connection:
            epoch = leading.take(connection, claim, at, skipping, seen)
        self._epoch, self._controller = epoch, claim.controller
        return epoch

    def leader(self) -> Leader:
        """Who may write; epoch 0 where nobody has begun yet."""
        with self._reading() as connection:
            return leading.leader(connection)

    def hold(self) -> None:
        """Keep a connection open by which others see that the leader is connected; a new one, where there was one."""
        if not self._holding.acquire(blocking=False):
            return  # another thread is at it
        try:
            self._let_go()
            with self._translating("the lead cannot be held"):
                self._held = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
                leading.hold(self._held, self._leading)
            if self._is_closed:
                self._let_go()
        finally:
            self._holding.release()

    def is_held(self, epoch: int) -> bool:
        """Whether the controller of this epoch keeps such a connection, as far as the database knows."""
        with self._reading() as connection:
            return leading.is_held(connection, epoch)

    def renew(self) -> None:
        """Show that the leader lives, though it has nothing to write.

        Raises `StoreFenced` where it leads no more, or what it has written is not there any more.
        """
        fence = Fence(self._leading, self._controller, None if self._in_doubt else self._newest)
        with self._telling_of_loss(), self._writing("the lead cannot be renewed", at_once=True) as connection:
            leading.hold_row(connection, fence)

    def answer_at(self, url: str) -> None:
        """Say where the leader answers."""
        with self._writing("the leader's address cannot be written") as connection:
            leading.answer_at(connection, self._leading, url)

    def give_up(self) -> None:
        """Let others take over at once; nothing is written here after that."""
        with self._writing("the lead cannot be given up") as connection:
            leading.give_up(connection, self._leading)

    def note_lost(self) -> None:
        """Have whoever leads next know that the journal has lost entries: nodes may know of what was in them."""
        with self._writing("that entries are lost cannot be noted", at_once=True) as connection:
            leading.note_lost(connection)

    def left_out(self) -> None:
        """The numbers that may have been in lost entries are given to nothing any more."""
        with self._writing("what is left out cannot be noted", at_once=True) as connection:
            leading.left_out(connection, self._leading)

    def arrive(self, identity: str) -> None:
        """This is where a journal was taken to: it may be led here, and keeps its identity."""
        with self._writing("the journal cannot be taken up here") as connection:
            leading.arrive(connection, identity)

    def stay(self) -> None:
        """What was begun by a claim with `moved_to` came to nothing: the journal may be led here again."""
        with self._writing("the journal cannot be taken up here again") as connection:
            leading.arrive(connection, None)

    def identity(self, own: str) -> str:
        """What tells this journal from every other one; `own` from now on, where nothing was noted yet."""
        with self._writing("the store cannot be told from others") as connection:
            return leading.identity(connection, own)

    def append(self, batches: Sequence[Batch]) -> None:
        """Make batches durable, in order, in one transaction: journal and projections, or nothing.

        After an error in which the answer was lost they may be there already: the same batches, given again, are then
        written once. That they are there does not say that nobody has taken over since: it goes through the fence too.
        """
        entries = [entry for batch in batches for entry in batch.entries]
        last = entries[-1].seq if entries else self._newest
        if self._in_doubt and entries and self._are_there(entries):
            batches, entries = (), []
        self._in_doubt = True
        with self._telling_of_loss():
            self._append(batches, entries)
        self._in_doubt = False
        self._newest = last

    def _append(self, batches: Sequence[Batch], entries: Sequence[Entry]) -> None:
        jobs = [job for batch in batches for job in batch.jobs]
        left = [job for batch in batches for job in batch.left]
        hours = [row for batch in batches for row in batch.hours]
        rows = appending.rows_of(entries, jobs, left, self._epoch)
        is_all = not hours and not catalogue.says_something(entries)
        at_once = is_all and appending.is_one_statement(rows)
        with self._writing("the journal cannot be written", at_once=at_once) as connection:
            appending.write(connection, rows, self._fence(entries[0].seq - 1 if entries else None))
            catalogue.note(connection, entries)
            usage.write(connection, hours)

    def read(self, after: int = 0, limit: int | None = None) -> Iterator[Entry]:
        """Entries beyond number `after`, in order. Raises `CorruptState` at a gap."""
        expected = after + 1
        for entry in self._pages(after, limit):
            if entry.seq != expected:
                raise DamagedEntry(
                    f"the journal has a gap: entry {entry.seq} stands where {expected} should. {ADVICE}", expected
                )
            expected += 1
            yield entry

    def story(self, job: str) -> list[Entry]:
        """The entries of one job."""
        table = tables.journal
        query = select(table).where(table.c.job == job).order_by(table.c.seq)
        with self._reading() as connection:
            rows = {row.seq: row for row in connection.execute(query)}
            # Looked at last: what has left the rows meanwhile is here, at worst twice.
            old = {row.seq: row for row in segments.of_job(connection, job)}
        return [entry_of(row) for _, row in sorted({**rows, **old}.items())]

    def hits(self, job: str, after: int, limit: int) -> list[HitView]:
        """Accepted hits of a sweep in order of acceptance, beyond the first `after`: fewer than `limit`, but at least
        one, where they are larger than `HITS_BYTES` together."""
        table = tables.hits
        asked = select(table.c.data).where(table.c.job == job).order_by(table.c.seq, table.c.place).offset(after)
        with self._reading() as connection:
            sizes = connection.execute(asked.with_only_columns(func.length(table.c.data)).limit(limit)).scalars()
            fitting = sum(size <= HITS_BYTES for size in accumulate(sizes))
            rows = connection.execute(asked.limit(min(max(fitting, 1), limit)))
            found = [json.loads(row.data) for row in rows]
        return [HitView(job=job, at=hit["at"], data=hit) for hit in found]

    def requests(self, before: int | None, limit: int) -> list[Entry]:
        """What was asked for (`RequestAccepted`), newest first, before entry number `before`."""
        table, asked = tables.journal, tables.requests
        columns = [column for column in table.columns if column is not table.c.seq]
        query = select(asked.c.seq, *columns).outerjoin(table, asked.c.seq == table.c.seq)
        if before is not None:
            query = query.where(asked.c.seq < before)
        with self._reading() as connection:
            rows = connection.execute(query.order_by(asked.c.seq.desc()).limit(limit)).all()
            old = segments.at(connection, [row.seq for row in rows if row.data is None])
        missing = [row.seq for row in rows if row.data is None and row.seq not in old]
        if missing:
            raise CorruptState(f"entries {missing[:5]} say what was asked for, and the journal does not have them")
        return [entry_of(old.get(row.seq, row)) for row in rows]

    @contextmanager
    def catalogue(self) -> Iterator[Connection]:
        """To ask what is known of artifacts, by the functions of `store.catalogue`."""
        with self._reading() as connection:
            yield connection

    @contextmanager
    def marking(self) -> Iterator[Connection]:
        """To write marks of the catalogue that no fact says (`store.settling`), while no fact is written."""
        with self._writing("what lacks copies cannot be marked") as connection:
            self._hold_row(connection)
            yield connection

    def newest_seq(self) -> int:
        """The number of the last entry; 0 in an empty journal."""
        with self._reading() as connection:
            newest = connection.execute(select(func.max(tables.journal.c.seq))).scalar()
            return newest or segments.last_seq(connection)

    def compact(self, rules: CompactRules, now: float) -> segments.Segment | None:
        """Put the oldest entries into a segment, if enough of them may go: a step, for which no append waits long.

        `None`: nothing was to be done. Raises `StoreFenced` where another leads by now, `CorruptState` where entries
        are missing or would not come back as they are; nothing has changed then.
        """
        with self._reading() as connection:
            step = compacting.next_step(connection, rules, now)
        if step is None:
            return None
        with self._writing("the journal cannot be compacted") as connection:
            self._hold_row(connection)
            compacting.replace(connection, step)
        return step.segment

    def sizes(self) -> Sizes:
        """How much there is."""
        table = tables.journal
        with self._reading() as connection:
            first, newest = connection.execute(select(func.min(table.c.seq), func.max(table.c.seq))).one()
            return Sizes(
                rows=0 if first is None else newest - first + 1,
                row_bytes=table_bytes(connection, tables.journal),
                packed=segments.sums(connection),
                packed_disk_bytes=table_bytes(connection, tables.segments, tables.segment_jobs),
            )

    def snapshots(self) -> Iterator[Snapshot]:
        """The snapshots to start from, newest first; the last one is what a repair has made, if there was one."""
        with self._reading() as connection:
            base = connection.execute(select(tables.bases).order_by(tables.bases.c.seq.desc())).first()
            for row in connection.execute(select(tables.snapshots).order_by(tables.snapshots.c.seq.desc())):
                if base is None or row.seq > base.seq:
                    yield Snapshot(seq=row.seq, at=row.at, data=row.data)
            if base is not None:
                yield Snapshot(seq=base.seq, at=base.at, data=base.data)

    def base(self) -> int | None:
        """The entry up to which a repair has made the state; `None`: the journal was never repaired."""
        with self._reading() as connection:
            seq: int | None = connection.execute(select(func.max(tables.bases.c.seq))).scalar()
            return seq

    def faults(self, *, load: bool = True) -> Iterator[checking.Fault]:
        """Entries that cannot be used, in order; without `load`, those whose checksum is another one."""
        with self._reading() as connection:
            yield from checking.faults(connection, load=load)

    def check(self, after: int) -> tuple[checking.Fault | None, int | None]:
        """The first of the next rows whose checksum is another one; and the last row looked at, `None` at the end."""
        with self._reading() as connection:
            return checking.check(connection, after)

    def survey(self, after: int = 0) -> Iterator[Entry | checking.Fault]:
        """Every entry beyond number `after`, in order, or what is wrong with it. Raises `CorruptState`."""
        with self._reading() as connection:
            yield from checking.survey(connection, after)

    def repair(self, lost: Sequence[tuple[checking.Fault, Entry]], base: Snapshot, jobs: Sequence[JobView]) -> None:
        """Put other entries in the places of damaged ones, and continue from this state: all of it, or nothing."""
        row = {"seq": base.seq, "at": base.at, "data": base.data}
        with self._writing("the journal cannot be repaired") as connection:
            self._hold_row(connection)
            repairing.replace(connection, lost)
            repairing.keep(connection, row, jobs)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keep a snapshot, and drop all but the newest few. Entries stay, be it in segments."""
        row = {"seq": snapshot.seq, "at": snapshot.at, "data": snapshot.data}
        table = tables.snapshots
        with self._writing("the snapshot cannot be written") as connection:
            upsert(connection, table, [row])
            kept = select(table.c.seq).order_by(table.c.seq.desc()).limit(SNAPSHOTS_KEPT).scalar_subquery()
            connection.execute(delete(table).where(table.c.seq.not_in(kept)))

    def told(self) -> dict[str, int]:
        """By target of alerts: up to which entry it has been told."""
        with self._reading() as connection:
            return {row.target: row.through for row in connection.execute(select(tables.told))}

    def note_told(self, through: Mapping[str, int]) -> None:
        """Keep that for these targets, and forget others."""
        table = tables.told
        with self._writing("how far alerts have been told cannot be noted") as connection:
            self._hold_row(connection)
            connection.execute(delete(table).where(table.c.target.not_in(list(through))))
            if through:
                upsert(connection, table, [{"target": target, "through": seq} for target, seq in through.items()])

    def close(self) -> None:
        """Let go of the database; a thread that still reads lets go of its connection at the end of that."""
        self._is_closed = True
        self._let_go()
        self._engine.dispose()

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held.invalidate()
            held.close()

    @property
    def _leading(self) -> int:
        assert self._epoch is not None, "no epoch was begun"
        return self._epoch

    def _fence(self, after: int | None = None) -> Fence | None:
        return None if self._epoch is None else Fence(self._epoch, self._controller, after)

    def _hold_row(self, connection: Connection) -> None:
        """For what is not only written but looked at before."""
        if (fence := self._fence()) is not None:
            leading.hold_row(connection, fence)

    @contextmanager
    def _telling_of_loss(self) -> Iterator[None]:
        try:
            yield
        except StoreForked:
            self.note_lost()  # where that does not work it is found, and told, with the next try
            raise

    def _are_there(self, entries: Sequence[Entry]) -> bool:
        """Whether these entries were written after all, by this controller. Raises `CorruptState`, `StoreFenced`."""
        table, last = tables.journal, entries[-1]
        with self._reading() as connection:
            row = connection.execute(select(table).where(table.c.seq == last.seq)).one_or_none()
            found: Any = row or segments.at(connection, [last.seq]).get(last.seq)
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
        left = limit
        # A database that takes over from another one is a new connection: what comes over this one is of one history.
        with self._reading() as connection:
            while left is None or left > 0:
                rows = _readable_page(connection, after, PAGE if left is None else min(PAGE, left))
                if not rows:
                    return
                yield from map(entry_of, rows)
                after = rows[-1].seq
                left = None if left is None else left - len(rows)

    @contextmanager
    def _writing(self, what: str, *, at_once: bool = False) -> Iterator[Connection]:
        """A transaction; `at_once`: of one statement, for which PostgreSQL need not be told when it begins and ends."""
        try:
            with self._translating(what), self._lock, self._begun(at_once and self.shared) as connection:
                yield connection
        except (RefusedText, UnicodeError, OverflowError) as error:  # drivers raise them before a database is asked
            raise StoreRefused(f"{what}: {error}. Another try cannot help; report this message") from error

    def _begun(self, alone: bool) -> AbstractContextManager[Connection]:
        return self._alone.connect() if alone else self._engine.begin()

    @contextmanager
    def _translating(self, what: str) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise translated(error, what, folder_of(self._engine)) from error
        except PoolTimeout as error:
            raise StoreBusy(
                f"{what}: all connections to the database are in use, and none came free in time"
            ) from error

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        # Outside a transaction of ours: a reader of the write-ahead log never stands in the writer's way.
        with (
            self._translating(f"the journal {self._engine.url.database} cannot be read"),
            self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        ):
            yield connection
            if self._is_closed:
                connection.invalidate()  # it would go back to a pool that nobody empties any more


def _readable_page(connection: Connection, after: int, size: int) -> Sequence[Any]:
    """The same as `_page`; a row that the driver cannot read is named."""
    try:
        return _page(connection, after, size)
    except DBAPIError as error:
        if UNDECODABLE not in str(error.orig):
            raise
        fault = next(checking.faults(connection, after), None)
        if fault is None:
            raise
        raise checking.damaged(fault.seq, fault.what) from error


def _page(connection: Connection, after: int, size: int) -> Sequence[Any]:
    """The entries after number `after`, in order, as many as come together; none: there are no more."""
    table = tables.journal
    query = select(table).order_by(table.c.seq)
    # Numbers have no gaps: none of these means that they are in a segment, or not there yet. In this order: entries
    # that leave the rows while somebody looks have been seen, or are in a segment by then.
    rows = connection.execute(query.where(table.c.seq.between(after + 1, after + size))).all()
    if rows and rows[0].seq == after + 1:
        return rows
    content = segments.covering(connection, after + 1)
    if content is not None:
        return content.rows(after, size)
    rows = connection.execute(query.where(table.c.seq > after).limit(size)).all()
    if not rows and segments.last_seq(connection) > after:
        content = segments.covering(connection, after + 1)  # it may have come while we looked
        if content is None:
            raise DamagedEntry(
                f"the journal has a gap: there is no entry {after + 1}, and there are later ones. {ADVICE}", after + 1
            )
        return content.rows(after, size)
    return rows
