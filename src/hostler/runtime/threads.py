"""Threads for who waits for places."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

AT_ONCE = 4
"""Calls of one place at the same time."""


class Threads:
    """Each place has its own: one that hangs, as a file system whose server is gone, keeps no other waiting."""

    def __init__(self, called: str) -> None:
        self._called = called
        self._pools: dict[str, ThreadPoolExecutor] = {}

    def of(self, place: str) -> ThreadPoolExecutor:
        """Those of a place."""
        if place not in self._pools:
            self._pools[place] = ThreadPoolExecutor(AT_ONCE, thread_name_prefix=f"{self._called} {place}")
        return self._pools[place]

    def close(self) -> None:
        """Begin nothing more; what hangs is not waited for."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
