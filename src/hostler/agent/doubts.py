"""Ends that may be the first sign of the end of all.

When an allocation of a cluster ends, all its processes are sent SIGTERM in one instant, what the agent runs before the
agent, as chance has it. To tell such an end from a failure of the program's own, the agent waits for its own signal.
"""

from __future__ import annotations

import signal
from typing import Callable, Dict, Optional

from .loop import Loop

DOUBT_S = 0.5
"""For how long the agent's own signal is waited for: it is sent within milliseconds, and may be dealt with later only
because a shared disk kept the agent waiting. So much later come the failures in an allocation, too."""
SUCCESS_PART = 20
"""Who saves its work on SIGTERM may well end with status 0, which would pass for success: that is doubted for a 20th of
the time that it ran. What ran for a moment only was hardly hit in that, and there may be very many such."""


class Doubts:
    """Without a loop there are none: every end is what it seems to be."""

    def __init__(self, loop: Optional[Loop] = None) -> None:
        self._loop = loop
        self._open: Dict[object, Callable[[], None]] = {}

    def settle(self, code: Optional[int], number: Optional[int], lived_s: float, judge: Callable[[], None]) -> None:
        """Call ``judge`` about a process that ended so: now, or when it is sure that it ended of its own."""
        if self._loop is None or not may_be_of_term(code, number):
            judge()
            return
        key = object()
        self._open[key] = judge
        patience_s = min(DOUBT_S, lived_s / SUCCESS_PART) if code == 0 else DOUBT_S
        self._loop.call_later(patience_s, lambda: self._close(key))

    def resolve(self) -> None:
        """It is the end of all, as everybody has been told by now. Nothing is doubted from here on."""
        self._loop = None
        for key in list(self._open):
            self._close(key)

    def _close(self, key: object) -> None:
        judge = self._open.pop(key, None)
        if judge is not None:
            judge()


def may_be_of_term(code: Optional[int], number: Optional[int]) -> bool:
    """Whether a process may have ended so because of SIGTERM: by it, or with a status of its own choice.

    A shell says 143 of a child that did; a program that catches the signal says 1, or 0.
    """
    return number == signal.SIGTERM or code is not None
