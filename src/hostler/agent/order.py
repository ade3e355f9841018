"""The order in which an attempt has written to its two streams: an index beside them, and the streams merged by it.

The index, ``.order``, has records of 32 bytes: a time, how many bytes of ``out`` and of ``err`` had been written by
then (as ``logs`` counts them), and how the writes since the record before alternated. A record is written over while
only one stream grows, and always the same: the index grows with the changes from one stream to the other, not with the
output. Up to `MOST_RECORDS` are kept; what was written before the oldest of them has no known order.

Writes between two records have an order where their alternation tells it. Otherwise ``out`` comes first, then ``err``.
An index that is missing, damaged or foreign costs the order, and never a byte.
"""

from __future__ import annotations

import errno
import os
import struct
import time
from contextlib import suppress
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from . import logs

INDEX = ".order"
STREAMS = ("out", "err")
MOST_RECORDS = 32768
MOST_PIECES = 4096
_RECORD = struct.Struct("<dQQq")
_PLAINLY = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_STALE_S = 1.0
_LARGEST_WINDOW = 1 << 18

Sizes = Tuple[int, int]


class Record(NamedTuple):
    """The sizes of both streams at a time.

    ``runs``: the writes since the record before were so many runs of writes to one stream, alternately, beginning with
    ``out``, or with ``err`` where it is negative; 0 where only one stream grew, or where that is not known.
    """

    at: float
    out: int
    err: int
    runs: int

    @property
    def sizes(self) -> Sizes:
        """Bytes of ``out`` and of ``err``."""
        return self.out, self.err


class Merged(NamedTuple):
    """Bytes of both streams in order: where each begins, pieces of (stream, bytes), and how many there are of each."""

    start: Sizes
    pieces: List[Tuple[str, bytes]]
    size: Sizes


class Window(NamedTuple):
    """What was written between two records."""

    before: Sizes
    after: Sizes
    runs: int


class Index:
    """The index of one attempt, for its writer. Raises OSError."""

    def __init__(self, folder: str) -> None:
        self._path = folder + "/" + INDEX
        self._count = (logs.size_of(self._path) or 0) // _RECORD.size
        nothing = Record(0.0, 0, 0, 0)
        self.newest = self._read(self._count - 1) if self._count else nothing
        self._grows = self._growing(self._read(self._count - 2) if self._count > 1 else nothing, self.newest)

    def note(self, at: float, out: int, err: int, runs: int) -> None:
        """Write down how long the streams are now; sizes that are less than those noted before count as those."""
        made = Record(at, max(out, self.newest.out), max(err, self.newest.err), runs)
        if made.sizes == self.newest.sizes:
            return
        grows = self._growing(self.newest, made)
        slot = self._count - 1 if grows is not None and grows == self._grows else self._count
        if slot >= MOST_RECORDS:
            slot = self._drop_older_half()
        self._write(slot, made)
        self._count, self.newest, self._grows = slot + 1, made, grows

    def _growing(self, before: Record, after: Record) -> Optional[str]:
        """The one stream that has grown; None where both have, or neither."""
        grown = [
            name for name, was, size in (("out", before.out, after.out), ("err", before.err, after.err)) if was != size
        ]
        return grown[0] if len(grown) == 1 else None

    def _read(self, slot: int) -> Record:
        data = _read_at(self._path, slot * _RECORD.size, _RECORD.size)
        if len(data) != _RECORD.size:
            raise OSError(errno.EIO, os.strerror(errno.EIO), self._path)
        return Record._make(_RECORD.unpack(data))

    def _write(self, slot: int, made: Record) -> None:
        fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | _PLAINLY, 0o600)
        try:
            os.pwrite(fd, _RECORD.pack(*made), slot * _RECORD.size)
        finally:
            os.close(fd)

    def _drop_older_half(self) -> int:
        """Returns how many records are left."""
        kept = _read_at(self._path, (self._count - MOST_RECORDS // 2) * _RECORD.size, MOST_RECORDS // 2 * _RECORD.size)
        try:
            fresh = os.open(self._path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _PLAINLY, 0o600)
            with open(fresh, "wb") as output:
                output.write(kept)
        except OSError:
            with suppress(FileNotFoundError):
                os.unlink(self._path + ".new")  # what is left of it keeps others from writing
            raise
        os.rename(self._path + ".new", self._path)
        return len(kept) // _RECORD.size


def merged(folder: str, offsets: Sequence[int], limit: int, ended: bool) -> Merged:
    """Up to ``limit`` bytes of both streams in the order of their writing, from these offsets on.

    ``ended``: nothing more will be written. Before that, what the index will soon tell the order of is left for later.
    Where bytes asked for are gone, a stream begins at the first that is left. Raises OSError where neither is there.
    """
    return _Merge(folder, offsets, limit, ended).made()


class _Merge:
    """One answer. ``_at`` is how far each stream is told."""

    def __init__(self, folder: str, offsets: Sequence[int], limit: int, ended: bool) -> None:
        self._folder = folder
        self._ended = ended
        self._room = limit
        self._pieces: List[Tuple[str, bytes]] = []
        self._records = _records(folder)  # first: what it tells of has been written when the streams are measured
        self._measure()
        self._at: Dict[str, int] = {
            name: min(max(offset, self._first[name]), self._size[name]) for name, offset in _by_stream(offsets).items()
        }
        self._start = self._at["out"], self._at["err"]

    def made(self) -> Merged:
        for window in _windows(self._records, self._start):
            if not self._reaches(window.after):
                break  # damaged, or of other streams
            if not self._tell_all(self._parts(window)):
                return self._answer()
        self._tell_all(self._rest())
        return self._answer()

    def _answer(self) -> Merged:
        return Merged(self._start, self._pieces, (self._size["out"], self._size["err"]))

    def _measure(self) -> None:
        """``out`` before and after ``err``: that one of them had not grown when the other was measured is an order."""
        extents = [_extent(self._folder, name) for name in ("out", "err", "out")]
        if extents[0] is None and extents[1] is None:
            raise FileNotFoundError(2, os.strerror(2), self._folder + "/out")
        early, err, late = (each or logs.Extent(0, 0, 0.0) for each in extents)
        self._first = {"out": late.first, "err": err.first}
        self._size = {"out": early.size, "err": err.size}
        self._late_out = late.size
        self._newest = max(late.written_at, err.written_at)

    def _reaches(self, sizes: Sizes) -> bool:
        """Whether so much has been written; the streams may have grown since they were measured."""
        if sizes[0] > self._size["out"] or sizes[1] > self._size["err"]:
            self._measure()
        return sizes[0] <= self._size["out"] and sizes[1] <= self._size["err"]

    def _parts(self, window: Window) -> List[Tuple[str, int]]:
        """How far to tell which stream, one after the other."""
        names = ("err", "out") if window.runs < 0 else STREAMS
        if abs(window.runs) > 2:
            alternating = self._alternating(window, names)
            if alternating:
                return alternating
            names = STREAMS
        ends = _by_stream(window.after)
        return [(name, ends[name]) for name in names]

    def _alternating(self, window: Window, names: Tuple[str, str]) -> List[Tuple[str, int]]:
        """The ends of the lines, where each run of writes must have been one line: there are as many of both."""
        begin, end = _by_stream(window.before), _by_stream(window.after)
        if sum(window.after) - sum(window.before) > _LARGEST_WINDOW or any(
            begin[name] < self._first[name] for name in STREAMS
        ):
            return []
        count = abs(window.runs)
        lines = {name: _line_ends(self._read(name, begin[name], end[name]), begin[name]) for name in names}
        whole = all(ends and ends[-1] == end[name] for name, ends in lines.items())
        if not whole or [len(lines[name]) for name in names] != [(count + 1) // 2, count // 2]:
            return []
        return [(names[turn % 2], lines[names[turn % 2]][turn // 2]) for turn in range(count)]

    def _rest(self) -> List[Tuple[str, int]]:
        """What no record tells of: all of it at the end, or where no record comes; else what cannot be out of order."""
        grown = [name for name in STREAMS if self._size[name] > self._at[name]]
        if self._ended or abs(time.time() - self._newest) > _STALE_S or not grown:
            return [(name, self._size[name]) for name in STREAMS]
        if grown == ["out"] or (grown == ["err"] and self._late_out <= self._at["out"]):
            return [(grown[0], self._size[grown[0]])]
        return []

    def _tell_all(self, parts: List[Tuple[str, int]]) -> bool:
        """Whether all of it could be told."""
        return all(self._tell(name, end) for name, end in parts)

    def _tell(self, name: str, end: int) -> bool:
        begin = self._at[name]
        if end <= begin:
            return True
        is_new = not self._pieces or self._pieces[-1][0] != name
        if self._room <= 0 or (is_new and len(self._pieces) >= MOST_PIECES):
            return False
        data = self._read(name, begin, min(end, begin + self._room))
        if not data:
            return False
        if is_new:
            self._pieces.append((name, data))
        else:
            self._pieces[-1] = name, self._pieces[-1][1] + data
        self._at[name] += len(data)
        self._room -= len(data)
        return self._at[name] == end

    def _read(self, name: str, begin: int, end: int) -> bytes:
        """Less where something of it is dropped meanwhile."""
        data = b""
        while begin + len(data) < end:
            piece = logs.read(self._folder + "/" + name, begin + len(data), end - begin - len(data))
            if piece.offset != begin + len(data) or not piece.data:
                break
            data += piece.data
        return data


def _extent(folder: str, name: str) -> Optional[logs.Extent]:
    try:
        return logs.extent(folder + "/" + name)
    except FileNotFoundError:
        return None


def _by_stream(sizes: Sequence[int]) -> Dict[str, int]:
    return {"out": sizes[0], "err": sizes[1]}


def _read_at(path: str, offset: int, limit: int) -> bytes:
    """Of a regular file only: the folder is the attempt's, which may have put anything there. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | _PLAINLY)
    try:
        return os.pread(fd, limit, offset)
    finally:
        os.close(fd)


def _line_ends(data: bytes, begin: int) -> List[int]:
    ends = []
    for line in data.split(b"\n")[:-1]:
        begin += len(line) + 1
        ends.append(begin)
    return ends


def _records(folder: str) -> bytes:
    """The index as it is now; empty where it cannot be read."""
    try:
        data = _read_at(folder + "/" + INDEX, 0, MOST_RECORDS * _RECORD.size)
    except OSError:
        return b""
    return data[: len(data) // _RECORD.size * _RECORD.size]


def _windows(data: bytes, at: Sizes) -> Iterator[Window]:
    """From the one on in which these sizes lie."""
    count = len(data) // _RECORD.size
    slot = _bisect(count, lambda number: _passes(_RECORD.unpack_from(data, number * _RECORD.size), at))
    before = (0, 0) if slot == 0 else Record._make(_RECORD.unpack_from(data, (slot - 1) * _RECORD.size)).sizes
    for number in range(slot, count):
        record = Record._make(_RECORD.unpack_from(data, number * _RECORD.size))
        after = max(before[0], record.out), max(before[1], record.err)
        yield Window(before, after, record.runs)
        before = after


def _passes(record: Sequence[float], at: Sizes) -> bool:
    return record[1] > at[0] or record[2] > at[1]


def _bisect(count: int, passes: Callable[[int], bool]) -> int:
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if passes(middle):
            high = middle
        else:
            low = middle + 1
    return low
