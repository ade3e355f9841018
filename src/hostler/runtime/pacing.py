"""How fast bytes may move: a bandwidth that all who move them share, each in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

BURST_S = 0.5
"""So much may move at once: pieces are not cut for it."""


class Bandwidth:
    """So many bytes a second, over all who ask. `None`: as many as they like. `stop` ends whoever asks after that."""

    def __init__(
        self,
        bytes_per_s: float | None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        self._rate = bytes_per_s
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._lock = threading.Lock()
        self._free_at = monotonic()
        self.moved = 0
        """Bytes that were asked for so far."""

    def pace(self, size: int) -> None:
        """Wait until `size` more bytes may have moved. Raises `Stopped` once nothing may."""
        if self._stopped.is_set():
            raise Stopped
        with self._lock:
            self.moved += size
            if self._rate is None:
                return
            now = self._monotonic()
            self._free_at = max(self._free_at, now - BURST_S) + size / self._rate
            late_s = self._free_at - now
        if late_s > 0:
            self._wait(late_s)

    @property
    def bytes_per_s(self) -> float | None:
        """What it is bounded to; `None`: it is not."""
        return self._rate

    def stop(self) -> None:
        """End all who move bytes, those that wait at once."""
        self._stopped.set()


class Stopped(Exception):
    """The controller ends, and what it was copying ends with it."""
