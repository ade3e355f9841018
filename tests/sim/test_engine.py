"""Work on virtual devices: it shares them, slows down with them, and none of it is lost or done twice."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from hostler.sim.agenda import Agenda
from hostler.sim.engine import Engine, Task


class Bench:
    """An engine that remembers when what was done."""

    def __init__(self) -> None:
        self.agenda = Agenda()
        self.engine = Engine(self.agenda)
        self.done: dict[str, float] = {}

    def begin(self, name: str, amount: float, *devices: str, per_s: float = 1.0, share: float = 1.0) -> Task:
        def done() -> None:
            self.done[name] = self.agenda.now

        return self.engine.begin(devices or ("d",), amount, per_s, done, share)

    def until(self, seconds: float) -> None:
        while self.agenda.step(seconds):
            pass
        self.agenda.now = seconds


def test_alone() -> None:
    bench = Bench()
    bench.begin("a", 100.0, per_s=10.0)
    bench.until(50.0)
    assert bench.done == {"a": 10.0}


def test_two_that_fill_a_device_are_half_as_fast() -> None:
    bench = Bench()
    bench.begin("a", 10.0)
    bench.begin("b", 20.0)
    bench.until(100.0)
    assert bench.done == {"a": 20.0, "b": 30.0}


def test_what_leaves_room_does_not_slow_others_down() -> None:
    bench = Bench()
    bench.begin("a", 10.0, share=0.5)
    bench.begin("b", 10.0, share=0.5)
    bench.until(9.0)
    assert bench.engine.demand("d") == 1.0
    bench.begin("c", 10.0, share=0.5)
    bench.until(100.0)
    assert bench.done["a"] == bench.done["b"] == pytest.approx(10.5)


def test_who_leaves_makes_others_faster_and_says_what_is_left() -> None:
    bench = Bench()
    first = bench.begin("a", 100.0)
    bench.begin("b", 20.0)
    bench.until(10.0)
    bench.engine.leave(first)
    bench.until(100.0)
    assert bench.done == {"b": 25.0}
    assert first.left == 95.0


def test_a_gang_goes_as_its_slowest_device() -> None:
    bench = Bench()
    bench.begin("gang", 10.0, "d", "e")
    bench.begin("other", 1000.0, "e")
    bench.until(100.0)
    assert bench.done == {"gang": 20.0}


def test_stragglers_and_hangs() -> None:
    bench = Bench()
    bench.begin("a", 10.0)
    bench.until(5.0)
    bench.engine.set_health("d", 0.5)
    bench.until(7.0)
    bench.engine.set_health("d", 0.0)
    bench.until(50.0)
    assert bench.done == {}
    bench.engine.set_health("d", 1.0)
    bench.until(100.0)
    assert bench.done == {"a": 54.0}


@given(st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(1.0, 50.0)), min_size=1, max_size=8))
def test_a_device_that_is_never_idle_does_all_it_can(begins: list[tuple[float, float]]) -> None:
    """However tasks overlap, they are over when a device that does one after the other would be done with all."""
    bench = Bench()
    for number, (at, amount) in enumerate(begins):
        bench.agenda.later(at, lambda number=number, amount=amount: bench.begin(str(number), amount))  # type: ignore[misc]
    bench.until(10_000.0)
    free_at = 0.0
    for at, amount in sorted(begins):
        free_at = max(free_at, at) + amount
    assert len(bench.done) == len(begins)
    assert max(bench.done.values()) == pytest.approx(free_at)
