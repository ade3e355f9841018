"""The agent's journal: one JSON object per line, appended, replayed on start, rewritten when it grew old."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Iterable, Iterator, List, Optional

from .protocol import Json, RequestError, decode, encode


class Journal:
    """An append-only file with a buffer before it.

    ``append`` only buffers; ``flush`` writes. There is no fsync: what the journal protects from is the death of the
    agent, and the page cache outlives every process. When the machine dies, so do the processes the journal tells of,
    and the controller runs again what it has no result of.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._entries: List[str] = []
        self._unwritten = b""
        self.error: Optional[str] = None
        self.size = self._cut_torn_line()

    def append(self, entry: str) -> None:
        """Add one encoded entry; it is on disk after the next successful ``flush``."""
        self._entries.append(entry)

    @property
    def is_clean(self) -> bool:
        """Whether everything appended is on disk."""
        return not (self._entries or self._unwritten)

    def flush(self) -> bool:
        """Write what was appended; False (and the reason in ``error``) when the disk took not all of it.

        Nothing is lost then: the rest stays in memory, in order, for the next try.
        """
        if self._entries:
            self._unwritten += ("\n".join(self._entries) + "\n").encode("ascii")
            self._entries.clear()
        while self._unwritten:
            try:
                written = os.write(self._fd, self._unwritten)
            except OSError as error:
                self.error = "cannot write %s: %s; free some space" % (self._path, error.strerror)
                return False
            self.size += written
            self._unwritten = self._unwritten[written:]
        self.error = None
        return True

    def replay(self) -> Iterator[Json]:
        """The entries on disk, in order. A line that is no entry is passed over."""
        return entries(self._path)

    def rewrite(self, entries: Iterable[Json]) -> None:
        """Put ``entries`` in the place of all that is on disk, at once or not at all; raises OSError.

        Call it after a successful ``flush`` only.
        """
        temporary = self._path + ".new"
        # The descriptor to append through is opened before the old one is closed: an open that fails in between would
        # leave the number of a closed file, and the next entries would go into whatever file gets it.
        rewritten = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(rewritten, 0o600)
            with open(rewritten, "w", encoding="ascii", closefd=False) as target:
                target.writelines(encode(entry) + "\n" for entry in entries)
            os.fsync(rewritten)
            size = os.fstat(rewritten).st_size
            os.rename(temporary, self._path)
        except BaseException:
            os.close(rewritten)
            with suppress(FileNotFoundError):
                os.unlink(temporary)  # what is left of it keeps the journal itself from being written
            raise
        replaced, self._fd, self.size = self._fd, rewritten, size
        os.close(replaced)

    def close(self) -> None:
        """Close the file; a second call changes nothing. What is appended from then on stays in memory."""
        if self._fd >= 0:
            closed, self._fd = self._fd, -1
            os.close(closed)

    def _cut_torn_line(self) -> int:
        size = os.fstat(self._fd).st_size
        end, step = size, 1 << 16
        while end > 0:
            start = max(0, end - step)
            newline = os.pread(self._fd, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            os.ftruncate(self._fd, end)
        return end


def entries(path: str) -> Iterator[Json]:
    """The entries of a journal, in order, as far as they are whole; nothing is changed. Raises OSError."""
    with open(path, encoding="utf-8", errors="replace") as source:
        for text in source:
            entry = _entry(text)
            if entry is not None:
                yield entry


def _entry(text: str) -> Optional[Json]:
    """What can be written again when the journal is compacted: a number that cannot would end the agent then."""
    try:
        return decode(text.encode("utf-8"), len(text))
    except RequestError:
        return None
