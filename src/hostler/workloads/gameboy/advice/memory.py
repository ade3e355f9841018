"""What is remembered of advice: by state, the latest used, and not for ever."""

from __future__ import annotations

from collections import OrderedDict

from hostler.workloads.gameboy.advice.answers import Advice


class Memory:
    """Advice by state. Of one thread only."""

    def __init__(self, entries: int, stale_s: float) -> None:
        self._entries = entries
        self._stale_s = stale_s
        self._kept: OrderedDict[int, tuple[Advice, float]] = OrderedDict()
        self.dropped = 0
        """Entries that became too old."""

    def __len__(self) -> int:
        """How many there are, old ones included that nobody has asked for since."""
        return len(self._kept)

    def get(self, state: int, now: float) -> Advice | None:
        """What is known of a state, unless it is too old."""
        found = self._kept.get(state)
        if found is None:
            return None
        advice, asked_at = found
        if now - asked_at > self._stale_s:
            del self._kept[state]
            self.dropped += 1
            return None
        self._kept.move_to_end(state)
        return advice

    def put(self, state: int, advice: Advice, asked_at: float) -> None:
        """Remember it, and forget what was not used for longest if it is too much."""
        self._kept[state] = advice, asked_at
        self._kept.move_to_end(state)
        if len(self._kept) > self._entries:
            self._kept.popitem(last=False)
