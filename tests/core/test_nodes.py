"""Nodes come, go and come back: what is known of them, and what follows for the work they had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.model import commands, events, inputs
from hostler.model.codec import dump_event
from hostler.model.errors import NotFound
from hostler.model.fleet import Link
from hostler.model.work import DeviceKind, FailureClass, JobState, Resources, Retry
from tests.core.builders import Driver, ended, fleet, link_up, node, replayed, script, sweep

STARTED = inputs.Started(attempt="j1.1", pid=1, pid_start=1)
DOWN = inputs.LinkDown(node="n", why="no route")


def test_nothing_is_put_on_a_node_that_was_never_reached() -> None:
    world = Driver()
    world.tell(inputs.NodeFound(node=node()))
    world.submit(script())
    assert world.job_state("j1") is JobState.PENDING
    world.tell(link_up())
    assert world.job_state("j1") is JobState.LEASED


def test_unreachable_is_not_dead() -> None:
    world = fleet()
    world.submit(script(), sweep())
    world.tell(STARTED)
    assert [event.kind for event in world.tell(DOWN)] == ["node.unreachable"]
    assert world.tell(DOWN) == []
    assert world.job_state("j1") is JobState.RUNNING
    assert world.state.nodes["n"].link is Link.DOWN
    world.submit(script())
    assert world.of(events.AttemptLeased) == []
    world.tell(ended("j1.1"))
    assert world.job_state("j1") is JobState.DONE


def test_a_model_that_is_no_text_is_told_in_escapes() -> None:
    world = Driver()
    strange = node(kind=DeviceKind.CUDA)
    device = replace(strange.devices[0], model="\udcff")
    found = inputs.NodeFound(node=replace(strange, devices=(device,)))
    assert [event.kind for event in world.tell(found)] == ["node.joined"]
    assert world.tell(found) == []
    assert "udcff" in dump_event(world.entries[-1].event)


def test_an_unknown_node_is_not_found() -> None:
    world = Driver()
    for given in (link_up("x"), inputs.LinkDown(node="x", why="?")):
        assert world.tell(given) == []
        assert isinstance(world.answers[0], NotFound)


class TestReconnect:
    def test_what_the_node_has_is_left_alone(self) -> None:
        world = fleet()
        world.submit(script())
        world.tell(STARTED)
        world.tell(DOWN)
        world.tell(link_up(attempts=["j1.1"]))
        assert world.work == []

    def test_what_it_never_got_is_sent_again(self) -> None:
        world = fleet(devices=2)
        world.submit(script(), sweep())
        world.tell(DOWN)
        world.tell(link_up(chunks=["j2.1"]))
        sent = [each.order.id if isinstance(each, commands.Launch) else each.chunk.id for each in world.work]  # type: ignore[union-attr]
        assert sent == ["j1.1", "j2.2"]

    def test_what_it_should_not_have_is_ended(self) -> None:
        world = fleet()
        world.submit(script(), sweep())
        world.tell(DOWN)
        world.tell(link_up(attempts=["j1.1", "j9.1", "j1.7"], chunks=["j2.77"]))
        stopped = {each.attempt for each in world.commands if isinstance(each, commands.Stop)}
        recalled = {each.chunk for each in world.commands if isinstance(each, commands.Recall)}
        assert (stopped, recalled) == ({"j9.1", "j1.7"}, {"j2.77"})

    def test_a_cancellation_is_told_again(self) -> None:
        world = fleet(devices=2)
        world.submit(script(), sweep())
        world.tell(DOWN)
        world.tell(inputs.Cancel(job="j1"), inputs.Cancel(job="j2"))
        world.tell(link_up(attempts=["j1.1"], chunks=["j2.1"]))
        assert [type(each).__name__ for each in world.work] == ["Stop", "Recall", "Recall"]

    def test_what_is_over_within_the_same_step_is_not_sent_again(self) -> None:
        world = fleet(devices=2)
        world.submit(script(), sweep(stop=1))
        world.tell(DOWN)
        world.tell(link_up(), STARTED, ended("j1.1", ended_at=3.0), world.searched("j2.1"))
        assert [world.job_state(name) for name in ("j1", "j2")] == [JobState.DONE] * 2
        assert [each for each in world.commands if isinstance(each, (commands.Launch, commands.Lend))] == []

    def test_old_sweeps_cost_a_reconnect_nothing(self) -> None:
        world = fleet()
        for number in range(1, 6):
            world.submit(sweep(stop=1))
            world.tell(world.searched(world.chunk(f"j{number}")[0]), after_s=100.0)
        world.tell(DOWN)
        world.tell(link_up())
        assert world.work == [commands.CloseWorker(node="n", worker="w-j5-n-cpu0")]
        assert replayed(world.entries).state == world.state
        again = Driver(replayed(world.entries), now=world.now)
        again.tell(inputs.Begin(version="test", epoch=2), after_s=1000.0)
        again.tell(link_up())
        assert again.commands == world.commands
        again.tell(inputs.LinkDown(node="n", why="cut"), after_s=100.0)
        again.tell(link_up())
        assert again.work == []

    def test_a_worker_of_a_finished_sweep_is_closed_again(self) -> None:
        world = fleet()
        world.submit(sweep(stop=1))
        result = world.searched(world.chunk("j1")[0])
        world.tell(DOWN)
        world.tell(result)
        assert world.job_state("j1") is JobState.DONE
        world.tell(link_up())
        assert world.work == [commands.CloseWorker(node="n", worker="w-j1-n-cpu0")]

    def test_a_process_that_ran_and_is_not_there_is_lost(self) -> None:
        world = fleet()
        world.submit(script())
        world.tell(STARTED)
        world.tell(link_up(incarnation=2))
        assert world.of(events.AttemptLost)[0].attempt == "j1.1"
        assert world.state.jobs["j1"].failures == {FailureClass.LOST: 1}
        assert world.of(events.AttemptLeased)[0].attempt == "j1.2"

    def test_another_agent_knows_nothing_of_the_work(self) -> None:
        world = fleet(devices=2)
        world.submit(script(), sweep())
        world.tell(link_up(agent="b"))
        assert len(world.of(events.AttemptLost)) == 1
        returned = world.of(events.ChunkReturned)
        assert {(event.reason, event.blame) for event in returned} == {("node_lost", False)}
        assert world.state.jobs["j1"].attempts == 2

    def test_a_lost_node_has_its_own_budget_and_no_rest(self) -> None:
        world = fleet()
        world.submit(script(retry=Retry(max_attempts={FailureClass.LOST: 3, FailureClass.EXIT: 2}, backoff_s=0)))
        world.tell(ended("j1.1", exit_code=1))
        for agent in "bc":
            world.tell(link_up(agent=agent))
        assert world.state.jobs["j1"].failures == {FailureClass.EXIT: 1, FailureClass.LOST: 2}
        assert world.job_state("j1") is JobState.LEASED
        world.tell(link_up(agent="d"))
        assert (world.job_state("j1"), world.state.jobs["j1"].failure) == (JobState.FAILED, FailureClass.LOST)


class TestRestart:
    def test_nodes_must_be_reached_anew_and_what_runs_is_adopted(self) -> None:
        world = fleet()
        world.submit(script())
        world.tell(STARTED)
        again = Driver(replayed(world.entries), now=world.now)
        again.tell(inputs.Begin(version="test", epoch=2))
        assert again.state.nodes["n"].link is Link.DOWN
        assert again.state.epoch == 2
        again.tell(link_up(attempts=["j1.1"]))
        assert again.work == []
        again.tell(ended("j1.1"))
        assert again.job_state("j1") is JobState.DONE


class TestDescription:
    def test_the_same_again_is_no_event(self) -> None:
        assert fleet().tell(inputs.NodeFound(node=node())) == []

    def test_a_new_device_gets_work(self) -> None:
        world = fleet()
        world.submit(script(), script())
        world.tell(inputs.NodeFound(node=node(devices=2)))
        assert world.of(events.AttemptLeased)[0].device == "n/cpu1"

    def test_a_device_that_is_no_more_gets_no_work(self) -> None:
        world = fleet(devices=2)
        world.submit(script())
        world.tell(inputs.NodeFound(node=node(devices=1)))
        world.submit(script(), script())
        assert world.of(events.AttemptLeased) == []
        world.tell(inputs.LinkDown(node="n", why="gone"))
        world.tell(link_up(attempts=["j1.1"]))
        world.tell(ended("j1.1", ended_at=50.0))
        assert {event.device for event in world.of(events.AttemptLeased)} == {"n/cpu0"}

    def test_what_runs_on_a_device_that_is_no_more_may_end(self) -> None:
        world = fleet(devices=2)
        world.submit(script(), script(), script(), sweep())
        world.tell(inputs.NodeFound(node=node(devices=1)))
        world.tell(ended("j2.1", ended_at=50.0))
        assert world.job_state("j2") is JobState.DONE
        assert world.of(events.AttemptLeased) == []
        assert replayed(world.entries).state == world.state


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_gpu_job_waits_for_a_gpu(when: str) -> None:
    world = fleet()
    found = inputs.NodeFound(node=node("g", kind=DeviceKind.CUDA, vram_gb=24.0))
    if when == "before":
        world.tell(found, link_up("g"))
    world.submit(script(resources=Resources(device="gpu", vram_gb=24)), script(resources=Resources(vram_gb=25)))
    if when == "after":
        world.tell(found, link_up("g"))
    assert [event.device for event in world.of(events.AttemptLeased)] == ["g/cuda0"]
    assert world.work[0].order.env["CUDA_VISIBLE_DEVICES"] == "0"  # type: ignore[union-attr]


def test_device_that_is_kept_for_a_job_may_leave_the_fleet_with_a_chunk_on_it() -> None:
    """A node that came back with fewer devices ended the core."""
    world = fleet(devices=2)
    world.submit(sweep(), script("waits", resources=Resources(device="gpu")))
    assert "n/cpu1" in world.state.devices
    world.core.index.reserved["n/cpu1"] = "j2"
    world.tell(inputs.NodeFound(node=node(devices=1)))
    assert "n/cpu1" in world.state.devices, "its chunk is out"
    assert world.core.index.reserved == {}
