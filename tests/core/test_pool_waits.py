"""What waits in a cluster's queue: it goes back where its node takes no more, and what may wait for ever is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.core.explain import explain_job
from hostler.core.views import queue_rows
from hostler.model import commands, events, inputs
from hostler.model.pools import BatchTask, SlotPhase, SlotSeen
from hostler.model.work import JobState, Resources
from tests.core.builders import Driver, ended, fleet, link_up, node, replayed, script, sweep

from .test_pools import HOUR, held, linked, pool, seen, started

WAYS = [inputs.CordonNode(node="n"), inputs.CordonNode(node="n", drain=True)]


def stops(world: Driver) -> list[str]:
    return [each.attempt for each in world.commands if isinstance(each, commands.Stop)]


def recalls(world: Driver) -> list[str]:
    return [each.chunk for each in world.commands if isinstance(each, commands.Recall)]


@pytest.mark.parametrize("way", WAYS)
def test_what_the_cluster_has_not_begun_goes_elsewhere(way: inputs.CordonNode) -> None:
    world = linked(pool())
    world.submit(script(), script(resources=Resources(device="any")))  # it may go to a node without GPUs
    world.tell(inputs.Launched(attempts=("j1.1", "j2.1")), started("j1.1"))
    world.tell(way)
    assert stops(world) == ["j2.1"], "what runs, runs on"
    world.tell(way)
    assert stops(world) == [], "it is asked once"
    world.tell(ended("j2.1", exit_code=None, reason="stopped", error="preempted"))
    assert world.job_state("j2") is JobState.PENDING
    (back,) = world.of(events.JobRequeued)
    assert back.failure is None
    assert world.state.jobs["j2"].failures == {}
    world.tell(inputs.NodeFound(node=node(name="m")), link_up(name="m"))
    assert world.job_state("j2") is JobState.LEASED
    assert replayed(world.entries).state == world.state


def test_a_drained_pool_is_empty_without_what_waited() -> None:
    world = linked(pool())
    world.submit(script())
    world.tell(WAYS[1])
    world.tell(ended("j1.1", exit_code=None, reason="stopped", error="preempted"))
    assert len(world.of(events.NodeDrained)) == 1


def test_what_waits_behind_others_on_any_other_node_stays() -> None:
    world = fleet()
    world.submit(script(), script())
    world.tell(WAYS[1])
    assert stops(world) == []


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("phase", [SlotPhase.UP, SlotPhase.WAITING])
def test_chunks_that_wait_with_their_allocation_are_recalled(way: inputs.CordonNode, phase: SlotPhase) -> None:
    world = linked(pool(devices=1))
    world.submit(sweep())
    world.tell(seen(cuda0=phase))
    chunks = list(world.state.devices["n/cuda0"].chunks)
    assert len(chunks) == 2
    world.tell(way)
    assert recalls(world) == (chunks[1:] if phase is SlotPhase.UP else chunks)


@pytest.mark.parametrize("drain", [False, True])
def test_work_that_waits_in_the_queue_behind_a_cordoned_slot_goes_elsewhere(drain: bool) -> None:
    world = linked(pool())
    world.submit(script(), script())
    world.tell(inputs.Launched(attempts=("j1.1", "j2.1")), started("j1.1"))
    place = {name: held for name, device in world.state.devices.items() for held in device.attempts}
    running, waiting = (next(name for name, attempt in place.items() if attempt == f"j{at}.1") for at in (1, 2))
    world.tell(inputs.CordonDevice(device=running, drain=drain))
    assert stops(world) == [], "what runs, runs on"
    world.tell(inputs.CordonDevice(device=waiting, drain=drain))
    assert stops(world) == ["j2.1"]
    world.tell(ended("j2.1", exit_code=None, reason="stopped", error="preempted"))
    (again,) = world.of(events.AttemptLeased)
    assert again.device not in (running, waiting)
    assert len(world.of(events.DeviceDrained)) == int(drain)


@pytest.mark.parametrize("phase", [SlotPhase.UP, SlotPhase.WAITING])
def test_chunks_of_a_cordoned_slot_are_recalled_with_its_allocation(phase: SlotPhase) -> None:
    world = linked(pool(devices=1))
    world.submit(sweep())
    world.tell(seen(cuda0=phase))
    chunks = list(world.state.devices["n/cuda0"].chunks)
    world.tell(inputs.CordonDevice(device="n/cuda0"))
    assert recalls(world) == (chunks[1:] if phase is SlotPhase.UP else chunks)


def _stuck(world: Driver) -> inputs.PoolSeen:
    """Its first slot that is taken may wait for ever."""
    slot = SlotSeen(phase=SlotPhase.WAITING, job="823", says="PENDING (QOSNotAllowed): the `qos` is wrong", stuck=True)
    told = seen()
    return replace(told, seen=replace(told.seen, slots={held(world)[0].removeprefix("n/"): slot}))


def test_what_may_wait_for_ever_is_said_and_what_helps() -> None:
    world = linked(pool())
    world.submit(script())
    world.tell(_stuck(world))
    advice = (
        "its batch job 823: PENDING (QOSNotAllowed): the `qos` is wrong; it may wait for ever: mend that, or "
        "`hostler node drain n` takes back what waits there (`hostler node resume n` then has it asked for anew), "
        "or `hostler cancel j1`"
    )
    told = explain_job(world.state, world.core.index, world.state.jobs["j1"])
    assert advice in told.summary
    assert advice not in told.reasons, "nothing is said twice"
    (row,) = queue_rows(world.state, world.core.index, 10)
    assert (row.job, row.waits_for) == ("j1", advice)
    world.tell(seen(cuda0=SlotPhase.WAITING))
    assert queue_rows(world.state, world.core.index, 10) == []


def test_one_that_began_is_not_said_to_wait() -> None:
    world = linked(pool())
    world.submit(script())
    told = _stuck(world)
    world.tell(told, started("j1.1"))
    assert queue_rows(world.state, world.core.index, 10) == []


def _requested(attempt: str, job: str | None) -> list[inputs.Input]:
    """A batch that was asked for with an attempt, and what the cluster calls it."""
    tasks = (BatchTask(slot="cuda0", attempts=(attempt,)),)
    token = f"t-{attempt}"
    asked = inputs.Requested(node="n", token=token, mode="job", tasks=tasks, wants="", time=HOUR)
    return [asked, *([] if job is None else [inputs.Submitted(node="n", token=token, job=job)])]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("own", "stays", "phase", "back"),
    [
        (None, True, SlotPhase.UP, []),
        (None, True, SlotPhase.WAITING, ["j1.1"]),
        (None, False, SlotPhase.UP, ["j1.1"]),
        ("823", False, SlotPhase.UP, []),
        ("823", True, SlotPhase.UP, []),
        ("823", False, SlotPhase.UNKNOWN, ["j1.1"]),
        ("900", False, SlotPhase.UP, ["j1.1"]),
        ("900", True, SlotPhase.UP, ["j1.1"]),
    ],
    ids=[
        "given to a pilot that runs", "given to a pilot that waits", "not asked for yet", "it has begun, unheard",
        "with its pilot", "nobody knows", "behind another job", "behind another pilot",
    ],
)  # fmt: skip
def test_what_runs_keeps_what_it_was_given(
    way: inputs.CordonNode, own: str | None, stays: bool, phase: SlotPhase, back: list[str]
) -> None:
    """Also where that it has begun is on its way yet."""
    world = linked(pool(devices=1))
    world.submit(script())
    world.tell(inputs.Launched(attempts=("j1.1",)), *([] if own is None else _requested("j1.1", own)))
    world.tell(seen(cuda0=phase, stays=stays))
    world.tell(way)
    assert stops(world) == back


def test_it_is_said_whether_a_batch_job_was_asked_for() -> None:
    world = linked(pool(devices=1))
    world.submit(script())
    told = []
    for more in ([], _requested("j1.1", None), _requested("j1.1", "823")):
        world.tell(*more)
        told.append(explain_job(world.state, world.core.index, world.state.jobs["j1"]).summary.partition("; ")[2])
    assert told == [
        "no batch job has been asked for yet",
        "its batch job is being submitted",
        "its batch job 823 has been submitted",
    ]
