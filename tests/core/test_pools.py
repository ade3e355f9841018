"""Pools: what waits in a cluster's queue is bounded, said, and has no device time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from hostler.core import accounts, pools
from hostler.core.explain import explain_job
from hostler.core.views import node_views
from hostler.model import commands, events, inputs
from hostler.model.batch import Ask
from hostler.model.errors import NotFound
from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.pools import BatchTask, Pool, Seen, SlotPhase, SlotSeen, Span
from hostler.model.work import BatchOptions, DeviceKind, JobState, Resources, WorkKind
from hostler.policy import retry
from hostler.policy.fit import Refusal
from tests.core.builders import Driver, ended, link_up, replayed, script, sweep

HOUR = Span(seconds=3600.0, longest=False, saves=False)


def pool(devices: int = 8, max_pending: int = 3, per_host: int | None = 4, **more: Any) -> NodeSpec:
    slots = tuple(
        DeviceSpec(id=f"n/cuda{at}", node="n", kind=DeviceKind.CUDA, index=at, model="h100", vram_gb=80.0)
        for at in range(devices)
    )
    terms = Pool(partition="gpu", max_pending=max_pending, gpus_per_host=per_host, **more)
    return NodeSpec(name="n", backend="slurm", devices=slots, pool=terms)


def linked(spec: NodeSpec) -> Driver:
    world = Driver()
    world.tell(inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=spec), link_up())
    return world


def started(attempt: str) -> inputs.Started:
    return inputs.Started(attempt=attempt, pid=1, pid_start=1)


def seen(*, stays: bool = True, **slots: SlotPhase) -> inputs.PoolSeen:
    told: Mapping[str, SlotSeen] = {
        name: SlotSeen(phase=phase, job="823", says=f"{phase} (Resources)", stays=stays)
        for name, phase in slots.items()
    }
    return inputs.PoolSeen(node="n", seen=Seen(at=1.0, slots=told))


def held(world: Driver) -> list[str]:
    return sorted(name for name, device in world.state.devices.items() if device.attempts or device.chunks)


def test_no_more_slots_wait_than_may() -> None:
    world = linked(pool(max_pending=3))
    world.submit(*(script(name=f"s{at}") for at in range(6)))
    assert len(held(world)) == 3
    says = explain_job(world.state, world.core.index, world.state.jobs["j4"]).devices
    assert says["n/cuda7"] == "cluster queue: 3 slots of n wait in the cluster's queue, 3 may"


def test_where_all_may_wait_nobody_counts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def waiting(*_: object) -> int:
        raise AssertionError("for each of thousands of slots, all of them were counted")

    monkeypatch.setattr(pools, "waiting", waiting)
    world = linked(pool(devices=8, max_pending=8))
    world.submit(*(script(name=f"s{at}") for at in range(9)))
    assert len(held(world)) == 8


def test_where_there_is_nothing_to_do_nobody_looks_at_all_slots_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    def gate(*_: object) -> None:
        raise AssertionError("an idle slot was asked whether it may be given nothing")

    monkeypatch.setattr(pools, "gate", gate)
    world = linked(pool())
    world.tell(seen(cuda0=SlotPhase.UP))
    assert held(world) == []


def test_where_no_more_may_wait_one_of_those_who_wait_is_asked_for_each_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, gate = [0], pools.gate

    def counted(*given: Any) -> Refusal | None:
        asked[0] += 1
        return gate(*given)

    world = linked(pool(devices=50, max_pending=1, longest_s=3600.0))
    world.submit(*(script(name=f"s{at}") for at in range(100)))
    monkeypatch.setattr(pools, "gate", counted)
    world.tell(seen(cuda0=SlotPhase.WAITING))
    assert asked[0] <= 3 * 50, "what a cluster's queue says, it says of all of them"


def test_idle_slots_are_looked_for_once_for_all_that_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, takes_more = [0], pools._takes_more

    def counted(slot: SlotSeen) -> bool:
        looks[0] += 1
        return takes_more(slot)

    monkeypatch.setattr(pools, "_takes_more", counted)
    world = linked(pool(devices=50, max_pending=1))
    world.submit(script(), script(name="second"))
    looks[0] = 0
    world.tell(seen(stays=False, **{f"cuda{at}": SlotPhase.UP for at in range(10, 50)}))
    assert looks[0] <= 3 * 50


def test_another_may_wait_when_one_has_begun() -> None:
    world = linked(pool(max_pending=3))
    world.submit(*(script(name=f"s{at}") for at in range(6)))
    world.tell(started("j1.1"))
    assert len(held(world)) == 4
    world.tell(ended("j2.1"))
    assert len(held(world)) == 4, "j2 is done, and one more takes its place in the queue"
    assert replayed(world.entries).state == world.state


def test_slots_with_a_batch_job_and_nothing_to_do_count_as_waiting() -> None:
    world = linked(pool(max_pending=2))
    world.tell(seen(cuda5=SlotPhase.WAITING, cuda6=SlotPhase.ASKED))
    world.submit(script(), script(name="second"), script(name="third"))
    assert held(world) == ["n/cuda5", "n/cuda6"], "they wait anyway: they are given what there is"


def test_a_slot_that_runs_idle_is_used_before_the_cluster_is_asked_for_more() -> None:
    world = linked(pool())
    world.tell(seen(cuda6=SlotPhase.UP))
    world.submit(script())
    assert held(world) == ["n/cuda6"]
    world.submit(script(name="second"))
    assert len(held(world)) == 2


def test_behind_a_job_that_ends_the_next_one_waits_in_the_queue() -> None:
    world = linked(pool(max_pending=1))
    world.tell(seen(stays=False, cuda5=SlotPhase.UP, cuda6=SlotPhase.UP))
    world.submit(script(), script(name="second"))
    assert len(held(world)) == 1, "none of those that end takes another"
    world.tell(started("j1.1"))
    assert len(held(world)) == 2


def test_a_gang_does_not_wait_for_a_single_idle_slot() -> None:
    world = linked(pool())
    world.tell(seen(cuda6=SlotPhase.UP))
    world.submit(script(resources=Resources(gpus=2)))
    assert len(held(world)) == 2


def test_no_job_is_put_on_more_gpus_than_a_host_has() -> None:
    world = linked(pool(per_host=2))
    world.submit(script(resources=Resources(gpus=3)))
    assert held(world) == []
    says = explain_job(world.state, world.core.index, world.state.jobs["j1"]).devices
    assert says["n/cuda0"] == "does not fit: GPUs: needs 3 of one host, those of n have 2"


def test_sweeps_wait_for_no_more_slots_either() -> None:
    world = linked(pool(max_pending=2))
    world.submit(sweep(stop=1 << 30))
    assert len(held(world)) == 2
    world.tell(seen(cuda0=SlotPhase.UP, cuda1=SlotPhase.UP))
    assert len(held(world)) == 4


def test_what_waits_in_the_queue_has_no_device_time() -> None:
    world = linked(pool())
    world.submit(script())
    account = accounts.kind_account(WorkKind.SCRIPT)
    world.tell(inputs.Tick(), after_s=3600.0)
    assert accounts.served_s(world.state, world.core.index, account) == 0.0
    world.tell(started("j1.1"))
    world.tell(inputs.Tick(), after_s=100.0)
    assert accounts.served_s(world.state, world.core.index, account) == pytest.approx(100.0, rel=0.05)
    world.tell(ended("j1.1"))
    assert accounts.served_s(world.state, world.core.index, account) == pytest.approx(101.0, rel=0.05)
    assert replayed(world.entries).state == world.state


def test_an_attempt_that_never_began_had_nothing() -> None:
    world = linked(pool())
    world.submit(script())
    world.tell(inputs.Tick(), after_s=3600.0)
    world.tell(inputs.Cancel(job="j1"), inputs.Ended(attempt="j1.1", ended_at=world.now, reason="stopped"))
    account = accounts.kind_account(WorkKind.SCRIPT)
    assert accounts.served_s(world.state, world.core.index, account) == 0.0
    assert world.job_state("j1") is JobState.CANCELLED


def test_processes_are_not_bound_to_slots() -> None:
    world = linked(pool())
    world.submit(script(), sweep(stop=1 << 20))
    (launch,) = [each for each in world.commands if isinstance(each, commands.Launch)]
    assert "CUDA_VISIBLE_DEVICES" not in launch.order.env
    lend = next(each for each in world.commands if isinstance(each, commands.Lend))
    assert "CUDA_VISIBLE_DEVICES" not in lend.worker.env


def test_an_order_says_what_it_needs_of_the_cluster() -> None:
    world = linked(pool())
    world.submit(script(resources=Resources(gpus=2, cpus=8, memory_gb=32), walltime_s=600.0))
    (launch,) = [each for each in world.commands if isinstance(each, commands.Launch)]
    ask = launch.order.ask
    assert ask is not None
    assert (ask.work, ask.devices, ask.model, ask.cpus, ask.memory_gb, ask.walltime_s) == (
        WorkKind.SCRIPT, 2, "h100", 8, 32, 600.0,
    )  # fmt: skip


def asked(world: Driver) -> Ask:
    (launch,) = [each for each in world.commands if isinstance(each, commands.Launch)]
    assert launch.order.ask is not None
    return launch.order.ask


def test_what_is_expected_of_a_job_is_asked_for() -> None:
    world = linked(pool())
    world.submit(script())
    assert asked(world).expected_s is None
    world.submit(script(name="long", expected_s={"*": 36_000.0}))
    assert (asked(world).expected_s or 0.0) > 36_000.0, "a margin for what its owner did not expect"


def test_what_was_cut_off_is_given_twice_the_time() -> None:
    world = linked(pool())
    world.submit(script())
    assert asked(world).longer == 1.0
    world.tell(ended("j1.1", exit_code=None, reason="lost", error="its node is gone"))
    assert asked(world).longer == 1.0, "it was not the time that was too little"
    world.tell(ended("j1.2", exit_code=None, reason="short", error="its time was over"))
    assert asked(world).longer == 2.0
    world.tell(ended("j1.3", exit_code=None, reason="short", error="its time was over"))
    assert asked(world).longer == 4.0
    job = world.state.jobs["j1"]
    assert (job.failures, job.why) == ({"lost": 1}, "its time was over"), "no failure, and none of a lost node's budget"
    assert replayed(world.entries).state == world.state


def test_what_is_cut_off_for_ever_has_failed() -> None:
    world = linked(pool())
    world.submit(script())
    for attempt in range(1, retry.SHORT_MOST + 2):
        assert not world.job_state("j1").final
        world.tell(ended(f"j1.{attempt}", exit_code=None, reason="short", error="its time was over"))
    assert world.job_state("j1") is JobState.FAILED
    assert world.state.jobs["j1"].failures == {"timeout": 1}


def test_a_job_goes_not_where_it_would_be_cut_off() -> None:
    world = linked(pool(longest_s=3600.0))
    world.submit(script(walltime_s=7200.0), script(name="short", walltime_s=600.0))
    assert world.job_state("j1") is JobState.PENDING
    assert world.job_state("j2") is not JobState.PENDING
    says = explain_job(world.state, world.core.index, world.state.jobs["j1"]).devices
    assert "n gives a job 1h 00m at most, it may run, with its start and its end, 2h 00m" in says["n/cuda7"]


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"walltime_s": 3600.0}, "gives a job 1h 00m at most, it may run, with its start and its end, 1h 05m"),
        ({"walltime_s": 7200.0, "expected_s": {"*": 60.0}}, "it may run, with its start and its end, 2h 05m"),
        ({"expected_s": {"*": 7200.0}}, "gives a job 1h 00m at most, it takes, with its start and its end, 2h 05m"),
        ({"expected_s": {"*": 3500.0}}, "gives a job 1h 00m at most, it takes, with its start and its end, 1h 03m"),
        ({"batch": BatchOptions(time_s=7200.0)}, "at most, its own `time_s` is 2h 00m"),
        ({"batch": BatchOptions(time_s=7200.0), "checkpoints": True}, "its own `time_s` is 2h 00m"),
        ({"batch": BatchOptions(cpus=17)}, "cluster options: needs 17 cores of one host, the largest of n has 16"),
        ({"batch": BatchOptions(memory_gb=65)}, "cluster options: needs 65 GB of one host, the largest of n has 64 GB"),
        ({"resources": Resources(cpus=17)}, "does not fit: host CPUs: needs 17 cores of one host, the largest of n"),
        ({"resources": Resources(memory_gb=63.5)}, "memory: needs 64.5 GB of one host, the largest of n has 64 GB"),
        ({"resources": Resources(gpus=3)}, "does not fit: GPUs: needs 3 of one host, those of n have 2"),
    ],
)
def test_what_a_cluster_could_never_give_is_not_asked_of_it(spec: dict[str, Any], says: str) -> None:
    world = linked(
        pool(
            longest_s=3600.0, margin_s=300.0, cpus_per_host=16, memory_gb_per_host=64.0, overhead_gb=1.0,
            gpus_by_model={"a10": 4, "h100": 2},
        )
    )  # fmt: skip
    world.submit(script(), script(name="never", **spec), script(name="another"))
    assert held(world) == ["n/cuda0", "n/cuda1"], "what is like it is not kept from it"
    assert says in explain_job(world.state, world.core.index, world.state.jobs["j2"]).devices["n/cuda7"]


@pytest.mark.parametrize(
    "spec",
    [
        {"walltime_s": 3300.0},
        {"expected_s": {"*": 3300.0}},
        {"walltime_s": 7200.0, "checkpoints": True},
        {"walltime_s": 7200.0, "batch": BatchOptions(time_s=3600.0)},
        {"batch": BatchOptions(cpus=16, memory_gb=64, time_s=3600.0)},
        {"resources": Resources(cpus=16, memory_gb=63, gpus=2)},
    ],
)
def test_what_just_fits_is_asked_for(spec: dict[str, Any]) -> None:
    limits = {"longest_s": 3600.0, "margin_s": 300.0, "cpus_per_host": 16, "memory_gb_per_host": 64.0}
    world = linked(pool(per_host=2, overhead_gb=1.0, **limits))
    world.submit(script(**spec))
    assert held(world) != []


def test_what_one_job_wants_of_a_cluster_without_limits_keeps_no_other_from_it() -> None:
    world = linked(pool(cpus_per_host=16))
    world.submit(script(batch=BatchOptions(cpus=17)), script(name="second"))
    assert held(world) == ["n/cuda0"]
    assert world.job_state("j1") is JobState.PENDING


def test_the_workers_of_a_sweep_ask_for_what_it_needs() -> None:
    world = linked(pool())
    world.submit(sweep(stop=1 << 20, resources=Resources(cpus=2, memory_gb=3)))
    ask = next(each for each in world.commands if isinstance(each, commands.Lend)).worker.ask
    assert ask is not None
    assert (ask.cpus, ask.memory_gb) == (2, 3)


def test_batches_are_facts_until_they_are_closed() -> None:
    world = linked(pool())
    tasks = (BatchTask(slot="cuda0", attempts=("j1.1",)),)
    asked = inputs.Requested(node="n", token="t", mode="job", tasks=tasks, wants="1 × h100", time=HOUR)
    world.tell(asked, asked)
    assert len(world.of(events.BatchRequested)) == 1
    world.tell(inputs.Submitted(node="n", token="t", job="823"))
    (view,) = node_views(world.state, world.core.index)
    (batch,) = view.batches
    assert (batch.token, batch.job, batch.tasks, batch.wants) == ("t", "823", tasks, "1 × h100")
    assert replayed(world.entries).state == world.state
    world.tell(inputs.Closed(node="n", token="t", why="over"), inputs.Closed(node="n", token="t", why="over"))
    assert world.state.batches == {}
    assert len(world.of(events.BatchClosed)) == 1


def test_a_pool_that_nobody_knows_is_refused() -> None:
    world = linked(pool())
    stranger = replace(seen(), node="m")
    (answer,) = world.core.handle(world.now + 1, stranger).answers
    assert isinstance(answer, NotFound)


def test_people_are_told_what_the_cluster_says() -> None:
    world = linked(pool())
    world.submit(script())
    world.tell(inputs.Launched(attempts=("j1.1",)))
    slot = held(world)[0].removeprefix("n/")
    world.tell(seen(**{slot: SlotPhase.WAITING}))
    told = explain_job(world.state, world.core.index, world.state.jobs["j1"])
    assert "its batch job 823: waiting (Resources)" in told.summary
    assert not any("its batch job" in reason for reason in told.reasons), "nothing is said twice"
    world.tell(started("j1.1"))
    told = explain_job(world.state, world.core.index, world.state.jobs["j1"])
    assert "its batch job" not in told.summary
    assert any("its batch job 823" in reason for reason in told.reasons)


def test_nothing_is_asked_of_a_partition_where_nothing_begins() -> None:
    world = linked(pool())
    world.tell(inputs.PoolSeen(node="n", seen=Seen(at=1.0, closed="down")))
    world.submit(script())
    assert held(world) == []
    says = explain_job(world.state, world.core.index, world.state.jobs["j1"]).devices
    assert says["n/cuda0"] == "cluster queue: partition gpu is down: nothing begins there"
    world.tell(seen())
    assert held(world) != []
