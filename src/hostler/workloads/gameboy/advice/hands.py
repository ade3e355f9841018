"""Threads that ask, so that who plays need not wait: questions go in, what came of them comes out."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from hostler.workloads.gameboy.advice.counts import Came
from hostler.workloads.gameboy.advice.endpoint import Said

ENDS_S = 0.5


class Asker(Protocol):
    """Whoever is asked, by one thread."""

    def ask(self, question: str) -> Said:
        """Ask, and wait."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a question."""

    state: int
    asked_at: float
    seconds: float
    said: Said
    cpu_s: float = 0.0
    """Of the thread that asked."""


class Threads:
    """So many threads, each with an endpoint of its own; begun with the first question."""

    def __init__(
        self,
        number: int,
        asker: Callable[[], Asker],
        question: Callable[[int], str],
        clock: Callable[[], float],
    ) -> None:
        self._number = number
        self._asker = asker
        self._question = question
        self._clock = clock
        self._questions: SimpleQueue[tuple[int, float] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self.outcomes: deque[Outcome] = deque()
        """Those that nobody has taken yet; taken from the left."""

    def ask(self, state: int, now: float) -> None:
        """Have a state asked for; never waits."""
        if not self._threads:
            self._begin()
        self._questions.put((state, now))

    def close(self) -> None:
        """No more questions. A thread that waits for an answer ends when its call does, and keeps nobody."""
        for _ in self._threads:
            self._questions.put(None)
        for each in self._threads:
            each.join(ENDS_S)
        self._threads = []

    def _begin(self) -> None:
        self._threads = [
            threading.Thread(target=self._work, name=f"advice {number}", daemon=True) for number in range(self._number)
        ]
        for each in self._threads:
            each.start()

    def _work(self) -> None:
        asker = self._asker()
        while (asked := self._questions.get()) is not None:
            state, asked_at = asked
            begun, cpu = self._clock(), time.thread_time()
            said = self._said(asker, state)
            self.outcomes.append(Outcome(state, asked_at, self._clock() - begun, said, time.thread_time() - cpu))
        asker.close()

    def _said(self, asker: Asker, state: int) -> Said:
        try:
            return asker.ask(self._question(state))
        except Exception as error:  # noqa: BLE001 - counted and told: without a word there would only be no advice
            return Said(Came.BROKEN, words=f"{type(error).__name__}: {error}")
