"""Texts while the controller drains: notes, status, the queue and explanations name it before anything else."""

from __future__ import annotations

import pytest

from hostler.core.explain import explain_job
from hostler.core.explain_device import explain_device, find_device
from hostler.core.notes import notes_of
from hostler.core.slices import finished
from hostler.core.views import queue_rows, status_view
from hostler.model import inputs
from hostler.model.views import Explanation
from hostler.model.work import Resources
from tests.core.builders import Driver, fleet, script

DRAINING = "the controller is draining: nothing new starts"


@pytest.fixture
def world() -> Driver:
    """Two devices, one job that runs, and a controller that drains."""
    driver = fleet(devices=2)
    driver.submit(script("train"))
    driver.tell(inputs.Drain())
    driver.submit(script("next"))
    return driver


def explained(driver: Driver) -> Explanation:
    return explain_job(driver.state, driver.core.index, driver.state.jobs["j2"])


def test_note_at_submission_names_the_draining(world: Driver) -> None:
    (found,) = finished(notes_of(world.state, world.core.index, [world.state.jobs["j2"]]))
    assert (found.fits, found.why) == (True, f"{DRAINING}; it starts after the next `hostler up`")


def test_note_of_a_job_that_fits_on_no_device_names_that_first(world: Driver) -> None:
    world.submit(script("gpu", resources=Resources(device="gpu")))
    (found,) = finished(notes_of(world.state, world.core.index, [world.state.jobs["j3"]]))
    assert not found.fits
    assert "needs a GPU" in found.why


def test_status_names_what_the_draining_waits_for(world: Driver) -> None:
    def draining(driver: Driver) -> tuple[str, ...] | None:
        return status_view(driver.state, driver.core.index, "1", "fleet").draining

    assert draining(world) == ("j1",)
    assert draining(fleet()) is None


def test_explanation_begins_with_the_draining(world: Driver) -> None:
    said = explained(world)
    assert said.summary == f"j2 waits: {DRAINING}; the next `hostler up` starts it"
    assert said.start is not None
    assert said.start.why == "the controller is draining and starts nothing new"
    assert [change.what for change in said.changes][:1] == ["the next `hostler up`, once this controller has ended"]
    assert said.devices["n/cpu1"] == "free; the controller is draining"


def test_queue_and_devices_name_the_draining(world: Driver) -> None:
    (row,) = queue_rows(world.state, world.core.index, 10)
    assert row.waits_for == "the next `hostler up`: the controller is draining"
    said = explain_device(world.state, world.core.index, find_device(world.state, "n/cpu1"))
    assert said.summary == "n/cpu1 is idle: the controller is draining and starts nothing new"
