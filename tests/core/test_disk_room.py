"""Free space on a node's disk: kept for what runs there, waited for, refused by the node itself where it is gone."""

from __future__ import annotations

from typing import Any

from hostler.core.explain import explain_job
from hostler.model.commands import Launch
from hostler.model.events import ChunkLeased, JobRequeued
from hostler.model.inputs import NodeFound
from hostler.model.work import DeviceKind, JobState, Resources
from tests.core.builders import ended, link_up, node, script, sweep
from tests.core.care.builders import Ward


def ward(*names: str, devices: int = 2) -> Ward:
    made = Ward()
    for name in names:
        made.tell(NodeFound(node=node(name, devices, DeviceKind.CUDA, 24.0)), link_up(name))
    return made


def needs(disk_gb: float | None, name: str = "job", **spec: Any) -> Any:
    return script(name, resources=Resources(device="gpu", disk_gb=disk_gb), **spec)


def hear(world: Ward, free_gb: float, name: str = "n") -> None:
    world.hear(name=name, disk_free_gb=free_gb)


def test_what_runs_keeps_its_room_until_it_is_over() -> None:
    world = ward("n")
    hear(world, 50.0)
    first, second = world.submit(needs(30.0), needs(30.0, "other"))
    assert (world.job_state(first).held, world.job_state(second)) == (True, JobState.PENDING)
    told = explain_job(world.state, world.core.index, world.state.jobs[second])
    assert "needs 30 GB; n has 50 GB free, 30 of it kept for what runs there" in str(told)
    attempt = world.state.jobs[first].attempt
    assert attempt is not None
    world.tell(ended(attempt.id))
    hear(world, 50.0)
    assert world.job_state(second).held


def test_room_that_comes_by_itself_is_noticed() -> None:
    world = ward("n")
    hear(world, 10.0)
    (job,) = world.submit(needs(30.0))
    assert world.job_state(job) is JobState.PENDING
    hear(world, 40.0)
    assert world.job_state(job).held
    world.core.validate()


def test_the_order_says_how_much_there_must_be() -> None:
    world = ward("n")
    (job, other) = world.submit(needs(30.0), needs(None, "other"))
    orders = {each.order.id: each.order for each in world.commands if isinstance(each, Launch)}
    assert orders[f"{job}.1"].disk_bytes == 30 * 2**30
    assert orders[f"{other}.1"].disk_bytes is None


def test_a_node_that_is_full_by_now_is_no_failure_of_the_job() -> None:
    world = ward("n", "m", devices=1)
    (job,) = world.submit(needs(30.0))
    attempt = world.state.jobs[job].attempt
    assert attempt is not None
    first = world.state.devices[attempt.device].spec.node
    world.tell(ended(attempt.id, exit_code=None, reason="full", error="it needs 30 GB of free space, /x has 3"))
    (requeued,) = world.of(JobRequeued)
    assert (requeued.failure, requeued.avoid) == (None, first)
    assert "it needs 30 GB of free space" in requeued.why
    assert world.state.jobs[job].failures == {}
    world.wait(100.0)
    again = world.state.jobs[job].attempt
    assert again is not None
    assert world.state.devices[again.device].spec.node != first
    world.core.validate()


def test_a_full_node_gets_no_sweep_and_one_that_is_only_well_filled_does() -> None:
    """Workers write little: the share that keeps trainings away does not keep them, the last gigabyte does."""
    world = ward("n", devices=1)
    hear(world, 0.5)
    world.submit(sweep(stop=10**9))
    assert not world.of(ChunkLeased)
    hear(world, 1.1)
    assert not world.of(ChunkLeased), "it must be roomier by a margin"
    hear(world, 5.0)
    assert len(world.of(ChunkLeased)) > 0
    world.core.validate()


def test_it_comes_back_to_the_only_node_there_is() -> None:
    world = ward("n", devices=1)
    (job,) = world.submit(needs(30.0))
    for number in range(1, 6):
        attempt = world.state.jobs[job].attempt
        assert attempt is not None
        assert attempt.id == f"{job}.{number}"
        world.tell(ended(attempt.id, exit_code=None, reason="full", error="no room"))
        assert world.job_state(job) is JobState.PENDING, "however often"
        world.wait(100.0)
