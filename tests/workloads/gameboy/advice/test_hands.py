"""Threads that ask: what goes in comes out, a defect is told, and nobody is kept."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from hostler.workloads.gameboy.advice.answers import Advice
from hostler.workloads.gameboy.advice.counts import Came
from hostler.workloads.gameboy.advice.endpoint import Endpoint, Said
from hostler.workloads.gameboy.advice.hands import ENDS_S, Outcome, Threads
from tests.workloads.gameboy.advice import stub
from tests.workloads.gameboy.advice.asking import asking

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

    def abort(self) -> bool:
        """Nobody can."""
        return False

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
    threads = Threads(1, lambda: asker, str, time.monotonic, PATIENCE_S)
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
    threads = Threads(4, Asker, str, time.monotonic, PATIENCE_S)
    assert threading.active_count() == before
    threads.close()


def test_who_hangs_keeps_nobody() -> None:
    asker = Asker()
    threads = Threads(1, lambda: asker, str, time.monotonic, PATIENCE_S)
    threads.ask(4, 0.0)
    begun = time.monotonic()
    threads.close()
    assert time.monotonic() - begun < PATIENCE_S / 2
    asker.goes_on.set()
    assert asker.closed.wait(PATIENCE_S)


def test_a_call_that_nobody_can_break_off_is_given_up_and_the_next_one_is_asked() -> None:
    """As one whose name is not resolved."""
    askers = [Asker(), Asker()]
    waiting = list(askers)
    threads = Threads(1, lambda: waiting.pop(0), str, time.monotonic, 0.2)
    threads.ask(4, 0.0)
    threads.ask(1, 0.0)
    hung, other = taken(threads, 2)
    assert (hung.state, hung.said) == (4, Said(Came.TIMEOUT, words="no answer within 0.2 s"))
    assert other.said.advice == Advice(1, 0.0)
    askers[0].goes_on.set()
    assert askers[0].closed.wait(PATIENCE_S), "who comes back late has nothing to say, and ends"
    threads.close()
    assert askers[1].closed.wait(PATIENCE_S)
    assert not threads.outcomes


def endpoints(url: str, timeout_s: float, made: list[Endpoint] | None = None) -> Threads:
    """The real thing; `made` gets all that are."""
    asked = asking(url=url, timeout_s=timeout_s)

    def make() -> Endpoint:
        endpoint = Endpoint(asked, ("noop", "right"), None, time.monotonic)
        if made is not None:
            made.append(endpoint)
        return endpoint

    return Threads(1, make, str, time.monotonic, timeout_s)


@pytest.mark.parametrize("answer", [stub.hangs, stub.drips, stub.drips_headers])
def test_no_call_takes_longer_than_it_may_whatever_drips(answer: stub.Answered) -> None:
    with stub.serving() as server:
        server.answer = answer
        made: list[Endpoint] = []
        threads = endpoints(server.url, 0.5, made)
        for state in range(3):
            threads.ask(state, 0.0)
        found = taken(threads, 3)
        assert [each.said.came for each in found] == [Came.TIMEOUT] * 3
        assert all(each.seconds >= 0.4 for each in found)
        assert len(server.asked) == 3, "each was asked, one after the other"
        server.answer = stub.says({"action": "right", "promise": 0.5})
        threads.ask(7, 0.0)
        (good,) = taken(threads, 1)
        assert good.said.advice == Advice(1, 0.5)
        assert len(made) == 1, "its connection was broken off, so the thread goes on"
        threads.close()


def test_what_accepts_and_never_reads_is_given_up() -> None:
    """The connection stands, and nobody has taken it."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as deaf:
        threads = endpoints(f"http://127.0.0.1:{deaf.getsockname()[1]}", 0.3)
        threads.ask(1, 0.0)
        assert taken(threads, 1)[0].said.came is Came.TIMEOUT
        threads.close()


def test_a_name_that_is_not_resolved_keeps_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    def unresolved(*_: object, **__: object) -> list[object]:
        goes_on.wait(PATIENCE_S)
        raise socket.gaierror("nobody knows it")

    monkeypatch.setattr(socket, "getaddrinfo", unresolved)
    threads = endpoints("http://llm.example", 0.3)
    threads.ask(1, 0.0)
    threads.ask(2, 0.0)
    assert [each.said.came for each in taken(threads, 2)] == [Came.TIMEOUT] * 2
    goes_on.set()
    threads.close()


def test_many_that_hang_are_not_waited_for_one_after_the_other() -> None:
    askers = [Asker() for _ in range(30)]
    waiting = list(askers)
    threads = Threads(30, lambda: waiting.pop(0), str, time.monotonic, PATIENCE_S)
    for _ in askers:
        threads.ask(4, 0.0)
    begun = time.monotonic()
    threads.close()
    assert time.monotonic() - begun < 30 * ENDS_S / 2
    for each in askers:
        each.goes_on.set()
