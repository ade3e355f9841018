"""decisions.py: its stream of events is one that a fleet could live, and its peer does what it says."""

from random import Random

import pytest

import decisions
import naive_queue
from hostler.model.work import JobState
from virtual_fleet import World, nodes, scripts, taken


@pytest.fixture(scope="module")
def world() -> World:
    """A small fleet that has lived through everything there is."""
    made = World(40, 6)
    made.submit(200)
    decisions.play(made, 120)
    return made


def test_the_stream_keeps_the_fleet_busy_and_the_state_whole(world: World) -> None:
    world.core.validate()
    index = world.core.index
    assert index.counts[JobState.PENDING] > 100
    assert sum(index.counts[each] for each in JobState if each.held) > 30
    assert {"node lost", "node returns", "telemetry", "training arrives", "selfplay ends"} <= world.times.keys()
    assert taken(world.times.values())[0] > 0


def test_a_replan_is_made_of_its_parts(world: World) -> None:
    pytest.importorskip("highspy")
    found = decisions.replanned(world)
    assert all(value is not None and value > 0 for value in found.values())


def test_the_exponent_is_the_slope() -> None:
    rows = [{"devices": size, "full re-plan": 0.5 * size**1.5} for size in decisions.SIZES]
    assert decisions.exponent(rows, "full re-plan") == pytest.approx(1.5)
    assert decisions.exponent([{"devices": 10, "full re-plan": None}], "full re-plan") is None


def test_the_peer_fills_the_fleet_and_serves_who_comes_first() -> None:
    random = Random(1)
    fleet = nodes(30, random)
    queue = naive_queue.NaiveQueue(fleet, scripts(0, 300, random, urgent=0.5))
    urgent = sum(job.priority == 1 for job in queue.waiting)
    placed = queue.schedule()
    assert placed == len(queue.busy)
    assert all(not naive_queue.fits(job, device) for job in queue.waiting for device in queue.free)
    assert sum(job.priority == 1 for job in queue.waiting) <= urgent - placed + len(queue.free)
    assert naive_queue.timed(fleet, queue.waiting, 3, random)[1]
