"""Journal entries, to whoever listens: each reader has a bounded buffer, and one that falls behind is let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing

from hostler.model.events import Entry
from hostler.store import Journal
from hostler.web.desk import Piece

BUFFER = 10_000
"""Entries that wait for one reader; all readers wait for the same objects."""
CATCH_UP = 2_000
PIECE = 200
"""Entries in a piece: writing one out must not keep the others waiting."""


class Broadcast:
    """Entries from the journal, then live ones, without a gap and without a doublet."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._readers: set[_Reader] = set()
        self._newest: int | None = None
        """The last entry that was handed out."""
        self.lost = 0
        """Readers that were ended because they were too slow."""

    @property
    def readers(self) -> int:
        """How many listen."""
        return len(self._readers)

    @property
    def waiting(self) -> int:
        """How many entries wait to be taken, of all readers."""
        return sum(reader.waiting for reader in self._readers)

    def publish(self, entries: Sequence[Entry]) -> None:
        """Hand durable entries to every reader; one whose buffer is full loses what it has not taken, and is ended."""
        pieces = list(_pieces(entries))
        self._newest = entries[-1].seq if entries else self._newest
        for reader in list(self._readers):
            if reader.waiting + len(entries) < BUFFER:
                reader.give(pieces)
            else:
                self._cut_off(reader)

    async def entries(self, after: int | None) -> AsyncIterator[Entry]:
        """Entries beyond number `after`; `None`: from now on. Ends when the reader is too slow, or by `close`."""
        async with aclosing(self.pieces(after)) as pieces:
            async for piece in pieces:
                for entry in piece.entries:
                    yield entry

    async def pieces(self, after: int | None) -> AsyncGenerator[Piece, None]:
        """The same a piece at a time; live ones are the same object for every reader."""
        reader = _Reader()
        self._readers.add(reader)
        try:
            newest = after
            # Who has seen everything needs no look into the journal: when a controller is back, all come at once.
            if newest is not None and (self._newest is None or newest < self._newest):
                async for piece in self._past(newest):
                    newest = piece.entries[-1].seq
                    yield piece
            while (taken := await reader.take()) is not None:
                fresh = _beyond(taken, newest)
                if fresh is not None:
                    newest = fresh.entries[-1].seq
                    yield fresh
        finally:
            self._readers.discard(reader)

    def close(self) -> None:
        """End every reader."""
        for reader in self._readers:
            reader.end()
        self._readers.clear()

    def _cut_off(self, reader: _Reader) -> None:
        """Nothing is kept for a reader that may never come for it: it finds everything in the journal."""
        self._readers.remove(reader)
        self.lost += 1
        reader.drop()
        reader.end()

    async def _past(self, after: int) -> AsyncIterator[Piece]:
        while True:
            page = await asyncio.to_thread(self._page, after)
            for piece in _pieces(page):
                yield piece
            if len(page) < CATCH_UP:
                return
            after = page[-1].seq

    def _page(self, after: int) -> list[Entry]:
        return list(self._journal.read(after=after, limit=CATCH_UP))


class _Reader:
    """What waits for one who listens."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[Piece | None] = asyncio.Queue()
        self.waiting = 0

    def give(self, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            self.waiting += len(piece.entries)
            self._pieces.put_nowait(piece)

    async def take(self) -> Piece | None:
        """The next piece; `None` at the end."""
        piece = await self._pieces.get()
        self.waiting -= 0 if piece is None else len(piece.entries)
        return piece

    def drop(self) -> None:
        self.waiting = 0
        while not self._pieces.empty():
            self._pieces.get_nowait()

    def end(self) -> None:
        self._pieces.put_nowait(None)


def _pieces(entries: Sequence[Entry]) -> Iterator[Piece]:
    for first in range(0, len(entries), PIECE):
        yield Piece(tuple(entries[first : first + PIECE]))


def _beyond(piece: Piece, newest: int | None) -> Piece | None:
    """What of a piece comes after number `newest`; the piece itself where that is all of it."""
    if newest is None or piece.entries[0].seq > newest:
        return piece
    fresh = tuple(entry for entry in piece.entries if entry.seq > newest)
    return Piece(fresh) if fresh else None
