"""How a node has behaved of late: its faults that were recorded or only counted, and its reports on foreign work.

Volatile: what follows from it is an event.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import field

from hostler.model.record import entity

WINDOW_S = 60.0
FAULTS_MOST = 20
"""Faults of one node that are recorded in a window, each with an event of its own; more are counted."""
FOREIGN_MOST = 5
"""Reports on work of other nodes within `FOREIGN_S` that hold the node."""
FOREIGN_S = 3600.0


@entity
class Conduct:
    """The faults of one node."""

    since: float = -math.inf
    """When the window began."""
    recorded: int = 0
    counted: int = 0
    """Faults that have no event, since the last that has one."""
    foreign: deque[float] = field(default_factory=lambda: deque[float](maxlen=FOREIGN_MOST))
    """When it reported on work of other nodes last."""

    def records(self, now: float) -> bool:
        """Whether one more fault is recorded; otherwise it is counted."""
        if now >= self.since + WINDOW_S:
            self.since, self.recorded = now, 0
        if self.recorded >= FAULTS_MOST:
            self.counted += 1
            return False
        self.recorded += 1
        return True

    def take_counted(self) -> int:
        """How many faults were counted only since this was asked last."""
        counted, self.counted = self.counted, 0
        return counted

    def is_held(self, now: float) -> bool:
        """Take one more report on foreign work; whether the node is held for it."""
        self.foreign.append(now)
        return len(self.foreign) == FOREIGN_MOST and self.foreign[0] > now - FOREIGN_S
