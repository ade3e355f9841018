"""What the processor's time went into: CPU-seconds by what they were for."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields

clock = time.thread_time
"""Of the thread that works: whoever waits, or lets others work, spends nothing."""


@dataclass(slots=True)
class Spent:
    """CPU-seconds, of all processes together."""

    emulate: float = 0.0
    """The machines, with reading their memory and screens."""
    encode: float = 0.0
    """From memory to values, features and rewards; and episodes that begin."""
    policy: float = 0.0
    """What to do next."""
    advice: float = 0.0
    """Threads that ask for advice."""
    transport: float = 0.0
    """Fragments and policies from one process to another."""
    learn: float = 0.0

    def add(self, other: Spent) -> None:
        """And what others have spent."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def since(self, before: Spent) -> Spent:
        """What was spent after that."""
        return Spent(*(getattr(self, each.name) - getattr(before, each.name) for each in fields(self)))

    @property
    def whole(self) -> float:
        """All of it."""
        return self.emulate + self.encode + self.policy + self.advice + self.transport + self.learn
