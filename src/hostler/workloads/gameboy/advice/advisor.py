"""What is known of states, for whoever plays: at once, or not at all.

All of it is the player's thread: it decides what is asked and when, and takes in what came of it with the next look.
Other threads only carry questions out and answers in.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from hostler.workloads.gameboy.advice.answers import Advice
from hostler.workloads.gameboy.advice.counts import Came, Counts, News
from hostler.workloads.gameboy.advice.hands import Outcome
from hostler.workloads.gameboy.advice.limits import Breaker, Bucket
from hostler.workloads.gameboy.advice.memory import Memory
from hostler.workloads.gameboy.advice.settings import Asking

SPOILED_S = 60.0
"""So long a state is not asked for again to which nothing sensible was answered: the same model says the same again."""
WAITING = 16
"""Questions that wait for their turn; one more, and the oldest is given up."""


class Hands(Protocol):
    """Whoever carries questions out."""

    outcomes: deque[Outcome]

    def ask(self, state: int, now: float) -> None:
        """Have it asked; without waiting."""
        ...

    def close(self) -> None:
        """No more."""
        ...


class Advisor:
    """Advice for one worker of `workers`. `spread`, 0 to 1: its place among them, so that not all ask at once."""

    def __init__(self, asked: Asking, hands: Hands, workers: int, spread: float) -> None:
        self._hands = hands
        self._at_once = asked.at_once
        self._stale_s = asked.stale_s
        self._memory = Memory(asked.cache, asked.stale_s)
        self._bucket = Bucket(asked.calls_per_s / workers, filled=spread, shares=workers > 1)
        self._breaker = Breaker(asked.rests, spread=spread)
        self._waiting: dict[int, None] = {}
        """States to be asked for, the newest last."""
        self._under_way: set[int] = set()
        self._spoiled: dict[int, float] = {}
        """States to which nothing sensible was answered, and until when they are not asked for."""
        self._cache = asked.cache
        self._counts = Counts()
        self._trouble: str | None = None

    def seen(self, state: int, now: float) -> Advice | None:
        """What is known of a state. It is asked for where nothing is, if it may be; never waits, never raises."""
        if self._hands.outcomes:
            self._take_in(now)
        found = self._memory.get(state, now)
        if found is not None:
            self._counts.cached += 1
            return found
        self._counts.unknown += 1
        if self._breaker.allows(now):
            self._wish(state, now)
        return None

    def news(self) -> News:
        """What has become of calls since this was asked last."""
        counts, self._counts = self._counts, Counts()
        trouble, self._trouble = self._trouble, None
        counts.stale += self._memory.dropped
        self._memory.dropped = 0
        return News(counts, self._breaker.is_open, trouble)

    def close(self) -> None:
        """No more calls."""
        self._hands.close()

    def _wish(self, state: int, now: float) -> None:
        if state not in self._under_way and not self._is_spoiled(state, now):
            self._waiting.pop(state, None)
            self._waiting[state] = None
            if len(self._waiting) > WAITING:
                del self._waiting[next(iter(self._waiting))]
                self._counts.passed_over += 1
        self._hand_over(now)

    def _is_spoiled(self, state: int, now: float) -> bool:
        until = self._spoiled.get(state)
        if until is not None and now >= until:
            del self._spoiled[state]
            return False
        return until is not None

    def _spoil(self, state: int, now: float) -> None:
        self._spoiled[state] = now + min(SPOILED_S, self._stale_s)
        self._waiting.pop(state, None)
        if len(self._spoiled) > self._cache:
            del self._spoiled[next(iter(self._spoiled))]

    def _hand_over(self, now: float) -> None:
        """The newest questions to whoever is free, as often as it may be."""
        while self._waiting and len(self._under_way) < self._at_once and self._breaker.allows(now):
            if not self._bucket.take(now):
                return
            state, _ = self._waiting.popitem()
            self._under_way.add(state)
            self._breaker.asked()
            self._counts.asked += 1
            self._hands.ask(state, now)

    def _take_in(self, now: float) -> None:
        while self._hands.outcomes:
            self._judge(self._hands.outcomes.popleft(), now)
        self._hand_over(now)

    def _judge(self, outcome: Outcome, now: float) -> None:
        said = outcome.said
        self._under_way.discard(outcome.state)
        self._counts.came(said.came, outcome.seconds)
        self._counts.cpu_s += outcome.cpu_s
        if said.came is not Came.ANSWERED or said.advice is None:
            self._trouble = f"{said.came}: {said.words}"
            self._breaker.bad(now, said.pause_s)
            if said.came is Came.GARBAGE:
                self._spoil(outcome.state, now)
            if self._breaker.is_open:
                self._waiting.clear()
            return
        self._breaker.good()
        if now - outcome.asked_at > self._stale_s:
            self._counts.stale += 1
            return
        self._waiting.pop(outcome.state, None)
        self._memory.put(outcome.state, said.advice, outcome.asked_at)
