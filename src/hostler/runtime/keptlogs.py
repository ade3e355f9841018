"""What attempts elsewhere have said, kept here once they are over: their nodes may be gone tomorrow."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path

from hostler.agent import logs
from hostler.backends.base import ReadsLogs
from hostler.model.errors import NotFound
from hostler.model.views import LogChunk

STREAMS = ("out", "err")
NAME = re.compile(r"[A-Za-z0-9_-]+\.[0-9]+")
"""What attempts are called."""
PIECE = 1 << 20


class KeptLogs:
    """A folder for each attempt that has said something, with its streams as the agent keeps them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def keep(self, backend: ReadsLogs, attempt: str) -> None:
        """Copy what an attempt that is over has said. Raises `LinkLost`, and `OSError` where it cannot be written."""
        if (self._root / attempt).exists():
            return
        draft = self._root / f".{attempt}.new"
        shutil.rmtree(draft, ignore_errors=True)
        try:
            for stream in STREAMS:
                await _copy(backend, attempt, stream, draft)
            if draft.exists():
                draft.rename(self._root / attempt)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)  # what is left of it keeps others from writing
            raise

    def read(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk | None:
        """A piece of what was kept, as from the node itself; `None` where nothing was. Raises `OSError`."""
        # Whatever else is asked for would lead out of this folder.
        if not NAME.fullmatch(attempt) or stream not in STREAMS or not (folder := self._root / attempt).exists():
            return None
        path = folder / stream
        piece = logs.read(str(path), offset, limit) if path.exists() else logs.Piece(0, b"", 0)
        return LogChunk(
            attempt=attempt, stream=stream, offset=piece.offset, data=piece.data, size=piece.size, ended=True
        )


async def _copy(backend: ReadsLogs, attempt: str, stream: str, folder: Path) -> None:
    at = 0
    while True:
        try:
            piece = await backend.read_log(attempt, stream, at, PIECE)
        except NotFound:
            return
        if piece.data:
            await asyncio.to_thread(_append, folder, stream, piece, first=at == 0)
        at = piece.offset + len(piece.data)
        if at >= piece.size or not piece.data:
            return


def _append(folder: Path, stream: str, piece: LogChunk, *, first: bool) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if first and piece.offset:
        (folder / f"{stream}.offset").write_text(str(piece.offset))
    with (folder / stream).open("ab") as output:
        output.write(piece.data)
