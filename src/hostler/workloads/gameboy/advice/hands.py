"""Threads that ask, so that who plays need not wait: questions go in, what came of them comes out.

Whatever a call does, something comes out once its time is up: a name that nobody resolves, a handshake, a header that
drips. Its connection is broken off then; where it has none yet, another thread takes over what is asked next.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
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

    def abort(self) -> bool:
        """Break off the call that another thread is waiting for; whether it will wait no more."""
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


@dataclass(slots=True, eq=False)
class _Call:
    """A question that a thread is asking."""

    state: int
    asked_at: float
    begun: float
    thread: threading.Thread
    is_over: bool = False
    """Something came out."""
    is_given_up: threading.Event = field(default_factory=threading.Event)
    """Its time was up, and that was seen to."""


class Threads:
    """So many threads, each with an endpoint of its own; begun with the first question.

    No call takes longer than `limit_s` seconds: what it comes to later is nobody's.
    """

    def __init__(
        self,
        number: int,
        asker: Callable[[], Asker],
        question: Callable[[int], str],
        clock: Callable[[], float],
        limit_s: float,
    ) -> None:
        self._number = number
        self._limit_s = limit_s
        self._asker = asker
        self._question = question
        self._clock = clock
        self._questions: SimpleQueue[tuple[int, float] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        """Of what a thread and its deadline both change."""
        self._is_closed = False
        self.outcomes: deque[Outcome] = deque()
        """Those that nobody has taken yet; taken from the left."""

    def ask(self, state: int, now: float) -> None:
        """Have a state asked for; never waits."""
        if not self._threads:
            self._begin()
        self._questions.put((state, now))

    def close(self) -> None:
        """No more questions. A thread that waits for an answer ends when its call does, and keeps nobody."""
        with self._lock:
            self._is_closed = True
            threads, self._threads = self._threads, []
        for _ in threads:
            self._questions.put(None)
        ends_at = time.monotonic() + ENDS_S
        for each in threads:
            each.join(max(ends_at - time.monotonic(), 0.0))

    def _begin(self) -> None:
        with self._lock:
            for _ in range(self._number):
                self._begin_one()

    def _begin_one(self) -> None:
        thread = threading.Thread(target=self._work, name=f"advice {len(self._threads)}", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _work(self) -> None:
        asker = self._asker()
        while (asked := self._questions.get()) is not None:
            call = _Call(*asked, self._clock(), threading.current_thread())
            deadline = threading.Timer(self._limit_s, self._give_up, (call, asker))
            deadline.daemon = True
            deadline.start()
            cpu = time.thread_time()
            said = self._said(asker, call.state)
            deadline.cancel()
            if not self._end(call, said, time.thread_time() - cpu):
                call.is_given_up.wait()
                if call.thread not in self._threads:
                    break  # another one has taken its place
        asker.close()

    def _end(self, call: _Call, said: Said, cpu_s: float = 0.0) -> bool:
        """Let it out, unless something came out already; whether it is let out."""
        with self._lock:
            if call.is_over:
                return False
            call.is_over = True
        self.outcomes.append(Outcome(call.state, call.asked_at, self._clock() - call.begun, said, cpu_s))
        return True

    def _give_up(self, call: _Call, asker: Asker) -> None:
        """Its time is up."""
        if not self._end(call, Said(Came.TIMEOUT, words=f"no answer within {self._limit_s:g} s")):
            return
        if not asker.abort():
            with self._lock:
                if not self._is_closed:
                    self._threads.remove(call.thread)
                    self._begin_one()
        call.is_given_up.set()

    def _said(self, asker: Asker, state: int) -> Said:
        try:
            return asker.ask(self._question(state))
        except Exception as error:  # noqa: BLE001 - counted and told: without a word there would only be no advice
            return Said(Came.BROKEN, words=f"{type(error).__name__}: {error}")
