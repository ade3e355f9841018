"""What a node out of reach has stays its own for a while, and then goes to others; what it tells later is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hostler.core.explain import explain_job
from hostler.core.leases import DRIFT, MARGIN_S, POOL_TRIED_S, TRIED_S
from hostler.core.views import node_views
from hostler.model import commands, events, inputs
from hostler.model.fleet import NodeSpec
from hostler.model.pools import Pool
from hostler.model.work import FailureClass, JobSpec, JobState, Retry
from tests.core.builders import Driver, ended, link_up, node, replayed, script, snapshot, sweep

LEASE_S = 600.0
OVER_S = LEASE_S * DRIFT + MARGIN_S
DOWN = inputs.LinkDown(node="n", why="no route")


def leasing(name: str, devices: int = 1, lease_s: float | None = LEASE_S) -> NodeSpec:
    return replace(node(name, devices), lease_s=lease_s)


def two_nodes(devices: int = 1, **fields: Any) -> Driver:
    """Nodes n and m, of which only n has been reached."""
    world = Driver()
    found = [inputs.NodeFound(node=leasing(name, devices, **fields)) for name in "nm"]
    world.tell(inputs.Begin(version="test", epoch=1), *found, link_up("n"))
    return world


def on_a_pool(*specs: JobSpec) -> Driver:
    """A partition of two slots for each of these, all of which were put there."""
    spec = leasing("n", devices=2 * len(specs))
    world = Driver()
    pool = replace(spec, pool=Pool(partition="gpu", max_pending=99))
    world.tell(inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=pool), link_up("n"))
    world.tell(inputs.Tick(), after_s=POOL_TRIED_S)  # its controller is no new one any more
    world.submit(*specs)
    return world


def leases_over_s(count: int) -> float:
    """When so many leases are over, one after the other."""
    return count * LEASE_S * DRIFT + MARGIN_S


def started(attempt: str) -> inputs.Started:
    return inputs.Started(attempt=attempt, pid=1, pid_start=1)


def test_work_is_given_to_others_when_the_lease_is_over_and_not_before() -> None:
    world = two_nodes()
    world.submit(script())
    world.tell(started("j1.1"))
    world.tell(DOWN)
    down_at = world.now
    world.tell(link_up("m", agent="b"))
    world.tell(inputs.Tick(), after_s=OVER_S - 2.0)
    assert world.job_state("j1") is JobState.RUNNING
    assert world.core.wake_at() == pytest.approx(down_at + OVER_S)
    world.tell(inputs.Tick())
    (lost,) = world.of(events.AttemptLost)
    assert (lost.attempt, "its lease is over" in lost.evidence) == ("j1.1", True)
    (requeued,) = world.of(events.JobRequeued)
    assert (requeued.failure, requeued.against) == (FailureClass.LOST, ())
    (leased,) = world.of(events.AttemptLeased)
    assert (leased.attempt, leased.device) == ("j1.2", "m/cpu0")
    assert not world.state.trust.doubts
    assert replayed(world.entries).state == world.state


def test_a_node_that_answers_in_time_keeps_its_work() -> None:
    world = two_nodes()
    world.submit(script())
    world.tell(started("j1.1"))
    world.tell(DOWN)
    world.tell(link_up(attempts=["j1.1"]), after_s=OVER_S - 10.0)
    world.tell(inputs.Tick(), after_s=OVER_S)
    assert world.job_state("j1") is JobState.RUNNING
    world.tell(DOWN)
    world.tell(inputs.Tick(), after_s=OVER_S - 1.0)
    assert world.job_state("j1") is JobState.RUNNING, "the second lease counts from the second loss"


def test_other_words_about_the_same_loss_do_not_lengthen_the_lease() -> None:
    world = two_nodes()
    world.submit(script())
    world.tell(DOWN)
    world.tell(inputs.LinkDown(node="n", why="refused"), after_s=OVER_S - 10.0)
    world.tell(inputs.Tick(), after_s=10.0)
    assert len(world.of(events.AttemptLost)) == 1


def test_never_is_never() -> None:
    world = two_nodes(lease_s=None)
    world.submit(script())
    world.tell(DOWN)
    world.tell(inputs.Tick(), after_s=1e8)
    assert world.job_state("j1") is JobState.LEASED


def test_late_results_are_refused_and_what_still_runs_is_stopped() -> None:
    world = two_nodes(devices=2)
    world.submit(script(), sweep(stop=100))
    chunk, start, stop = world.chunk("j2")
    late = world.searched(chunk)
    world.tell(started("j1.1"))
    world.tell(DOWN)
    world.tell(inputs.Tick(), after_s=OVER_S)
    assert {event.chunk for event in world.of(events.ChunkTaken)} >= {chunk}
    world.tell(ended("j1.1"), late, inputs.Returned(chunk=chunk, reason="recalled"))
    assert [event.of for event in world.of(events.ResultRefused)] == ["j1.1", chunk]
    assert world.job_state("j1") is JobState.PENDING
    assert world.state.sweeps["j2"].ledger.done_items == 0
    world.tell(link_up(attempts=["j1.1"], chunks=[chunk]))
    stopped = {each.attempt for each in world.commands if isinstance(each, commands.Stop)}
    recalled = {each.chunk for each in world.commands if isinstance(each, commands.Recall)}
    assert (stopped, recalled) == ({"j1.1"}, {chunk})
    assert (start, stop) != (0, 0)


def test_chunks_go_back_from_where_they_were_last_heard_to_be() -> None:
    world = two_nodes()
    world.submit(sweep(stop=1000, min_chunk=100))
    chunk, start, stop = world.chunk("j1")
    payload = world.state.jobs["j1"].spec.payload
    found = inputs.Found(digest=payload.digest, hits=({"at": start},))  # type: ignore[union-attr]
    world.tell(inputs.Progress(chunks={chunk: (start + 7, 1)}, found={chunk: found}))
    world.tell(DOWN)
    world.tell(inputs.Tick(), after_s=OVER_S)
    taken = {event.chunk: event for event in world.of(events.ChunkTaken)}
    assert (taken[chunk].position, taken[chunk].hits, taken[chunk].silent) == (start + 7, ({"at": start},), False)
    assert world.state.sweeps["j1"].hits == 1
    assert world.state.sweeps["j1"].strikes == {}
    assert stop > start + 7


def test_a_job_that_is_being_cancelled_there_is_cancelled_then() -> None:
    world = two_nodes(devices=2)
    world.submit(script(), sweep())
    world.tell(started("j1.1"))
    world.tell(DOWN)
    world.tell(inputs.Cancel(job="j1"), inputs.Cancel(job="j2"))
    assert not world.state.jobs["j1"].state.final
    assert "counts as cancelled in" in explained(world, "j1")
    world.tell(inputs.Tick(), after_s=OVER_S)
    assert [world.job_state(name) for name in ("j1", "j2")] == [JobState.CANCELLED] * 2


def test_a_job_whose_budget_is_used_up_fails() -> None:
    world = two_nodes()
    world.submit(script(retry=Retry(max_attempts={FailureClass.LOST: 1})))
    world.tell(DOWN)
    world.tell(inputs.Tick(), after_s=OVER_S)
    assert (world.job_state("j1"), world.state.jobs["j1"].failure) == (JobState.FAILED, FailureClass.LOST)


def test_the_end_of_the_lease_on_the_node_itself_is_nobodys_fault() -> None:
    world = two_nodes()
    world.submit(script())
    world.tell(started("j1.1"))
    world.tell(DOWN)
    world.tell(link_up(attempts=["j1.1"]), after_s=LEASE_S + 1.0)
    world.tell(ended("j1.1", signal=15, reason="lease", error="no word from a controller for 600 s"))
    (requeued,) = world.of(events.JobRequeued)
    assert (requeued.failure, requeued.against) == (FailureClass.LOST, ())
    world.submit(sweep())
    world.tell(ended("j1.2", ended_at=5.0))
    chunk, _, _ = world.chunk("j2")
    world.tell(world.returned(chunk, reason="lease"))
    assert not world.of(events.ChunkReturned)[0].blame


class TestRestart:
    def test_a_new_controller_tries_for_a_while_before_it_gives_anything_up(self) -> None:
        world = two_nodes()
        world.submit(script())
        world.tell(started("j1.1"))
        world.tell(DOWN)
        again = restarted(world, after_s=10 * OVER_S)
        assert again.job_state("j1") is JobState.RUNNING
        again.tell(inputs.Tick(), after_s=TRIED_S - 1.0)
        assert again.job_state("j1") is JobState.RUNNING
        again.tell(inputs.Tick())
        assert len(again.of(events.AttemptLost)) == 1

    def test_the_lease_goes_on_over_restarts(self) -> None:
        world = two_nodes()
        world.submit(script())
        world.tell(DOWN)
        down_at = world.now
        for part in (0.3, 0.6, 0.85):
            world = restarted(world, after_s=down_at + part * OVER_S - world.now)
        world.tell(inputs.Tick(), after_s=down_at + OVER_S - world.now)
        assert len(world.of(events.AttemptLost)) == 1

    def test_a_node_that_was_linked_may_have_heard_from_the_old_controller_until_now(self) -> None:
        world = two_nodes()
        world.submit(script())
        again = restarted(world, after_s=10 * OVER_S)
        again.tell(inputs.Tick(), after_s=OVER_S - 1.0)
        assert again.job_state("j1") is JobState.LEASED
        again.tell(inputs.Tick())
        assert len(again.of(events.AttemptLost)) == 1

    def test_a_snapshot_keeps_the_lease(self) -> None:
        world = two_nodes()
        world.submit(script())
        world.tell(DOWN)
        again = Driver(replayed((), snapshot(world.state)), now=world.now)
        again.tell(inputs.Tick(), after_s=OVER_S)
        assert len(again.of(events.AttemptLost)) == 1


class TestPools:
    """What waits in the queue of a cluster out of reach is kept for two leases: see decision 14."""

    def test_what_waits_there_is_kept_while_what_runs_is_given_to_others(self) -> None:
        world = on_a_pool(script(), script(name="waits"), sweep(stop=1 << 20))
        chunk, _, _ = world.chunk("j3")
        world.tell(started("j1.1"))
        world.tell(DOWN)
        world.tell(inputs.Tick(), after_s=OVER_S)
        assert [event.attempt for event in world.of(events.AttemptLost)] == ["j1.1"]
        assert chunk in {event.chunk for event in world.of(events.ChunkTaken)}
        world.tell(inputs.Tick(), after_s=LEASE_S * DRIFT - 2.0)
        assert world.job_state("j2") is JobState.LEASED
        world.tell(inputs.Tick(), after_s=2.0)
        assert [event.attempt for event in world.of(events.AttemptLost)] == ["j2.1"]
        assert replayed(world.entries).state == world.state

    def test_it_goes_on_waiting_where_its_cluster_answers_in_time(self) -> None:
        world = on_a_pool(script())
        world.tell(DOWN)
        world.tell(link_up(attempts=["j1.1"]), after_s=leases_over_s(2) - 10.0)
        world.tell(inputs.Tick(), after_s=leases_over_s(2))
        assert world.job_state("j1") is JobState.LEASED

    def test_what_nobody_wants_any_more_is_not_waited_for(self) -> None:
        world = on_a_pool(script())
        world.tell(DOWN)
        world.tell(inputs.Cancel(job="j1"))
        world.tell(inputs.Tick(), after_s=OVER_S)
        assert world.job_state("j1") is JobState.CANCELLED

    def test_a_new_controller_that_comes_late_tries_for_an_hour(self) -> None:
        world = on_a_pool(script(), script(name="waits"))
        world.tell(started("j1.1"))
        world.tell(DOWN)
        again = restarted(world, after_s=10 * OVER_S)
        again.tell(inputs.Tick(), after_s=POOL_TRIED_S - 1.0)
        assert [again.job_state(name) for name in ("j1", "j2")] == [JobState.RUNNING, JobState.LEASED]
        again.tell(inputs.Tick())
        assert len(again.of(events.AttemptLost)) == 2

    def test_a_restart_keeps_what_a_pool_out_of_reach_has(self) -> None:
        world = on_a_pool(script())
        world.tell(DOWN)
        down_at = world.now
        for part in (0.4, 0.7, 0.95):
            world = restarted(world, after_s=down_at + part * leases_over_s(2) - world.now)
        assert world.job_state("j1") is JobState.LEASED
        world.tell(link_up(attempts=["j1.1"]))
        world.tell(started("j1.1"), ended("j1.1"))
        assert world.job_state("j1") is JobState.DONE
        assert world.state.jobs["j1"].attempts == 1

    def test_people_are_told_until_when_it_is_kept(self) -> None:
        world = on_a_pool(script(), script(name="waits"))
        world.tell(started("j1.1"))
        world.tell(DOWN)
        down_at = world.now
        world.tell(inputs.Tick(), after_s=60.0)
        assert "it may run on there; it is started elsewhere in 10m 00s" in explained(world, "j1")
        assert "it waits on there; it is started elsewhere in 20m 30s" in explained(world, "j2")
        assert given_up_at(world) == pytest.approx(down_at + OVER_S)
        world.tell(inputs.Tick(), after_s=OVER_S)
        assert given_up_at(world) == pytest.approx(down_at + leases_over_s(2))


class TestShown:
    def test_a_job_is_explained(self) -> None:
        world = two_nodes()
        world.submit(script())
        world.tell(DOWN)
        world.tell(inputs.Tick(), after_s=60.0)
        told = explained(world, "j1")
        assert "n has been out of reach for 1m 00s (no route), it may run on there" in told
        assert "it is started elsewhere in 10m 00s unless n answers" in told

    def test_a_node_tells_when_its_work_is_given_away(self) -> None:
        world = two_nodes()
        assert given_up_at(world) is None
        world.submit(script())
        world.tell(DOWN)
        assert given_up_at(world) == pytest.approx(world.now + OVER_S)
        world.tell(inputs.Tick(), after_s=OVER_S)
        assert given_up_at(world) is None, "it has nothing any more"


def restarted(world: Driver, after_s: float) -> Driver:
    """The same world under a new controller."""
    again = Driver(replayed(world.entries), now=world.now)
    again.entries = list(world.entries)
    again.tell(inputs.Begin(version="test", epoch=world.state.epoch + 1), after_s=after_s)
    return again


def explained(world: Driver, job: str) -> str:
    return explain_job(world.state, world.core.index, world.state.jobs[job]).summary


def given_up_at(world: Driver) -> float | None:
    return next(each.given_up_at for each in node_views(world.state, world.core.index) if each.name == "n")
