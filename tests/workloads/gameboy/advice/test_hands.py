"""Threads that ask: what goes in comes out, a defect is told, and nobody is kept."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from hostler.workloads.gameboy.advice import hands
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
    until(lambda: len(threads.outcomes) >= number)
    return [threads.outcomes.popleft() for _ in range(number)]


class Timers:
    """Deadlines that pass when the test says so: how fast a machine is decides nothing."""

    def __init__(self) -> None:
        self._begun: list[tuple[float, Callable[..., object], tuple[object, ...]]] = []

    def timer(self, limit_s: float, function: Callable[..., object], arguments: tuple[object, ...]) -> SimpleNamespace:
        """Stands in for `threading.Timer`."""
        begin = lambda: self._begun.append((limit_s, function, arguments))  # noqa: E731
        return SimpleNamespace(daemon=False, start=begin, cancel=lambda: None)

    def pass_(self, number: int, limit_s: float) -> None:
        """The deadline of call `number`, the first is 0, passes; waits until the call has begun."""
        until(lambda: len(self._begun) > number)
        begun_limit_s, function, arguments = self._begun[number]
        assert begun_limit_s == limit_s
        function(*arguments)


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    """In place of those of the threads that ask."""
    made = Timers()
    own = {name: getattr(threading, name) for name in ("Thread", "Lock", "Event", "current_thread")}
    monkeypatch.setattr(hands, "threading", SimpleNamespace(Timer=made.timer, **own))
    return made


def until(holds: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends_at
        time.sleep(0.001)


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
    threads.close()
    assert not asker.closed.is_set(), "the call goes on, and was not waited for"
    asker.goes_on.set()
    assert asker.closed.wait(PATIENCE_S)


def test_a_call_that_nobody_can_break_off_is_given_up_and_the_next_one_is_asked(timers: Timers) -> None:
    """As one whose name is not resolved."""
    askers = [Asker(), Asker()]
    waiting = list(askers)
    threads = Threads(1, lambda: waiting.pop(0), str, time.monotonic, 0.2)
    threads.ask(4, 0.0)
    threads.ask(1, 0.0)
    timers.pass_(0, 0.2)
    hung, other = taken(threads, 2)
    assert (hung.state, hung.said) == (4, Said(Came.TIMEOUT, words="no answer within 0.2 s"))
    assert other.said.advice == Advice(1, 0.0)
    askers[0].goes_on.set()
    assert askers[0].closed.wait(PATIENCE_S), "who comes back late has nothing to say, and ends"
    threads.close()
    assert askers[1].closed.wait(PATIENCE_S)
    assert not threads.outcomes


def endpoints(
    url: str, timeout_s: float, made: list[Endpoint] | None = None, clock: Callable[[], float] = time.monotonic
) -> Threads:
    """The real thing; `made` gets all that are."""
    asked = asking(url=url, timeout_s=timeout_s)

    def make() -> Endpoint:
        endpoint = Endpoint(asked, ("noop", "right"), None, clock)
        if made is not None:
            made.append(endpoint)
        return endpoint

    return Threads(1, make, str, clock, timeout_s)


@pytest.mark.parametrize("answer", [stub.hangs, stub.drips, stub.drips_headers])
def test_no_call_takes_longer_than_it_may_whatever_drips(answer: stub.Answered, timers: Timers) -> None:
    now = 0.0
    with stub.serving() as server:
        server.answer = answer
        made: list[Endpoint] = []
        threads = endpoints(server.url, PATIENCE_S, made, lambda: now)
        for state in range(3):
            threads.ask(state, 0.0)
        found: list[Outcome] = []
        for call in range(3):
            until(lambda asked=call + 1: len(server.asked) == asked)  # type: ignore[misc]
            now += PATIENCE_S
            timers.pass_(call, PATIENCE_S)
            found += taken(threads, 1)
        assert [each.said.came for each in found] == [Came.TIMEOUT] * 3
        assert [each.seconds for each in found] == [PATIENCE_S] * 3
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


def test_many_that_hang_are_not_waited_for_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    askers = [Asker() for _ in range(30)]
    waiting = list(askers)
    threads = Threads(30, lambda: waiting.pop(0), str, time.monotonic, PATIENCE_S)
    for _ in askers:
        threads.ask(4, 0.0)
    now = 0.0

    def wait(thread: threading.Thread, timeout: float) -> None:
        nonlocal now
        now += timeout

    with monkeypatch.context() as stands_still:
        stands_still.setattr(hands, "time", SimpleNamespace(monotonic=lambda: now, thread_time=time.thread_time))
        stands_still.setattr(threading.Thread, "join", wait)
        threads.close()
    assert now == pytest.approx(ENDS_S)
    for each in askers:
        each.goes_on.set()
