"""Nodes of the fleet that have not been connected yet: notes, explanations and the queue name them, and why."""

from __future__ import annotations

import pytest

from hostler.core.explain import explain_job
from hostler.core.notes import notes_of
from hostler.core.slices import finished
from hostler.core.views import queue_rows, status_view
from hostler.model.fleet import NodeSpec
from hostler.model.inputs import Begin, LinkDown, NodeFound
from hostler.model.views import AWAY_MOST, Explanation
from hostler.model.work import JobSpec, Resources
from tests.core.builders import Driver, fleet, script

KEY = "its host key is not known; `hostler node trust fleet.yaml`"
THERE = Resources(nodes=("rig-1",))


def world_with(backend: str = "ssh", why: str | None = KEY) -> Driver:
    """A node that is connected, and one that has never been."""
    world = fleet(devices=2)
    world.tell(NodeFound(node=NodeSpec(name="rig-1", backend=backend, devices=())))
    if why is not None:
        world.tell(LinkDown(node="rig-1", why=why))
    return world


def note(world: Driver, spec: JobSpec) -> tuple[bool, str]:
    (name,) = world.submit(spec)
    (found,) = finished(notes_of(world.state, world.core.index, [world.state.jobs[name]]))
    return found.fits, found.why


def explained(world: Driver, name: str = "j1") -> Explanation:
    return explain_job(world.state, world.core.index, world.state.jobs[name])


def test_note_of_a_job_for_a_node_that_is_not_connected_has_the_remedy() -> None:
    assert note(world_with(), script(resources=THERE)) == (True, f"rig-1 is not connected: {KEY}")


@pytest.mark.parametrize(
    ("backend", "says"),
    [
        ("ssh", "it has not answered yet"),
        ("dialin", "it has not called yet; `hostler node invite FLEET rig-1` prints what to run there"),
        ("slurm", "its cluster has not answered yet"),
        ("ray", "its cluster has not answered yet"),
    ],
)
def test_node_that_has_not_answered_yet_is_named_by_its_kind(backend: str, says: str) -> None:
    assert note(world_with(backend, None), script(resources=THERE)) == (True, f"rig-1 is not connected: {says}")


def test_note_of_a_job_that_fits_on_no_connected_device_names_those_not_connected() -> None:
    fits, why = note(world_with(), script(resources=Resources(device="gpu")))
    assert (fits, why) == (
        False,
        f"needs a GPU, and the fleet has none (2 CPU slots); rig-1 is not connected: {KEY}",
    )


def test_nodes_that_a_job_excludes_are_not_named() -> None:
    _, why = note(world_with(), script(resources=Resources(device="gpu", exclude_nodes=("rig-1",))))
    assert "rig-1 is not" not in why


def test_node_of_an_earlier_fleet_file_is_not_named() -> None:
    world = world_with()
    world.tell(Begin(version="test", epoch=2))
    _, why = note(world, script(resources=Resources(device="gpu")))
    assert "rig-1 is not" not in why


def test_many_nodes_that_are_not_connected_are_counted() -> None:
    world = fleet()
    for at in range(9):
        world.tell(NodeFound(node=NodeSpec(name=f"rig-{at}", backend="ssh", devices=())))
        world.tell(LinkDown(node=f"rig-{at}", why="no route"))
    _, why = note(world, script(resources=Resources(device="gpu")))
    assert why.endswith("rig-2 is not connected: no route; and 6 more nodes are not connected")


def test_explanation_names_the_node_that_is_not_connected_first() -> None:
    world = world_with()
    world.submit(script(resources=THERE), script(resources=Resources(device="gpu")))
    said = explained(world)
    assert said.summary == f"j1 waits: rig-1 is not connected: {KEY}"
    assert said.changes[0].what == "rig-1 is connected"
    assert f"rig-1 is not connected: {KEY}" in explained(world, "j2").summary


def test_connection_of_a_node_is_no_remedy_for_a_job_that_fits_elsewhere() -> None:
    world = world_with()
    world.submit(script(), script(), script())
    assert not [change for change in explained(world, "j3").changes if "rig-1" in change.what]


def test_queue_names_the_node_that_is_not_connected() -> None:
    world = world_with()
    world.submit(script(resources=THERE))
    (row,) = queue_rows(world.state, world.core.index, 10)
    assert row.waits_for == f"rig-1 is not connected: {KEY}"


def test_status_names_nodes_out_of_reach_with_their_reasons() -> None:
    world = world_with()
    away = status_view(world.state, world.core.index, "1", "fleet").nodes_away
    assert away == {"rig-1": KEY}
    for at in range(9):
        world.tell(NodeFound(node=NodeSpec(name=f"x{at}", backend="ssh", devices=())))
    assert len(status_view(world.state, world.core.index, "1", "fleet").nodes_away) == AWAY_MOST
