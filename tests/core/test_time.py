"""Time never goes back, and nobody waits because a clock was set."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings, strategies as st

from hostler.core import Core
from hostler.core.machine import reaching
from hostler.model import inputs
from hostler.model.work import JobState, Retry
from tests.core.builders import START, ended, fleet, replayed, script

DAY = 86_400.0


def test_the_time_of_events_never_falls() -> None:
    world = fleet()
    world.submit(script())
    before = world.state.at
    world.tell(ended("j1.1", exit_code=1), after_s=-500)
    assert world.state.at == before


def test_a_rest_ends_though_the_clock_was_set_back() -> None:
    world = fleet()
    world.submit(script(retry=Retry(backoff_s=10)))
    world.tell(inputs.Tick(), after_s=DAY)
    world.tell(ended("j1.1", exit_code=1))
    world.tell(inputs.Tick(), after_s=-DAY)
    wake = world.core.wake_at()
    assert wake is not None
    assert wake - world.now == pytest.approx(10)
    world.tell(inputs.Tick(), after_s=11)
    assert world.job_state("j1") is JobState.LEASED


def test_a_rest_ends_though_the_clock_was_right_again_at_the_restart() -> None:
    world = fleet()
    world.submit(script(retry=Retry(backoff_s=10)))
    world.tell(ended("j1.1", exit_code=1), after_s=DAY)
    core = replayed(world.entries)
    core.handle(START, inputs.Begin(version="test", epoch=2))
    wake = core.wake_at()
    assert wake is not None
    assert START < wake <= START + 10.001
    core.handle(START + 11, inputs.Tick())
    assert core.wake_at() is None
    core.validate()


def test_nothing_is_due_in_an_empty_core() -> None:
    core = Core()
    assert core.wake_at() is None
    core.handle(1.0, inputs.Tick())
    assert core.wake_at() is None


@settings(max_examples=30)
@given(st.floats(0.0, 2e9), st.floats(0.0, 1e5))
@example(due=187836.14320984468, ahead_s=4216.804039717026)
def test_the_clock_reaches_what_is_due(due: float, ahead_s: float) -> None:
    at = reaching(due, ahead_s)
    assert at + ahead_s >= due
    assert at == pytest.approx(due - ahead_s)


@settings(max_examples=30)
@given(st.lists(st.floats(-5000.0, 5000.0), max_size=5), st.floats(0.001, 100.0), st.floats(0.0, 2e9))
def test_at_the_time_it_names_the_rest_is_over(jumps: list[float], rest_s: float, start: float) -> None:
    world = fleet()
    world.now += start
    world.submit(script(retry=Retry(backoff_s=rest_s)))
    for jump in jumps:
        world.tell(inputs.Tick(), after_s=jump)
    world.tell(ended("j1.1", exit_code=1))
    for _ in range(3):  # a minute after the first order it is asked whether the node has answered
        wake = world.core.wake_at()
        assert wake is not None
        world.core.handle(wake, inputs.Tick())
        if world.job_state("j1") is JobState.LEASED:
            return
    pytest.fail("the rest is not over at any time that was named")
