"""The store that all controllers of a world share, as `hostler.store.journal` has it, on a disk that can lose power.

One row says who may write. Each write names its epoch and goes through that row, or is refused. What was answered is on
the disk; of what was being written when the power went, all of it is there afterwards, or nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from hostler.model.errors import StoreError, StoreFenced, StoreFull, StoreLost
from hostler.model.record import record

if TYPE_CHECKING:
    from hostler.sim.cluster.proof import Proof


@record
class Line:
    """A line of the journal: what a disk holds of an entry."""

    seq: int
    at: float
    event: str
    epoch: int


@record
class Row:
    """Who may write, how often it has shown that it lives, and whether it has said that it goes."""

    epoch: int = 0
    beat: int = 0
    holder: str = ""
    given_up: bool = False


@record
class Saved:
    """A snapshot: the state after entry `seq`, as bytes."""

    seq: int
    data: bytes


@record
class Packed:
    """Old lines in one piece: a segment."""

    lines: tuple[Line, ...]


@record
class Gone:
    """Lines up to number `last` are rows no more."""

    last: int


@record
class Mark:
    """The end of a transaction: what stands before it counts."""


Part: TypeAlias = Line | Row | Saved | Packed | Gone | Mark
SEGMENT, KEEP = 20, 20
"""Lines of a segment, and the newest that stay rows."""


class Log:
    """The write-ahead log: what is written is first in the machine's memory, and on its disk after a sync."""

    def __init__(self) -> None:
        self.synced: list[Part] = []
        self.written: list[Part] = []

    def write(self, parts: Sequence[Part]) -> None:
        """Hand parts to the machine."""
        self.written.extend(parts)

    def sync(self) -> None:
        """Wait until all that was written is on the disk."""
        self.synced.extend(self.written)
        self.written.clear()

    def lose_power(self, random: Random) -> None:
        """Of what was not synced, some first part has reached the disk."""
        self.written = self.written[: random.randint(0, len(self.written))]
        self.sync()

    def recover(self) -> Sequence[Part]:
        """What counts: everything up to the last mark. What stands behind it is cut off."""
        end = len(self.synced)
        while end and not isinstance(self.synced[end - 1], Mark):
            end -= 1
        del self.synced[end:]
        return self.synced


class VirtualStore:
    """What the database does with what reaches it. Who is out of its reach is the caller's affair.

    Everything raises `StoreLost` while it is down.
    """

    def __init__(self, random: Random, proof: Proof) -> None:
        self.rows: list[Line] = []
        self.packed: list[Line] = []
        self.row = Row()
        self.saved: Saved | None = None
        self.up = True
        self.full = False
        self.tears = 0.0
        """Share of commits in the middle of which the power goes."""
        self._random = random
        self._proof = proof
        self._log = Log()
        self._lines: list[Line] | None = None
        # Of its own: worlds with known seeds stay what they are.
        self._compacting = Random(str(random.getstate()[1][:8]))  # noqa: S311 - a world's, by its seed

    @property
    def lines(self) -> Sequence[Line]:
        """The journal, as whoever reads finds it."""
        if self._lines is None:
            self._lines = [*self.packed, *self.rows]
        return self._lines

    def look(self) -> Row:
        """Who may write."""
        self._expect_up()
        return self.row

    def read(self, after: int) -> Sequence[Line]:
        """Lines beyond number `after`."""
        self._expect_up()
        return self.lines[after:]

    def newest(self) -> Saved | None:
        """The snapshot to start from."""
        self._expect_up()
        return self.saved

    def seize(self, who: str, seen: Row) -> int | None:
        """Begin a new epoch where the row is still what was seen: its number. `None`: it is another by now."""
        self._expect_up()
        if not self._is_still(seen):
            return None
        before, row = self.row, Row(epoch=self._next_epoch(), beat=self.row.beat + 1, holder=who)
        self._commit([row])
        self._proof.begun(who, row.epoch, before)
        return row.epoch

    def append(self, who: str, epoch: int, lines: Sequence[Line]) -> None:
        """Make lines durable, and show that the leader lives: both, or nothing.

        Raises `StoreFenced` once another epoch has begun, and `StoreError` where a line of a number is there already.
        """
        self._expect_up()
        self._fence(epoch)
        if lines and self.lines and lines[0].seq <= self.lines[-1].seq:
            raise StoreError(f"an entry {lines[0].seq} is there already")
        row = Row(epoch=self.row.epoch, beat=self.row.beat + 1, holder=self.row.holder)
        self._proof.trying(lines)
        try:
            self._commit([row, *lines])
            self._proof.passed(who, epoch)
        finally:
            self._proof.written(who, epoch, self.lines)

    def compact(self, who: str, epoch: int) -> None:
        """Put the oldest lines into a segment, if enough of them may go. Raises as `append`."""
        self._expect_up()
        covered = 0 if self.saved is None else self.saved.seq
        old = self.rows[:SEGMENT]
        if len(old) < SEGMENT or old[-1].seq > min(covered, self.rows[-1].seq - KEEP):
            return
        self._fence(epoch)
        row = Row(epoch=self.row.epoch, beat=self.row.beat + 1, holder=self.row.holder)
        self._replace(row, Packed(lines=tuple(old)), Gone(last=old[-1].seq))
        self._proof.passed(who, epoch)
        self._proof.compacted(self.lines)

    def resign(self, epoch: int) -> None:
        """Let others take over at once."""
        self._expect_up()
        self._fence(epoch)
        self._commit([Row(epoch=epoch, beat=self.row.beat + 1, holder=self.row.holder, given_up=True)])

    def save(self, saved: Saved) -> None:
        """Keep a snapshot."""
        self._expect_up()
        self._commit([saved])
        self._proof.saved(saved)

    def lose_power(self) -> None:
        """It is down; what it has not synced may be gone."""
        self.up = False
        self._log.lose_power(self._random)

    def recover(self) -> None:
        """It is there again, with what its disk has."""
        self.rows, self.packed, self._lines = [], [], None
        self.row, self.saved, self.up = Row(), None, True
        for part in self._log.recover():
            self._take(part)
        self._proof.recovered(self.lines, self.row)

    def _expect_up(self) -> None:
        if not self.up:
            raise StoreLost("the database does not answer")

    def _is_still(self, seen: Row) -> bool:
        return (self.row.epoch, self.row.beat) == (seen.epoch, seen.beat)

    def _next_epoch(self) -> int:
        return self.row.epoch + 1

    def _fence(self, epoch: int) -> None:
        if self.row.epoch != epoch:
            raise StoreFenced(f"controller {epoch} leads no more: {self.row.epoch} has taken over")

    def _replace(self, row: Row, packed: Packed, gone: Gone) -> None:
        """One transaction: the segment is there and its lines are gone, or neither."""
        self._commit([row, packed, gone], self._compacting)

    def _commit(self, parts: Sequence[Part], random: Random | None = None) -> None:
        if self.full:
            raise StoreFull("the disk is full")
        self._log.write([*parts, Mark()])
        if (random or self._random).random() < self.tears:
            self.lose_power()
            self.recover()  # it takes a while to come back; whoever asks meanwhile hears nothing, as now
            raise StoreLost("the power went in the middle of it")
        self._log.sync()
        for part in parts:
            self._take(part)

    def _take(self, part: Part) -> None:
        match part:
            case Line():
                self.rows.append(part)
                if self._lines is not None:
                    self._lines.append(part)
            case Packed():
                self.packed.extend(part.lines)
                self._lines = None
            case Gone():
                self.rows = [line for line in self.rows if line.seq > part.last]
                self._lines = None
            case Row():
                self.row = part
            case Saved():
                self.saved = part
