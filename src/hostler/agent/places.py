"""A queue is a place for one process at work at a time: who is next there?"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Deque, Optional

if TYPE_CHECKING:
    from .attempts import Attempt
    from .worker import Chunk, Worker


class Place:
    """Attempts and chunks waiting for one place, and the one process at work there."""

    __slots__ = ("attempts", "chunks", "held", "name", "running", "workers", "working")

    def __init__(self, name: str) -> None:
        self.name = name
        self.attempts: Deque[Attempt] = deque()
        self.chunks: Deque[Chunk] = deque()
        self.workers = 0
        self.held = 0
        """Attempts that have ended here and left what cannot be ended."""
        self.running: Optional[Attempt] = None
        self.working: Optional[Worker] = None

    def next_attempt(self) -> Optional[Attempt]:
        """The attempt to start now, if any: none while a process is at work."""
        if self.held or self.running is not None or self.working is not None or not self.attempts:
            return None
        return self.attempts[0]

    def next_worker(self) -> Optional[Worker]:
        """The worker to feed now, if any: attempts that wait or run go first, and so does another worker's work."""
        if self.held or self.running is not None or self.attempts or not self.chunks:
            return None
        worker = self.chunks[0].worker
        return worker if self.working in (None, worker) else None

    def is_idle(self) -> bool:
        """Whether nothing waits, nothing is at work, and no worker is declared here."""
        return not (self.attempts or self.chunks or self.running or self.working or self.workers or self.held)
