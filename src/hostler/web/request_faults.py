"""Faults of requests, recorded at a bounded rate: whoever can send a request could fill the journal otherwise."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress

import h11

from hostler.model.codec import error_words
from hostler.model.errors import HostlerError
from hostler.model.inputs import Trouble
from hostler.web.desk import Desk

EQUAL_S = 600.0
"""For so long an equal fault is counted and not recorded again."""
PER_MINUTE = 10
"""Faults that are recorded within a minute; more are counted."""
MINUTE_S = 60.0
KNOWN = 100
"""Faults that are compared with new ones, the newest of them."""
WORDS = 2000
"""Characters of a fault."""


class RequestFaults:
    """Tells the core of faults of requests; `now` is any steady clock."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._told_at: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._minute_began = float("-inf")
        self._in_minute = 0
        self.uncounted = 0
        """Faults since the one that was recorded last."""

    async def note(self, desk: Desk, where: str, error: Exception) -> None:
        """Record a fault, unless it is known or there are too many. One of the caller is none of ours."""
        if isinstance(error, h11.LocalProtocolError):  # an answer to what is no HTTP
            return
        what = error_words(error)[:WORDS]
        if not self._is_due((where, what)):
            self.uncounted += 1
            return
        more, self.uncounted = self.uncounted, 0
        counted = f" ({more} more faults of requests since the one before)" if more else ""
        with suppress(HostlerError):  # a controller that stands by, or cannot write, records nothing
            await desk.tell(Trouble(where=where, what=what + counted))

    def _is_due(self, fault: tuple[str, str]) -> bool:
        now = self._now()
        if now - self._told_at.get(fault, float("-inf")) < EQUAL_S:
            return False
        if now - self._minute_began >= MINUTE_S:
            self._minute_began, self._in_minute = now, 0
        if self._in_minute >= PER_MINUTE:
            return False
        self._in_minute += 1
        self._told_at[fault] = now
        self._told_at.move_to_end(fault)
        if len(self._told_at) > KNOWN:
            self._told_at.popitem(last=False)
        return True
