"""Work goes to where its data lies, and the time to bring it elsewhere counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.core import forecast, nearness
from hostler.core.nearness import KEPT
from hostler.core.state import Job
from hostler.model import events, inputs
from hostler.model.work import WorkKind
from tests.core.builders import link_up, node, replayed
from tests.core.loop.builders import Loop, order_of, small
from tests.core.loop.test_closing import Apart, apart


def two() -> Apart:
    """Two nodes alike, each with files of its own."""
    world = Apart()
    found = [inputs.NodeFound(node=replace(node(name), apart=True)) for name in ("far", "near")]
    world.tell(inputs.Begin(version="test", epoch=1), *found, link_up("far"), link_up("near", agent="b"))
    world.tell(inputs.Declare(configs=(small(),)))
    return world


def trained_on(world: Loop) -> tuple[Job, str]:
    """A training with a dataset, which has a device, and that dataset."""
    job = world.until_running(WorkKind.TRAINING)
    return job, order_of(job)["dataset"]["sha256"]


def test_what_was_made_on_a_node_lies_there_and_costs_nothing_to_bring() -> None:
    world = apart()
    job, dataset = trained_on(world)
    spec = world.state.nodes["n"].spec
    assert dataset in world.state.lying["n"]
    assert nearness.transfer_s(world.state, job, spec) == 0.0
    elsewhere = replace(spec, name="elsewhere")
    size = world.config().datasets[dataset].ref.bytes
    model = world.config().models[order_of(job)["base"]].training.model.bytes
    assert nearness.transfer_s(world.state, job, elsewhere) == pytest.approx((size + model) / 30e6)


def test_nothing_is_brought_to_nodes_that_see_our_files() -> None:
    world = apart()
    job, _ = trained_on(world)
    assert nearness.transfer_s(world.state, job, replace(world.state.nodes["n"].spec, name="m", apart=False)) == 0.0


def test_the_time_counts_in_what_is_predicted() -> None:
    world = apart()
    job, _ = trained_on(world)
    assert job.attempt is not None
    device = world.state.devices[job.attempt.device]
    near = forecast.prediction(world.state, world.core.index, job, device)
    world.state.rules = replace(
        world.state.rules, placement=replace(world.state.rules.placement, transfer_mb_per_s=1e-3)
    )
    world.state.lying.clear()
    far = forecast.prediction(world.state, world.core.index, job, device)
    assert near is not None
    assert far is not None
    waits_s = nearness.transfer_s(world.state, job, world.state.nodes["n"].spec)
    assert waits_s > 0
    assert far.p50_s - near.p50_s == pytest.approx(waits_s)
    assert forecast.median_s(world.state, world.core.index, job, device) == near.p50_s, "it is judged by its work"


def test_devices_of_the_node_that_has_it_come_first() -> None:
    world = two()
    job, dataset = trained_on(world)
    assert job.attempt is not None
    here = world.state.devices[job.attempt.device].spec.node
    other = "near" if here == "far" else "far"
    assert dataset in world.state.lying[here], "it was brought there, or made there"
    devices = [f"{other}/cpu0", f"{here}/cpu0"]
    world.state.lying[other] = {}
    assert nearness.nearest_first(world.state, world.core.index, job, devices) == devices[::-1]


def test_another_agent_has_nothing() -> None:
    world = apart()
    trained_on(world)
    world.tell(link_up(agent="another"))
    assert world.state.lying.get("n", {}) == {}


def test_what_was_removed_from_a_node_has_to_be_brought_again() -> None:
    world = two()
    job, dataset = trained_on(world)
    assert job.attempt is not None
    here = world.state.devices[job.attempt.device].spec.node
    path = f"artifacts/objects/{dataset[:2]}/{dataset}.dataset.npz"
    world.tell(inputs.DropTold(node=here, who="retention", dropped=(path, "artifacts/objects/README"), bytes=7))
    assert dataset not in world.state.lying[here]
    world.tell(inputs.DropTold(node="nobody", who="retention", dropped=(path,), bytes=7))
    assert replayed(world.entries).state.lying == world.state.lying


def test_no_more_is_remembered_than_may_be() -> None:
    world = apart()
    job, _ = trained_on(world)
    for number in range(2 * KEPT):
        nearness.made(world.state, job, f"{number:064x}")
    assert list(world.state.lying["n"]) == [f"{number:064x}" for number in range(KEPT, 2 * KEPT)]


def test_it_survives_a_restart() -> None:
    world = apart()
    trained_on(world)
    assert replayed(world.entries).state.lying == world.state.lying
    assert events.DatasetMade in {type(entry.event) for entry in world.entries}
