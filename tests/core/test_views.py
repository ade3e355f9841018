"""What is shown of the queue."""

from __future__ import annotations

from hostler.core.views import queue_rows
from hostler.model.work import Resources
from tests.core.builders import Driver, fleet, script, sweep

GPU = Resources(device="gpu")


def waits(world: Driver, limit: int = 10) -> list[str | None]:
    return [row.waits_for for row in queue_rows(world.state, world.core.index, limit)]


def test_a_job_that_fits_on_no_device_says_so() -> None:
    world = fleet()
    world.submit(script(), script(), script(resources=GPU), sweep(resources=GPU))
    gate = "fits on no device: device kind: needs a GPU, n/cpu0 is a CPU slot"
    assert waits(world) == [None, gate, gate]
    assert waits(world, limit=2) == [None, gate]


def test_a_fleet_without_devices_refuses_nothing_yet() -> None:
    world = Driver()
    world.submit(script(resources=GPU))
    assert waits(world) == [None]
