"""Which ends are doubted, for how long, and what becomes of them."""

from __future__ import annotations

import signal

import pytest

from hostler.agent import doubts
from hostler.agent.doubts import Doubts
from hostler.agent.loop import Loop


@pytest.mark.parametrize(
    ("code", "number", "is_doubted"),
    [(0, None, True), (1, None, True), (143, None, True), (None, signal.SIGTERM, True), (None, signal.SIGSEGV, False)],
)
def test_what_is_doubted(code: int | None, number: int | None, is_doubted: bool) -> None:
    judged = []
    Doubts(Loop()).settle(code, number, 60.0, lambda: judged.append(1))
    assert judged == ([] if is_doubted else [1])


def test_a_doubt_is_over_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubts, "DOUBT_S", 0.02)
    judged, loop = [], Loop()
    doubted = Doubts(loop)
    doubted.settle(1, None, 60.0, lambda: judged.append(1))
    while not judged:
        loop.turn(0.01)
    doubted.resolve()
    loop.turn(0.05)
    assert judged == [1]


def test_the_end_of_all_settles_every_doubt_and_there_are_none_after_it() -> None:
    judged, loop = [], Loop()
    doubted = Doubts(loop)
    for number in range(3):
        doubted.settle(1, None, 60.0, lambda number=number: judged.append(number))  # type: ignore[misc]
    doubted.resolve()
    doubted.settle(1, None, 60.0, lambda: judged.append(3))
    assert judged == [0, 1, 2, 3]


def test_outside_of_an_allocation_every_end_is_what_it_seems_to_be() -> None:
    judged = []
    Doubts().settle(None, signal.SIGTERM, 60.0, lambda: judged.append(1))
    assert judged == [1]


def test_a_success_is_doubted_the_longer_the_longer_it_took() -> None:
    judged, loop, now = [], Loop(), [0.0]
    loop.monotonic = lambda: now[0]
    doubted = Doubts(loop)
    doubted.settle(0, None, 0.02, lambda: judged.append("short"))
    doubted.settle(0, None, 60.0, lambda: judged.append("long"))
    now[0] = 0.1
    loop.turn(0.0)
    assert judged == ["short"]
    doubted.resolve()
    assert judged == ["short", "long"]


def test_the_own_signal_is_dealt_with_before_the_ends_that_it_brought_about() -> None:
    loop, order = Loop(), []
    before = {number: signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGTERM)}
    numbers = {signal.SIGCHLD, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        for number in numbers:
            signal.raise_signal(number)
        loop.on_signals({each: (lambda each=each: order.append(each)) for each in before})  # type: ignore[misc]
        loop.turn(1.0)
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)
    assert order == [signal.SIGTERM, signal.SIGCHLD]
