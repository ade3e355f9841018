"""The duration of a job is that of its last attempt by the clock of the node, within what the controller saw."""

from __future__ import annotations

import pytest

from hostler.core import groups
from hostler.core.state import Job
from hostler.core.views import job_view
from hostler.model import inputs
from tests.core.builders import Driver, ended, fleet, script, sweep


def running() -> Driver:
    world = fleet()
    world.submit(script())
    world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    return world


def job(world: Driver) -> Job:
    return world.state.jobs["j1"]


@pytest.mark.parametrize("offset_s", [0.0, -3600.0, 3600.0])
def test_duration_is_that_of_the_node_after_an_outage_whatever_its_clock(offset_s: float) -> None:
    world = running()
    began = world.now + offset_s
    world.tell(ended("j1.1", started_at=began, ended_at=began + 25), after_s=91)
    view = job_view(world.state, job(world))
    assert view.duration_s == pytest.approx(25)
    assert groups.result(job(world)).duration_s == pytest.approx(25)
    assert view.ended_at == world.now
    assert view.started_at is not None
    assert world.now - 93 <= view.started_at <= world.now


def test_duration_is_no_longer_than_the_attempt_held_its_device() -> None:
    """The clock of the node was set forward while it ran."""
    world = running()
    world.tell(ended("j1.1", started_at=1000.0, ended_at=90000.0), after_s=30)
    assert job_view(world.state, job(world)).duration_s == pytest.approx(31)


def test_duration_is_that_of_the_last_attempt() -> None:
    world = running()
    world.tell(ended("j1.1", started_at=0.0, ended_at=10.0, exit_code=1), after_s=20)
    assert job_view(world.state, job(world)).duration_s is None
    world.tell(inputs.Tick(), after_s=600)
    world.tell(ended("j1.2", started_at=0.0, ended_at=3.0), after_s=20)
    assert job_view(world.state, job(world)).duration_s == pytest.approx(3)


def test_duration_without_times_of_the_node_is_from_start_to_end() -> None:
    world = running()
    world.tell(ended("j1.1", started_at=None), after_s=7)
    assert job_view(world.state, job(world)).duration_s == pytest.approx(7)


def test_duration_of_a_sweep_is_from_start_to_end() -> None:
    world = fleet()
    world.submit(sweep(stop=10))
    while not job(world).state.final:
        chunk, _, _ = world.chunk("j1")
        world.tell(world.searched(chunk), after_s=40)
    view = job_view(world.state, job(world))
    assert view.started_at is not None
    assert view.ended_at is not None
    assert view.duration_s == view.ended_at - view.started_at > 0
