"""Standard output of a program that must not wait for who reads it."""

from __future__ import annotations

import os
from collections import deque
from typing import Callable, Deque

from .loop import WRITE, Loop
from .protocol import Json, line

_FULL_BYTES = 8 << 20


class Outlet:
    """Lines, and bytes behind them. ``on_broken`` is called when nobody reads them any more."""

    def __init__(self, loop: Loop, fd: int, on_broken: Callable[[], None]) -> None:
        self._loop = loop
        self._fd = fd
        self._on_broken = on_broken
        self._waiting: Deque[memoryview] = deque()
        self._bytes = 0
        self._is_broken = False
        os.set_blocking(fd, False)

    @property
    def is_full(self) -> bool:
        """Whether so much waits that nothing should be added that can wait elsewhere."""
        return self._bytes >= _FULL_BYTES

    @property
    def is_empty(self) -> bool:
        """Whether all has been taken, or nothing more will be."""
        return self._is_broken or not self._waiting

    def say(self, message: Json, data: bytes = b"") -> None:
        """A line, and the bytes that belong to it."""
        if self._is_broken:
            return
        is_waiting = bool(self._waiting)
        for piece in (line(message), data):
            if piece:
                self._waiting.append(memoryview(piece))
                self._bytes += len(piece)
        if not is_waiting:
            self._flush()
            if self._waiting:
                self._loop.watch(self._fd, lambda _events: self._on_ready(), WRITE)

    def _on_ready(self) -> None:
        self._flush()
        if not self._waiting:
            self._loop.unwatch(self._fd)

    def _flush(self) -> None:
        while self._waiting:
            try:
                written = os.write(self._fd, self._waiting[0])
            except BlockingIOError:
                return
            except OSError:
                self._is_broken = True
                self._waiting.clear()
                self._on_broken()
                return
            self._bytes -= written
            self._waiting[0] = self._waiting[0][written:]
            if not self._waiting[0]:
                self._waiting.popleft()
