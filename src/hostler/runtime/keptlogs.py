"""What attempts elsewhere have written, kept here: whole once they are over, and the newest part while they run.

Their nodes may be out of reach at any time, and gone tomorrow.
"""

from __future__ import annotations

import asyncio
import base64
import re
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Literal

from hostler.agent import logs, order
from hostler.backends.base import ReadsLogs
from hostler.backends.bounds import NodeFault
from hostler.backends.output import read_output, unmerged
from hostler.model.errors import NotFound
from hostler.model.views import LogChunk, Output, OutputPiece
from hostler.snapshots.reserve import RESERVE

STREAMS = order.STREAMS
SETUP = "setup"
"""The stream of what was printed before the process of an attempt began."""
NAME = re.compile(r"[A-Za-z0-9_-]+\.[0-9]+")
"""What attempts are called."""
PIECE = 1 << 19
REQUESTS_MOST, LEAST_PIECE = 64, 4096
"""So many requests copy a log, and one more for so many bytes: streams that take turns come in small pieces."""
SEEN_MOST = 1 << 18
"""Bytes of a stream that are kept of an attempt that runs: at least half of that, the newest."""
SETUP_MOST = 1 << 18
"""Bytes that are kept of what was printed before an attempt's process began: the newest."""
SEEN_ATTEMPTS = 4096
"""For so many attempts it is known when their nodes were read last; of others the newest file tells it."""


class KeptLogs:
    """A folder for each attempt that has written something, with its streams as the agent keeps them.

    What an attempt that runs was seen to have written is in a folder of its own, `.ATTEMPT.seen`.
    """

    def __init__(self, root: Path, log_bytes: int = 10 << 20) -> None:
        self._root = root
        self._log_bytes = log_bytes
        self._lock = threading.Lock()
        self._seen_at: dict[str, float] = {}

    async def keep(self, backend: ReadsLogs, attempt: str) -> str | None:
        """Copy what an attempt that is over has written, the newest `log_bytes` of each stream.

        Returns what its node did beyond that; what was copied then stays, and is not copied again. Raises `LinkLost`,
        and `OSError` where that cannot be done.
        """
        if (self._root / attempt).exists():
            return None
        draft = self._root / f".{attempt}.new"
        shutil.rmtree(draft, ignore_errors=True)
        try:
            try:
                fault = await _copy(backend, attempt, draft, self._log_bytes)
                await _copy_setup(backend, attempt, draft)
            except NodeFault as error:  # to ask for the same again would bring the same
                fault = str(error)
            if draft.exists():
                draft.rename(self._root / attempt)
        except OSError:
            shutil.rmtree(draft, ignore_errors=True)  # what is left of it keeps others from writing
            raise
        await asyncio.to_thread(self._forget, attempt)
        return fault

    def see(self, piece: Output, at: float) -> None:
        """Keep what an attempt that runs has been seen to have written, by its node `at` this time. Raises `OSError`.

        Nothing more is kept where the disk has only its spare room left: it is on the node still.
        Bytes that are kept already change nothing; a piece that does not follow on what is kept takes its place.
        """
        with self._lock:
            if not NAME.fullmatch(piece.attempt) or (self._root / piece.attempt).exists():
                return
            if len(self._seen_at) >= SEEN_ATTEMPTS:
                self._seen_at.pop(next(iter(self._seen_at)))
            folder = self._root / f".{piece.attempt}.seen"
            kept = _ends(folder)
            if kept is not None and piece.out <= kept[0] and piece.err <= kept[1]:
                piece = _behind(piece, kept)
            elif kept is not None:
                shutil.rmtree(folder)
            self._seen_at[piece.attempt] = at
            if piece.pieces and _has_room(self._root):
                _append_newest(folder, piece, SEEN_MOST)

    def seen(self, attempt: str) -> tuple[int, int] | None:
        """How far an attempt was seen to have written. Raises `OSError`."""
        return _ends(self._root / f".{attempt}.seen")

    def read(self, attempt: str, stream: str, offset: int, limit: int) -> LogChunk | None:
        """A piece of what was kept, as from the node itself; `None` where nothing was. Raises `OSError`."""
        # Whatever else is asked for would lead out of this folder.
        if stream == SETUP:
            return self._setup(attempt, offset, limit)
        if stream not in STREAMS or (folder := self._folder(attempt)) is None:
            return None
        path = folder / stream
        piece = logs.read(str(path), offset, limit) if path.exists() else logs.Piece(0, b"", 0)
        if folder.name == attempt:
            return _chunk(attempt, stream, piece, ended=True)
        behind = max(piece.size, offset)  # its node has told more than is kept: that is not to be read twice
        return _chunk(attempt, stream, piece if behind == piece.size else logs.Piece(behind, b"", behind), ended=False)

    def _setup(self, attempt: str, offset: int, limit: int) -> LogChunk | None:
        path = self._root / attempt / SETUP
        if not NAME.fullmatch(attempt) or not path.exists():
            return None
        return _chunk(attempt, SETUP, logs.read(str(path), offset, limit), ended=True)

    def output(self, attempt: str, out: int, err: int, limit: int) -> Output | None:
        """A piece of both streams of what was kept; `None` where nothing was. Raises `OSError`."""
        if (folder := self._folder(attempt)) is None:
            return None
        made = order.merged(str(folder), (out, err), limit, ended=True)
        pieces = [OutputPiece(stream=_named(name), data=base64.b64encode(data).decode()) for name, data in made.pieces]
        told = Output(
            attempt=attempt,
            out=made.start[0],
            err=made.start[1],
            pieces=tuple(pieces),
            out_size=made.size[0],
            err_size=made.size[1],
            ended=True,
        )
        if folder.name == attempt:
            return told
        seen_at = self._seen_at.get(attempt) or _newest(folder)
        told = replace(told, out=max(told.out, out), err=max(told.err, err), ended=False, seen_at=seen_at)
        return replace(told, out_size=max(told.out_size, out), err_size=max(told.err_size, err))

    def _folder(self, attempt: str) -> Path | None:
        if not NAME.fullmatch(attempt):
            return None
        found = (self._root / attempt, self._root / f".{attempt}.seen")
        return next((each for each in found if _ends(each) is not None), None)

    def _forget(self, attempt: str) -> None:
        with self._lock:
            self._seen_at.pop(attempt, None)
            shutil.rmtree(self._root / f".{attempt}.seen", ignore_errors=True)


async def _copy(backend: ReadsLogs, attempt: str, folder: Path, log_bytes: int) -> str | None:
    """Copy both streams; returns why that was ended before their ends, if it was."""
    out = err = came = 0
    most = 2 * log_bytes + PIECE
    for _ in range(REQUESTS_MOST + most // LEAST_PIECE):
        try:
            piece = await read_output(backend, attempt, out, err, PIECE)
            if not piece.pieces and not piece.is_whole:  # their order is not known yet, and nobody will tell it
                piece = await unmerged(backend, attempt, out, err, PIECE)
        except NotFound:
            return None
        came += sum(piece.ends) - piece.out - piece.err
        if piece.pieces:
            await asyncio.to_thread(_append_newest, folder, piece, log_bytes)
        out, err = piece.ends
        if piece.is_whole or not piece.pieces:
            return None
        if came > most:
            return f"its node sends more than {log_bytes} bytes of a stream (`limits.log_bytes`); the rest stays there"
    return "its node sends it in too many pieces; the rest stays there"


def _append_newest(folder: Path, piece: Output, log_bytes: int) -> None:
    """Raises `OSError` where the disk would have less than its spare room."""
    _expect_room(folder)
    _append(folder, piece)
    for stream in STREAMS:
        logs.rotate(str(folder / stream), log_bytes)


def _expect_room(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    RESERVE.expect(folder, PIECE)


def _has_room(folder: Path) -> bool:
    """Whether a piece more leaves the spare room of the disk; of a folder that is not there yet, when it is made."""
    return not folder.exists() or RESERVE.beside(folder) >= PIECE


async def _copy_setup(backend: ReadsLogs, attempt: str, folder: Path) -> None:
    """The newest part of what was printed before its process began, if anything was."""
    try:
        piece = await backend.read_log(attempt, SETUP, -SETUP_MOST, SETUP_MOST)
    except NotFound:
        return
    if piece.data:
        await asyncio.to_thread(_put, folder, piece.data[-SETUP_MOST:])


def _put(folder: Path, data: bytes) -> None:
    _expect_room(folder)
    (folder / SETUP).write_bytes(data)


def _behind(piece: Output, kept: tuple[int, int]) -> Output:
    """What of it is not kept yet."""
    known = {"out": kept[0] - piece.out, "err": kept[1] - piece.err}
    left = []
    for each in piece.pieces:
        data = base64.b64decode(each.data)
        some = min(known[each.stream], len(data))
        known[each.stream] -= some
        if some < len(data):
            left.append(OutputPiece(stream=each.stream, data=base64.b64encode(data[some:]).decode()))
    return replace(piece, out=kept[0], err=kept[1], pieces=tuple(left))


def _append(folder: Path, piece: Output) -> None:
    """Also the order in which they were written: each piece is a record of the index."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sizes = {"out": piece.out, "err": piece.err}
    for stream, begin in sizes.items():
        if not (folder / stream).exists() and begin:
            (folder / f"{stream}.offset").write_text(f"{begin:020d}")
            (folder / stream).touch()
    index = order.Index(str(folder))
    now = time.time()
    index.note(now, piece.out, piece.err, 0)
    with (folder / "out").open("ab") as out, (folder / "err").open("ab") as err:
        for each in piece.pieces:
            data = base64.b64decode(each.data)
            (out if each.stream == "out" else err).write(data)
            sizes[each.stream] += len(data)
            index.note(now, sizes["out"], sizes["err"], 0)


def _chunk(attempt: str, stream: str, piece: logs.Piece, *, ended: bool) -> LogChunk:
    return LogChunk(attempt=attempt, stream=stream, offset=piece.offset, data=piece.data, size=piece.size, ended=ended)


def _named(stream: str) -> Literal["out", "err"]:
    return "err" if stream == "err" else "out"


def _ends(folder: Path) -> tuple[int, int] | None:
    """How many bytes of each stream were written up to the end of what is kept; `None` where nothing is."""
    try:
        sizes = [logs.extent(str(path)).size for path in (folder / "out", folder / "err") if path.exists()]
        if len(sizes) == 1:
            sizes.insert(0 if (folder / "err").exists() else 1, 0)
    except FileNotFoundError:
        return None
    return (sizes[0], sizes[1]) if sizes else None


def _newest(folder: Path) -> float:
    return max(logs.extent(str(folder / stream)).written_at for stream in STREAMS if (folder / stream).exists())
