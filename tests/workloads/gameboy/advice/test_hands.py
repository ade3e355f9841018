"""Threads that ask: what goes in comes out, a defect is told, and nobody is kept."""

from __future__ import annotations

import threading
import time

from hostler.workloads.gameboy.advice.answers import Advice
from hostler.workloads.gameboy.advice.counts import Came
from hostler.workloads.gameboy.advice.endpoint import Said
from hostler.workloads.gameboy.advice.hands import Outcome, Threads

PATIENCE_S = 60.0


class Asker:
    """It answers with the length of the question; some questions it cannot bear, some keep it for ever."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.goes_on = threading.Event()

    def ask(self, question: str) -> Said:
        """As it is told."""
        if question == "3":
            raise KeyError("no such thing")
        if question == "4":
            self.goes_on.wait(PATIENCE_S)
        return Said(Came.ANSWERED, Advice(int(question), 0.0))

    def close(self) -> None:
        """Remember that it was."""
        self.closed.set()


def taken(threads: Threads, number: int) -> list[Outcome]:
    ends_at = time.monotonic() + PATIENCE_S
    while len(threads.outcomes) < number:
        assert time.monotonic() < ends_at
        time.sleep(0.001)
    return [threads.outcomes.popleft() for _ in range(number)]


def test_what_came_of_questions_comes_out_and_defects_are_told() -> None:
    asker = Asker()
    threads = Threads(1, lambda: asker, str, time.monotonic)
    for state in (1, 3, 2):
        threads.ask(state, 5.0)
    one, two, three = taken(threads, 3)
    threads.close()
    assert (one.state, one.asked_at, one.said) == (1, 5.0, Said(Came.ANSWERED, Advice(1, 0.0)))
    assert two.said == Said(Came.BROKEN, words="KeyError: 'no such thing'")
    assert three.said.advice == Advice(2, 0.0)
    assert asker.closed.is_set()


def test_nothing_is_begun_before_there_is_a_question() -> None:
    before = threading.active_count()
    threads = Threads(4, Asker, str, time.monotonic)
    assert threading.active_count() == before
    threads.close()


def test_who_hangs_keeps_nobody() -> None:
    asker = Asker()
    threads = Threads(1, lambda: asker, str, time.monotonic)
    threads.ask(4, 0.0)
    begun = time.monotonic()
    threads.close()
    assert time.monotonic() - begun < PATIENCE_S / 2
    asker.goes_on.set()
    assert asker.closed.wait(PATIENCE_S)
