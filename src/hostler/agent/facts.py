"""Facts: numbered, in the journal before they are sent, kept until they are acknowledged."""

from __future__ import annotations

from collections import deque
from typing import Deque, Iterator, List, NamedTuple, Optional, Set

from .journal import Journal
from .protocol import Json, encode
from .state import State


class Fact(NamedTuple):
    """One fact as it is sent. ``attempt`` and ``chunk`` name what the fact is the end of, if it is one.

    ``at`` is when it happened, in Unix seconds.
    """

    seq: int
    encoded: str
    attempt: Optional[str]
    chunk: Optional[str]
    at: Optional[float]


class Facts:
    """The unacknowledged facts, oldest first, and the ids of what they ended."""

    def __init__(self, journal: Journal, state: State) -> None:
        self._journal = journal
        self._pending: Deque[Fact] = deque()
        self.seq = state.seq
        self.acked = state.acked
        self.attempts: Set[str] = set()
        self.chunks: Set[str] = set()
        for seq in sorted(state.facts):
            self._keep(state.facts[seq])

    def __len__(self) -> int:
        return len(self._pending)

    @property
    def oldest_at(self) -> Optional[float]:
        """When the oldest of them happened; None if there is none, or it does not say."""
        return self._pending[0].at if self._pending else None

    def add(self, fact: Json) -> None:
        """Number a fact, put it into the journal's buffer, and keep it."""
        self.seq += 1
        self._journal.append(self._keep({"seq": self.seq, **fact}))

    def acknowledge(self, seq: int) -> bool:
        """Forget the facts up to ``seq``; False if there was none."""
        seq = min(seq, self.seq)
        if seq <= self.acked:
            return False
        self.acked = seq
        while self._pending and self._pending[0].seq <= seq:
            fact = self._pending.popleft()
            if fact.attempt is not None:
                self.attempts.discard(fact.attempt)
            if fact.chunk is not None:
                self.chunks.discard(fact.chunk)
        return True

    def after(self, seq: int, limit_bytes: int) -> List[Fact]:
        """The first facts after ``seq``: at least one if there is any, else no more than ``limit_bytes`` of them."""
        batch: List[Fact] = []
        for fact in self._from(seq):
            limit_bytes -= len(fact.encoded)
            if batch and limit_bytes < 0:
                break
            batch.append(fact)
        return batch

    def backlog_s(self, now: float, since: float) -> float:
        """For how long the oldest fact has not been acknowledged, though since then there was somebody to do so."""
        return 0.0 if self.oldest_at is None else max(0.0, now - max(self.oldest_at, since))

    def _from(self, seq: int) -> Iterator[Fact]:
        if not self._pending:
            return iter(())
        first = max(0, seq + 1 - self._pending[0].seq)
        return (self._pending[index] for index in range(first, len(self._pending)))

    def _keep(self, fact: Json) -> str:
        encoded = encode(fact)
        attempt = fact["attempt"] if fact["fact"] == "ended" else None
        chunk = fact.get("chunk")
        self._pending.append(Fact(fact["seq"], encoded, attempt, chunk, fact.get("at")))
        if attempt is not None:
            self.attempts.add(attempt)
        if chunk is not None:
            self.chunks.add(chunk)
        return encoded
