"""Nothing to wait for any more: work that no device will ever take."""

from __future__ import annotations

from hostler.core.explain import explain_job
from hostler.core.stuck import is_stuck
from hostler.core.views import queue_rows
from hostler.model import inputs
from hostler.model.fleet import NodeSpec
from hostler.model.rules import Cost, Rules
from hostler.model.work import JobSpec, Resources, WorkKind
from tests.core.builders import Driver, script, sweep
from tests.core.test_explain import fleet, rig

GPU = Resources(device="gpu")


def capped(*nodes: NodeSpec, jobs: tuple[JobSpec, ...] = ()) -> Driver:
    """A fleet in which no script and no sweep may cost more than 1 an hour."""
    world = fleet(*nodes, rules=Rules(cost=Cost(max_price_per_h={WorkKind.SCRIPT: 1.0, WorkKind.SWEEP: 1.0})))
    world.submit(*(jobs or (script(resources=GPU),)))
    return world


def stuck(world: Driver) -> bool:
    return is_stuck(world.state, world.core.index, list(world.state.nodes))


def test_what_every_device_is_too_dear_for_is_stuck_and_says_why() -> None:
    world = capped(rig("a", price_per_h=3.0), rig("b", price_per_h=2.0))
    assert stuck(world)
    (row,) = queue_rows(world.state, world.core.index, 10)
    assert row.waits_for is not None
    assert row.waits_for.startswith("fits on no device: costs ")
    summary = explain_job(world.state, world.core.index, world.state.jobs["j1"]).summary
    assert "it fits on no device of the fleet: 2 cost too much" in summary


def test_so_is_a_sweep() -> None:
    world = capped(rig(price_per_h=3.0), jobs=(sweep(resources=GPU),))
    assert not world.state.sweeps["j1"].leases
    assert stuck(world)


def test_one_device_that_may_be_paid_or_whose_price_is_unknown_is_hope() -> None:
    for price in (0.5, None):
        world = capped(rig("a", price_per_h=3.0), rig("b", price_per_h=price))
        assert not stuck(world)
        world = capped(rig("a", price_per_h=price))
        world.tell(inputs.LinkDown(node="a", why="gone"))
        assert not stuck(world)


def test_a_cap_that_is_lifted_frees_it() -> None:
    world = capped(rig(price_per_h=3.0))
    world.tell(inputs.Configure(rules=Rules()))
    assert not stuck(world)


def test_other_kinds_have_caps_of_their_own() -> None:
    world = capped(rig(price_per_h=3.0), jobs=(script(resources=GPU, work_as=WorkKind.TRAINING, config="hex8_2p"),))
    assert not stuck(world)
