"""Old entries of the journal: many in one row, deflated, under their hash, with what finds a job's among them.

A segment holds all that the rows of `journal` had, of one range of numbers. An entry is in the journal's rows or in a
segment, never in both: whoever looks for one looks into the rows first, and it is found wherever it goes meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from bisect import bisect
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, pairwise, repeat
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, insert, select

from hostler.model.errors import CorruptState
from hostler.model.record import record
from hostler.model.work import JOB_ID
from hostler.store import tables

FORMAT = b"hostler-segment-1"
"""What the first line says; another one is another version's."""
LEVEL = 6
MEMBERS = 63
"""Jobs of a block: as many as a signed 64-bit number has bits beside its sign."""
DIGITS_MAX = 18


class Row(NamedTuple):
    """An entry as the journal keeps it."""

    seq: int
    at: float
    job: str | None
    data: str
    epoch: int | None


@record
class Segment:
    """Entries `first` to `last`, packed; the columns of its row."""

    first: int
    last: int
    entries: int
    first_at: float
    last_at: float
    first_epoch: int | None
    last_epoch: int | None
    sha256: str
    """Of the content, in hexadecimal."""
    content_bytes: int
    packed_bytes: int
    data: bytes
    """The content, deflated."""

    @property
    def shown(self) -> str:
        """What it is called in messages."""
        return f"the segment of entries {self.first} to {self.last}"


@record
class Sums:
    """What all segments come to."""

    segments: int
    entries: int
    content_bytes: int
    packed_bytes: int


class Content:
    """What a segment holds, proved by its hash. Raises `CorruptState` naming the segment where it is another one."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        head, *self._lines = _inflated(segment).split(b"\n")
        try:
            told = json.loads(head.removeprefix(FORMAT))
            self._times = _times(told["times"])
            self._epochs = [epoch for epoch, many in told["epochs"] for epoch in repeat(epoch, many)]
            self._first = told["first"]
        except (ValueError, TypeError, KeyError, struct.error) as error:
            raise CorruptState(f"{segment.shown} cannot be understood: {error}") from error
        self._expect(segment)

    @property
    def last(self) -> int:
        """The number of its last entry."""
        return self._segment.last

    def rows(self, after: int = 0, limit: int | None = None) -> list[Row]:
        """Its entries beyond number `after`, in order."""
        begin = max(after + 1 - self._first, 0)
        end = len(self._lines) if limit is None else min(begin + limit, len(self._lines))
        return [self._row(place) for place in range(begin, end)]

    def at(self, seqs: Iterable[int]) -> Iterator[Row]:
        """Entries of these numbers, all of which it has."""
        return (self._row(seq - self._first) for seq in seqs)

    def of_job(self, job: str) -> Iterator[Row]:
        """The entries of one job."""
        begin = job.encode() + b"\t"
        return (self._row(place) for place, line in enumerate(self._lines) if line.startswith(begin))

    def _row(self, place: int) -> Row:
        job, _, data = self._lines[place].partition(b"\t")
        return Row(
            seq=self._first + place,
            at=self._times[place],
            job=job.decode() or None,
            data=data.decode(),
            epoch=self._epochs[place],
        )

    def _expect(self, segment: Segment) -> None:
        """The columns say the same."""
        found = (self._first, len(self._lines), len(self._times), len(self._epochs))
        if found != (segment.first, *repeat(segment.last + 1 - segment.first, 3)) or not self._lines:
            raise CorruptState(f"{segment.shown} holds other entries: {found[1]} from {found[0]} on")
        ends = (self._times[0], self._times[-1], self._epochs[0], self._epochs[-1], len(self._lines))
        told = (segment.first_at, segment.last_at, segment.first_epoch, segment.last_epoch, segment.entries)
        if ends != told:
            raise CorruptState(f"{segment.shown} is said to be of {told}, and is of {ends}")


def pack(rows: Sequence[Row]) -> Segment:
    """The segment of some entries without a gap. Raises `CorruptState` where they would not come back as they are."""
    content = _content(rows)
    data = zlib.compress(content, LEVEL)
    first, last = rows[0], rows[-1]
    segment = Segment(
        first=first.seq,
        last=last.seq,
        entries=len(rows),
        first_at=first.at,
        last_at=last.at,
        first_epoch=first.epoch,
        last_epoch=last.epoch,
        sha256=hashlib.sha256(content).hexdigest(),
        content_bytes=len(content),
        packed_bytes=len(data),
        data=data,
    )
    if Content(segment).rows() != list(rows):
        raise CorruptState(f"entries {first.seq} to {last.seq} would not come back from a segment as they are")
    return segment


def write(connection: Connection, segment: Segment, rows: Iterable[Row]) -> None:
    """Add a segment of these entries, and read it back. Raises `CorruptState` where that is something else."""
    table, index = tables.segments, tables.segment_jobs
    connection.execute(insert(table), {name: getattr(segment, name) for name in _COLUMNS})
    if blocks := _blocks(rows):
        connection.execute(
            insert(index),
            [{"block": block, "first": segment.first, "members": members} for block, members in blocks.items()],
        )
    back = connection.execute(select(table).where(table.c.first == segment.first)).one()
    if _segment(back) != segment:
        raise CorruptState(f"{segment.shown}: what was written is not what is read; nothing was compacted")
    Content(_segment(back))


def covering(connection: Connection, seq: int) -> Content | None:
    """The segment that has the entry of this number."""
    table = tables.segments
    query = select(table).where(table.c.first <= seq).order_by(table.c.first.desc()).limit(1)
    found = connection.execute(query).one_or_none()
    return None if found is None or found.last < seq else Content(_segment(found))


def at(connection: Connection, seqs: Collection[int]) -> dict[int, Row]:
    """Entries of these numbers, of those that segments have."""
    found: dict[int, Row] = {}
    left = sorted(set(seqs))
    while left:
        content = covering(connection, left[0])
        if content is None:
            left = left[1:]
            continue
        there = bisect(left, content.last)
        found |= {row.seq: row for row in content.at(left[:there])}
        left = left[there:]
    return found


def of_job(connection: Connection, job: str) -> Iterator[Row]:
    """The entries of one job that segments have, in order; segments without any are not read."""
    index = tables.segment_jobs
    block, place = divmod(_number(job), MEMBERS)
    has = (index.c.block == block, index.c.members.bitwise_and(1 << place) != 0)
    for first in connection.execute(select(index.c.first).where(*has).order_by(index.c.first)).scalars().all():
        yield from _beginning(connection, first).of_job(job)


def all_rows(connection: Connection) -> Iterator[list[Row]]:
    """The entries of all segments, in order, a segment at a time."""
    for first in _firsts(connection):
        yield _beginning(connection, first).rows()


def last_seq(connection: Connection) -> int:
    """The number of the last entry that is in a segment; 0: none is."""
    return connection.execute(select(func.max(tables.segments.c.last))).scalar() or 0


def sums(connection: Connection) -> Sums:
    """How much there is in segments."""
    table = tables.segments
    names = ("entries", "content_bytes", "packed_bytes")
    summed = [func.coalesce(func.sum(table.c[name]), 0) for name in names]
    many, *found = connection.execute(select(func.count(), *summed).select_from(table)).one()
    return Sums(segments=many, **dict(zip(names, map(int, found), strict=True)))


def faults(connection: Connection) -> Iterator[str]:
    """What is wrong with what finds jobs in segments. Raises `CorruptState` for a segment that is damaged itself."""
    index = tables.segment_jobs
    for first in _firsts(connection):
        query = select(index.c.block, index.c.members).where(index.c.first == first)
        told = {row.block: row.members for row in connection.execute(query)}
        if told != _blocks(_beginning(connection, first).rows()):
            yield f"the jobs in the segment that begins with entry {first} are others than segment_jobs says"
    strange = select(func.count()).where(index.c.first.not_in(select(tables.segments.c.first)))
    if many := connection.execute(strange).scalar():
        yield f"{many} rows of segment_jobs name segments that there are not"


def _firsts(connection: Connection) -> Sequence[int]:
    return connection.execute(select(tables.segments.c.first).order_by(tables.segments.c.first)).scalars().all()


def _beginning(connection: Connection, first: int) -> Content:
    """The segment that begins with this entry. Raises `CorruptState` where there is none."""
    table = tables.segments
    found = connection.execute(select(table).where(table.c.first == first)).one_or_none()
    if found is None:
        raise CorruptState(f"segment_jobs names a segment that begins with entry {first}, and there is none")
    return Content(_segment(found))


_COLUMNS = [column.name for column in tables.segments.columns]


def _segment(row: Any) -> Segment:
    return Segment(**{**row._mapping, "data": bytes(row.data)})


def _content(rows: Sequence[Row]) -> bytes:
    """A line of what the columns have, and a line for each entry: its job, and what it says, as it stands."""
    epochs = [[epoch, len(list(alike))] for epoch, alike in groupby(row.epoch for row in rows)]
    head = {"first": rows[0].seq, "epochs": epochs, "times": _steps([row.at for row in rows])}
    lines = [f"{row.job or ''}\t{row.data}".encode() for row in rows]
    return b"\n".join([FORMAT + json.dumps(head, separators=(",", ":")).encode(), *lines])


def _inflated(segment: Segment) -> bytes:
    # Bounded: a damaged one must not ask for more memory than it was made of.
    inflate = zlib.decompressobj()
    try:
        content = inflate.decompress(segment.data, segment.content_bytes + 1)
    except zlib.error as error:
        raise _damaged(segment, str(error)) from error
    if not inflate.eof or inflate.unused_data:
        raise _damaged(segment, "it ends elsewhere than it should")
    if hashlib.sha256(content).hexdigest() != segment.sha256:
        raise _damaged(segment, "its hash is another one")
    if not content.startswith(FORMAT + b"{"):
        raise CorruptState(f"{segment.shown} is not of this version: it begins with {content[:20]!r}")
    return content


def _damaged(segment: Segment, why: str) -> CorruptState:
    return CorruptState(f"{segment.shown} is damaged ({why}). Restore the journal from a backup to have them again")


def _steps(times: Sequence[float]) -> list[int]:
    """Times as what lies between them, exactly: their 64 bits are numbers that grow as they do."""
    many = len(times)
    bits = struct.unpack(f"<{many}q", struct.pack(f"<{many}d", *times))
    return [bits[0], *(after - before for before, after in pairwise(bits))]


def _times(steps: Sequence[int]) -> Sequence[float]:
    many = len(steps)
    return struct.unpack(f"<{many}d", struct.pack(f"<{many}q", *accumulate(steps)))


def _blocks(rows: Iterable[Row]) -> Mapping[int, int]:
    """The jobs of some entries: a bit for each, by block."""
    found: defaultdict[int, int] = defaultdict(int)
    for job in {row.job for row in rows if row.job is not None}:
        block, place = divmod(_number(job), MEMBERS)
        found[block] |= 1 << place
    return dict(found)


def _number(job: str) -> int:
    """A job's number; of what is called otherwise some number, which it may share with others."""
    if JOB_ID.fullmatch(job) and len(job) <= DIGITS_MAX:
        return int(job[1:])
    return zlib.crc32(job.encode())
