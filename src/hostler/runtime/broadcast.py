"""Journal entries, to whoever listens: each reader has a bounded buffer, and one that falls behind is let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from hostler.model.events import Entry
from hostler.store import Journal

BUFFER = 10_000
CATCH_UP = 2_000


class Broadcast:
    """Entries from the journal, then live ones, without a gap and without a doublet."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._readers: set[asyncio.Queue[Entry | None]] = set()
        self.lost = 0
        """Readers that were ended because they were too slow."""

    @property
    def readers(self) -> int:
        """How many listen."""
        return len(self._readers)

    def publish(self, entries: Sequence[Entry]) -> None:
        """Hand durable entries to every reader; one whose buffer is full loses what it has not taken, and is ended."""
        for reader in list(self._readers):
            if reader.qsize() + len(entries) < BUFFER:
                for entry in entries:
                    reader.put_nowait(entry)
            else:
                self._cut_off(reader)

    async def entries(self, after: int | None) -> AsyncIterator[Entry]:
        """Entries beyond number `after`; `None`: from now on. Ends when the reader is too slow, or by `close`."""
        live: asyncio.Queue[Entry | None] = asyncio.Queue()
        self._readers.add(live)
        try:
            newest = after
            if newest is not None:
                async for entry in self._past(newest):
                    newest = entry.seq
                    yield entry
            while (next_entry := await live.get()) is not None:
                if newest is None or next_entry.seq > newest:
                    newest = next_entry.seq
                    yield next_entry
        finally:
            self._readers.discard(live)

    def close(self) -> None:
        """End every reader."""
        for reader in self._readers:
            reader.put_nowait(None)
        self._readers.clear()

    def _cut_off(self, reader: asyncio.Queue[Entry | None]) -> None:
        """Nothing is kept for a reader that may never come for it: it finds everything in the journal."""
        self._readers.remove(reader)
        self.lost += 1
        while not reader.empty():
            reader.get_nowait()
        reader.put_nowait(None)

    async def _past(self, after: int) -> AsyncIterator[Entry]:
        while True:
            page = await asyncio.to_thread(self._page, after)
            for entry in page:
                yield entry
            if len(page) < CATCH_UP:
                return
            after = page[-1].seq

    def _page(self, after: int) -> list[Entry]:
        return list(self._journal.read(after=after, limit=CATCH_UP))
