"""Which entries of the journal go into a segment next, and the step that puts them there: both, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, delete, func, select

from hostler.model.errors import CorruptState
from hostler.model.record import record
from hostler.model.rules import CompactRules
from hostler.store import segments, tables
from hostler.store.checking import expect_sums
from hostler.store.segments import Row, Segment

ENTRIES = 2_000
"""Entries of a segment. Packed they are hardly smaller in more of them, and the writer waits for each step."""
BYTES = 4 << 20
"""A segment ends with the entry that makes it longer than that."""
READ = 200
"""Rows that are read at once: each may be a megabyte."""


@record
class Step:
    """What one step puts into a segment."""

    segment: Segment
    rows: Sequence[Row]


def next_step(connection: Connection, rules: CompactRules, now: float) -> Step | None:
    """The oldest entries, packed, if enough of them may go. Only reads.

    They may go that every snapshot covers, so that no start needs them, and that are old enough; the newest stay.
    Raises `CorruptState` where entries are missing.
    """
    table = tables.journal
    first, newest = connection.execute(select(func.min(table.c.seq), func.max(table.c.seq))).one()
    covered = _covered(connection)
    if first is None or covered is None:
        return None
    last = first + ENTRIES - 1
    if last > min(covered, newest - rules.keep_entries):
        return None
    at = connection.execute(select(table.c.at).where(table.c.seq == last)).scalar()
    if at is None or at > now - rules.after_s:
        return None
    _expect_joined(connection, first)
    rows = list(_oldest(connection, first, last))
    return Step(segment=segments.pack(rows), rows=rows)


def replace(connection: Connection, step: Step) -> None:
    """Write the segment, and delete the rows that are in it. Raises `CorruptState` where they are there no more."""
    segment, table = step.segment, tables.journal
    covered = _covered(connection)
    if covered is None or covered < segment.last:
        raise CorruptState(f"entries up to {segment.last} were to be compacted, and snapshots cover {covered} only")
    segments.write(connection, segment, step.rows)
    gone = connection.execute(delete(table).where(table.c.seq.between(segment.first, segment.last))).rowcount
    if gone != segment.entries:
        raise CorruptState(f"{segment.shown} has {segment.entries}, and the journal had {gone}; nothing was compacted")


def _covered(connection: Connection) -> int | None:
    """Up to which entry all snapshots know: also a start from the oldest one needs none before it."""
    return connection.execute(select(func.min(tables.snapshots.c.seq))).scalar()


def _expect_joined(connection: Connection, first: int) -> None:
    last = segments.last_seq(connection)
    if last != first - 1:
        raise CorruptState(f"segments end with entry {last}, and the journal's rows begin with {first}")


def _oldest(connection: Connection, first: int, last: int) -> Iterator[Row]:
    table, size, expected = tables.journal, 0, first
    query = select(*(table.c[name] for name in Row._fields), table.c.checksum).order_by(table.c.seq)
    while expected <= last and size <= BYTES:
        end = min(expected + READ - 1, last)
        for found in connection.execute(query.where(table.c.seq.between(expected, end))).all():
            if found.seq != expected or size > BYTES:
                break
            expect_sums([found])  # a segment has a hash of its own, under which damage would look sound
            yield Row(*found[:-1])
            expected, size = expected + 1, size + len(found.data)
        if expected <= end and size <= BYTES:
            raise CorruptState(f"the journal has a gap: there is no entry {expected}, and nothing was compacted")
