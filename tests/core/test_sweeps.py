"""The life of sweeps: chunks out, results and checkpoints in, nothing twice and nothing left out."""

from __future__ import annotations

from typing import Any

import pytest

from hostler.core.explain import explain_job
from hostler.model import commands, events, inputs
from hostler.model.errors import Conflict, SpecError
from hostler.model.work import DEFAULT_BUDGETS, FailureClass, JobState, Retry
from tests.core.builders import Driver, fleet, link_up, node, replayed, script, snapshot, sweep


def finish(world: Driver, name: str, limit: int = 10_000) -> None:
    """Search whatever is leased until the sweep is over."""
    while not world.state.jobs[name].state.final and limit:
        limit -= 1
        world.tell(world.searched(world.chunk(name)[0]))
    assert limit, f"{name} does not end"


def test_a_sweep_is_searched_to_the_end() -> None:
    world = fleet(devices=2)
    world.submit(sweep(start=-50, stop=3000))
    assert world.job_state("j1") is JobState.RUNNING
    finish(world, "j1")
    ledger = world.state.sweeps["j1"].ledger
    assert (ledger.done, ledger.free, ledger.leased) == ([(-50, 3000)], [], {})
    assert world.state.jobs["j1"].result == {"hits": 0, "items": 3050}
    assert world.commands == [
        commands.CloseWorker(node="n", worker="w-j1-n-cpu0"), commands.CloseWorker(node="n", worker="w-j1-n-cpu1"),
    ]  # fmt: skip


def test_a_chunk_goes_to_its_worker() -> None:
    world = fleet()
    world.submit(sweep(stop=10_000))
    lend = world.commands[0]
    assert isinstance(lend, commands.Lend)
    assert (lend.node, lend.worker.id, lend.worker.queue, lend.chunk.start) == ("n", "w-j1-n-cpu0", "cpu0", 0)
    assert lend.worker.digest == world.searched("j1.1").digest


class TestResults:
    @pytest.mark.parametrize(
        "wrong",
        [
            {"digest": "0" * 64},
            {"start": 1},
            {"stop": 10**6},
            {"hits": ({"at": -1},)},
            {"hits": ({},)},
            {"hits": ({"at": True},)},
            {"hits": ({"at": 0.0},)},
        ],
    )
    def test_a_wrong_result_is_refused_and_the_chunk_searched_again(self, wrong: dict[str, Any]) -> None:
        world = fleet()
        world.submit(sweep())
        chunk, start, _ = world.chunk("j1")
        world.tell(world.searched(chunk, **wrong))
        assert world.state.refused == 1
        assert world.of(events.ChunkReturned)[0].blame
        assert world.state.sweeps["j1"].ledger.done_items == 0
        assert world.of(events.ChunkLeased)[0].start == start

    def test_a_doubled_result_counts_once(self) -> None:
        world = fleet()
        world.submit(sweep())
        chunk, start, _ = world.chunk("j1")
        result = world.searched(chunk, hits=({"at": start},))
        world.tell(result, result)
        sweep_state = world.state.sweeps["j1"]
        assert (sweep_state.hits, sweep_state.chunks_done, world.state.refused) == (1, 1, 1)

    def test_a_result_that_comes_after_the_return_is_refused(self) -> None:
        world = fleet()
        world.submit(sweep())
        chunk, _, _ = world.chunk("j1")
        result = world.searched(chunk)
        world.tell(world.returned(chunk, "recalled"))
        world.tell(result)
        assert world.state.refused == 1
        assert world.state.sweeps["j1"].ledger.done_items == 0

    def test_a_return_of_what_is_not_out_says_nothing(self) -> None:
        world = fleet()
        world.submit(sweep())
        assert world.tell(inputs.Returned(chunk="j1.99", reason="recalled")) == []
        assert world.tell(inputs.Returned(chunk="j9.1", reason="recalled")) == []

    def test_too_many_hits_fail_the_sweep(self) -> None:
        world = fleet()
        world.submit(sweep(stop=4096, max_hits=1, min_chunk=8, max_chunk=8))
        chunk, start, _ = world.chunk("j1")
        world.tell(world.searched(chunk, hits=({"at": start}, {"at": start + 1})))
        assert [type(each) for each in world.commands] == [commands.Recall]
        world.tell(world.returned(world.chunk("j1")[0], "recalled"))
        assert world.state.jobs["j1"].failure is FailureClass.RESULT

    def test_too_many_hits_fail_it_in_the_last_chunk_too(self) -> None:
        world = fleet()
        world.submit(sweep(stop=2, max_hits=1, min_chunk=2))
        world.tell(world.searched(world.chunk("j1")[0], hits=({"at": 0}, {"at": 1})))
        assert (world.job_state("j1"), world.state.jobs["j1"].failure) == (JobState.FAILED, FailureClass.RESULT)


class TestReturn:
    def test_from_the_last_checkpoint(self) -> None:
        world = fleet()
        world.submit(sweep(stop=4096, min_chunk=100))
        chunk, start, stop = world.chunk("j1")
        world.tell(world.returned(chunk, position=start + 60, hits=({"at": start + 59},)))
        assert world.state.sweeps["j1"].ledger.done == [(start, start + 60)]
        assert world.state.sweeps["j1"].hits == 1
        lease = world.of(events.ChunkLeased)[0]
        assert (lease.start, lease.stop) == (start + 60, stop)

    @pytest.mark.parametrize("position", [-1, 10**9])
    def test_a_checkpoint_outside_the_chunk_is_not_believed(self, position: int) -> None:
        world = fleet()
        world.submit(sweep())
        world.tell(world.returned(world.chunk("j1")[0], position=position))
        assert (world.state.refused, world.state.sweeps["j1"].ledger.done_items) == (1, 0)

    def test_a_checkpoint_at_the_end_of_the_last_chunk_ends_the_sweep(self) -> None:
        world = fleet()
        world.submit(sweep(stop=10, min_chunk=10))
        chunk, _, stop = world.chunk("j1")
        world.tell(world.returned(chunk, position=stop))
        assert world.job_state("j1") is JobState.DONE

    def test_failing_at_one_place_again_and_again_gives_up(self) -> None:
        world = fleet()
        world.submit(sweep(stop=10, min_chunk=10, retry=Retry(max_attempts={FailureClass.WORKER: 3})))
        for _ in range(3):
            assert world.job_state("j1") is JobState.RUNNING
            world.tell(world.returned(world.chunk("j1")[0], error="boom"))
        assert world.state.jobs["j1"].failure is FailureClass.WORKER
        world.tell(inputs.Retry(job="j1"))
        assert world.job_state("j1") is JobState.RUNNING
        finish(world, "j1")
        assert world.job_state("j1") is JobState.DONE

    def test_a_step_forward_is_no_failure_at_the_same_place(self) -> None:
        world = fleet()
        world.submit(sweep(stop=10, min_chunk=10, retry=Retry(max_attempts={FailureClass.WORKER: 2})))
        for position in range(1, 9):
            world.tell(world.returned(world.chunk("j1")[0], position=position))
        assert world.job_state("j1") is JobState.RUNNING

    @pytest.mark.parametrize("reason", ["recalled", "agent_restarted"])
    def test_some_returns_are_nobodys_fault(self, reason: str) -> None:
        world = fleet()
        world.submit(sweep(stop=10, min_chunk=10))
        for _ in range(50):
            world.tell(world.returned(world.chunk("j1")[0], reason))
        assert world.job_state("j1") is JobState.RUNNING

    def test_a_worker_that_cannot_be_opened_is_not_tried_for_ever(self) -> None:
        world = fleet()
        world.submit(sweep(stop=10, min_chunk=10))
        for _ in range(DEFAULT_BUDGETS[FailureClass.WORKER]):
            world.tell(world.returned(world.chunk("j1")[0], "closed"))
        assert world.state.jobs["j1"].failure is FailureClass.WORKER

    def test_what_comes_back_closed_from_a_sweep_that_is_being_ended_is_expected(self) -> None:
        world = fleet()
        world.submit(sweep())
        world.tell(inputs.Cancel(job="j1"))
        world.tell(world.returned(world.chunk("j1")[0], "closed"))
        assert not world.of(events.ChunkReturned)[0].blame


FEW = Retry(max_attempts={FailureClass.WORKER: 3})


def on(world: Driver, device: str, name: str = "j1") -> str:
    """The oldest chunk of a sweep on a device."""
    return next(chunk for chunk in world.state.devices[device].chunks if chunk.startswith(f"{name}."))


class TestBadDevice:
    def test_a_refusing_worker_costs_the_sweep_its_device_only(self) -> None:
        world = fleet(devices=2)
        world.submit(sweep(stop=10**6, max_chunk=100))
        world.tell(inputs.WorkerRefused(worker="w-j1-n-cpu0", error="no module"))
        (barred,) = world.of(events.SweepBarred)
        assert (barred.device, barred.why) == ("n/cpu0", "its worker did not start: no module")
        assert [type(each).__name__ for each in world.commands[:3]] == ["Recall", "Recall", "CloseWorker"]
        for chunk in list(world.state.devices["n/cpu0"].chunks):
            world.tell(world.returned(chunk, "worker_start"))
            assert not world.of(events.ChunkReturned)[0].blame
        world.tell(world.searched(on(world, "n/cpu1")))
        assert {event.device for event in world.of(events.ChunkLeased)} == {"n/cpu1"}
        assert world.state.devices["n/cpu0"].chunks == []
        says = explain_job(world.state, world.core.index, world.state.jobs["j1"]).devices
        assert "no module" in says["n/cpu0"]
        assert "barred" not in says["n/cpu1"]
        assert replayed(world.entries).state == world.state
        assert snapshot(world.state) == world.state

    def test_a_worker_of_the_same_name_elsewhere_is_another(self) -> None:
        world = fleet()
        world.tell(inputs.NodeFound(node=node("m")), link_up("m"))
        world.submit(sweep(stop=10**6, max_chunk=100))
        world.tell(inputs.WorkerRefused(worker="w-j1-m-cpu0", error="?"))
        assert list(world.state.sweeps["j1"].barred) == ["m/cpu0"]

    def test_failing_again_and_again_wherever_it_is(self) -> None:
        world = fleet(devices=2)
        world.submit(sweep(stop=10**6, max_chunk=100, retry=FEW))
        for _ in range(3):
            world.tell(world.returned(on(world, "n/cpu0")), world.searched(on(world, "n/cpu1")), after_s=5.0)
            if not world.state.sweeps["j1"].barred:
                world.tell(world.returned(on(world, "n/cpu0"), "recalled"), after_s=5.0)
        assert list(world.state.sweeps["j1"].barred) == ["n/cpu0"]
        assert world.job_state("j1") is JobState.RUNNING

    def test_chunks_that_come_back_together_are_one_failure(self) -> None:
        world = fleet(devices=2)
        world.submit(sweep(stop=10**6, max_chunk=100, retry=Retry(max_attempts={FailureClass.WORKER: 2})))
        world.tell(*[world.returned(chunk, "closed") for chunk in world.state.devices["n/cpu0"].chunks])
        assert world.state.sweeps["j1"].in_a_row["n/cpu0"][0] == 1
        assert world.state.sweeps["j1"].barred == {}

    def test_a_place_that_two_devices_fail_at_fails_the_sweep(self) -> None:
        world = fleet()
        world.tell(inputs.NodeFound(node=node("m")), link_up("m"))
        world.submit(sweep(stop=1, retry=FEW))
        for nth, (off, on_again) in enumerate([("n", "m"), ("m", "n"), ("n", "m")], start=1):
            chunk = f"j1.{nth}"
            assert world.state.sweeps["j1"].leases[chunk].device == f"{off}/cpu0"
            world.tell(link_up(on_again), inputs.LinkDown(node=off, why="cut"), world.returned(chunk))
        assert world.state.sweeps["j1"].barred == {}
        assert "3 times at 0, on 2 devices (3 allowed)" in str(world.state.jobs["j1"].why)

    def test_the_last_device_that_is_barred_ends_it_and_a_retry_begins_anew(self) -> None:
        world = fleet(devices=2)
        world.submit(sweep(stop=10**6, max_chunk=100))
        for device in range(2):
            world.tell(inputs.WorkerRefused(worker=f"w-j1-n-cpu{device}", error="bad parameters"))
        for chunk in list(world.state.sweeps["j1"].leases):
            world.tell(world.returned(chunk, "recalled"))
        assert world.state.jobs["j1"].failure is FailureClass.WORKER
        assert "no device is left for it; n/cpu0: its worker did not start: bad" in str(world.state.jobs["j1"].why)
        world.tell(inputs.Retry(job="j1"))
        assert world.state.sweeps["j1"].barred == {}
        assert {event.device for event in world.of(events.ChunkLeased)} == {"n/cpu0", "n/cpu1"}

    def test_a_retry_gives_a_sweep_that_goes_on_its_devices_back(self) -> None:
        world = fleet(devices=2)
        world.submit(sweep(stop=10**6, max_chunk=100))
        world.tell(inputs.WorkerRefused(worker="w-j1-n-cpu0", error="?"))
        for chunk in list(world.state.devices["n/cpu0"].chunks):
            world.tell(world.returned(chunk, "recalled"))
        world.tell(inputs.Retry(job="j1"))
        assert {event.device for event in world.of(events.ChunkLeased)} == {"n/cpu0"}
        assert replayed(world.entries).state == world.state
        world.tell(inputs.Retry(job="j1"))
        assert isinstance(world.answers[0], Conflict)

    def test_a_fleet_that_shrinks_to_barred_devices_ends_it(self) -> None:
        world = fleet(devices=2)
        world.submit(sweep(stop=10**6, max_chunk=100))
        world.tell(inputs.WorkerRefused(worker="w-j1-n-cpu0", error="?"))
        world.tell(inputs.NodeFound(node=node(devices=1)))
        assert world.of(events.SweepGivenUp)[0].failure is FailureClass.WORKER

    def test_a_barred_device_that_comes_back_gives_its_chunks_back(self) -> None:
        world = fleet(devices=2)
        world.submit(sweep(stop=10**6, max_chunk=100))
        held = list(world.state.devices["n/cpu0"].chunks)
        world.tell(inputs.WorkerRefused(worker="w-j1-n-cpu0", error="?"))
        world.tell(inputs.LinkDown(node="n", why="cut"))
        world.tell(link_up(chunks=list(world.state.sweeps["j1"].leases)))
        assert [each.chunk for each in world.commands if isinstance(each, commands.Recall)] == held


class TestEnd:
    def test_cancelled_once_every_chunk_is_back(self) -> None:
        world = fleet()
        world.submit(sweep())
        world.tell(inputs.Cancel(job="j1"))
        assert [type(each) for each in world.commands] == [commands.Recall, commands.Recall]
        world.tell(world.returned(world.chunk("j1")[0], "recalled"))
        assert world.job_state("j1") is JobState.RUNNING
        world.tell(world.searched(world.chunk("j1")[0]))
        assert world.job_state("j1") is JobState.CANCELLED

    def test_cancelled_when_the_node_that_had_the_rest_is_lost(self) -> None:
        world = fleet()
        world.submit(sweep())
        world.tell(inputs.Cancel(job="j1"))
        world.tell(link_up(agent="another"))
        assert world.job_state("j1") is JobState.CANCELLED

    def test_given_up_when_the_node_that_had_the_rest_is_lost(self) -> None:
        world = fleet()
        world.submit(sweep())
        world.tell(inputs.WorkerRefused(worker="w-j1-n-cpu0", error="no such module"))
        assert world.job_state("j1") is JobState.RUNNING
        world.tell(inputs.WorkerRefused(worker="w-j1-n-cpu0", error="no such module"))
        world.tell(link_up(agent="another"))
        assert world.state.jobs["j1"].failure is FailureClass.WORKER

    def test_a_sweep_comes_before_what_waits_for_it(self) -> None:
        world = fleet()
        world.submit(sweep(key="s"), script(after=("s",)))
        finish(world, "j1")
        assert world.of(events.AttemptLeased)[0].job == "j2"
        assert world.commands[-1].order.inputs == {"j1": {"hits": 0, "items": 1000}, "s": {"hits": 0, "items": 1000}}  # type: ignore[union-attr]

    @pytest.mark.parametrize("worker", ["", "w", "w-j9-n-cpu0", "x-y", "w-"])
    def test_a_refusal_of_an_unknown_worker_says_nothing(self, worker: str) -> None:
        world = fleet()
        world.submit(sweep())
        assert world.tell(inputs.WorkerRefused(worker=worker, error="?")) == []


class TestSharing:
    def test_a_script_takes_the_device_at_the_next_border(self) -> None:
        world = fleet()
        world.submit(sweep())
        world.submit(script())
        assert world.of(events.AttemptLeased)[0].device == "n/cpu0"
        recalled = [each.chunk for each in world.commands if isinstance(each, commands.Recall)]
        assert recalled == ["j1.2"]

    def test_a_script_of_lower_priority_waits_for_the_sweep(self) -> None:
        world = fleet()
        world.submit(sweep(priority=1), script())
        assert world.of(events.AttemptLeased) == []
        finish(world, "j1")
        assert world.job_state("j2") is JobState.LEASED

    def test_sweeps_of_one_priority_take_turns(self) -> None:
        world = fleet(devices=4)
        world.submit(sweep("a", stop=10**9), sweep("b", stop=10**9))
        leased = [event.job for event in world.of(events.ChunkLeased)]
        assert leased.count("j1") == leased.count("j2")

    def test_what_comes_back_goes_to_a_device_that_found_nothing(self) -> None:
        world = fleet()
        world.tell(inputs.NodeFound(node=node("m")), link_up("m"))
        world.submit(sweep(stop=2, max_chunk=1))
        chunks = {lease.device: name for name, lease in world.state.sweeps["j1"].leases.items()}
        world.tell(world.searched(chunks["n/cpu0"]), inputs.LinkDown(node="m", why="gone"))
        world.tell(world.returned(chunks["m/cpu0"], "recalled"))
        assert [event.device for event in world.of(events.ChunkLeased)] == ["n/cpu0"]


@pytest.mark.parametrize(
    ("fields", "match"),
    [({"start": 5, "stop": 5}, "empty"), ({"min_chunk": 5, "max_chunk": 4}, "max_chunk")],
)
def test_impossible_sweeps_are_refused(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(SpecError, match=match):
        fleet().submit(sweep(**fields))


def test_progress_is_shown_and_not_journalled() -> None:
    world = fleet()
    world.submit(sweep())
    chunk, start, _ = world.chunk("j1")
    assert world.tell(inputs.Progress(chunks={chunk: (start + 1, 2), "j9.1": (0, 0)})) == []
    lease = world.state.sweeps["j1"].leases[chunk]
    assert (lease.position, lease.hits) == (start + 1, 2)
    assert replayed(world.entries).state.sweeps["j1"].leases[chunk].position is None
