"""Orders that a linked node does not answer are asked for after a minute, and settled by its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hostler.core.confirming import PROOF_S, SILENT_S
from hostler.model import commands, events, inputs
from hostler.model.commands import ListWork
from hostler.model.files import Fetch
from hostler.model.inputs import Reported, WorkListed
from hostler.model.pools import Pool
from hostler.model.work import JobState
from tests.core.builders import Driver, ended, fleet, link_up, node, replayed, script, sweep

ASKED = ListWork(node="n")


def has(attempts: Sequence[str] = (), chunks: Sequence[str] = ()) -> WorkListed:
    return WorkListed(node="n", attempts=tuple(attempts), chunks=tuple(chunks))


def launched(devices: int = 1) -> Driver:
    world = fleet(devices=devices)
    world.submit(script())
    world.tell(inputs.Launched(attempts=("j1.1",)))
    assert world.job_state("j1") is JobState.LAUNCHING
    return world


def a_minute(world: Driver) -> list[commands.Command]:
    """What is done at the looks of the next two minutes."""
    found: list[commands.Command] = []
    until = world.now + 2 * SILENT_S + 2.0
    while (at := world.core.wake_at()) is not None and at <= until:
        world.tell(inputs.Tick(), after_s=max(at - world.now, 0.0))
        found += world.commands
    return found


def test_launched_attempt_that_its_node_does_not_have_is_lost_and_tried_again() -> None:
    """F9: after a roll-back of the journal the node knew the number already, and forgot it."""
    world = launched()
    assert ASKED in a_minute(world)
    world.tell(has())
    (lost,) = world.of(events.AttemptLost)
    assert lost.attempt == "j1.1"
    assert "n does not have it. It was asked for it, as nothing was heard of it" in lost.evidence
    a_minute(world)
    assert world.state.jobs["j1"].attempts == 2
    assert not world.state.trust.doubts, "no device is blamed"
    assert replayed(world.entries).state == world.state


def test_launched_attempt_that_waits_on_its_node_stays_and_is_asked_for_every_minute() -> None:
    world = launched()
    for _ in range(3):
        assert ASKED in a_minute(world)
        assert world.tell(has(["j1.1"])) == []
        assert world.work == []
    assert world.job_state("j1") is JobState.LAUNCHING


def test_nothing_is_asked_of_a_node_whose_work_runs() -> None:
    world = launched()
    world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    assert ASKED not in a_minute(world)
    assert world.core.wake_at() is None or world.core.wake_at() > world.now + SILENT_S


def test_answer_that_nobody_asked_for_changes_nothing() -> None:
    world = launched()
    assert world.tell(has()) == []
    assert world.job_state("j1") is JobState.LAUNCHING


def test_answer_of_an_older_link_changes_nothing() -> None:
    world = launched()
    assert ASKED in a_minute(world)
    world.tell(inputs.LinkDown(node="n", why="gone"))
    world.tell(replace(link_up(), attempts=("j1.1",)))
    assert world.tell(has()) == []
    assert world.job_state("j1") is JobState.LAUNCHING


def test_attempt_that_started_before_the_answer_stays() -> None:
    world = launched()
    assert ASKED in a_minute(world)
    world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    world.tell(ended("j1.1"))
    assert world.job_state("j1") is JobState.DONE
    assert not any(isinstance(each, events.AttemptLost) for each in world.tell(has()))


def test_nodes_that_are_out_of_reach_and_pools_are_not_asked() -> None:
    world = launched()
    world.tell(inputs.LinkDown(node="n", why="gone"))
    assert ASKED not in a_minute(world)
    world = Driver()
    pool = replace(node(devices=1), pool=Pool(partition="gpu", max_pending=9))
    world.tell(inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=pool), link_up())
    world.submit(script())
    world.tell(inputs.Launched(attempts=("j1.1",)))
    assert ASKED not in a_minute(world)


@pytest.mark.parametrize("state", ["launching", "running"])
def test_cancel_that_is_never_confirmed_is_settled(state: str) -> None:
    world = launched()
    if state == "running":
        world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    world.tell(inputs.Cancel(job="j1", reason="not wanted"))
    asked = [*a_minute(world), *a_minute(world)]
    assert ASKED in asked
    world.tell(has())
    assert world.job_state("j1") is JobState.CANCELLED


def test_cancel_that_is_not_confirmed_is_told_once_more_where_the_attempt_is_there() -> None:
    world = launched()
    world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    world.tell(inputs.Cancel(job="j1", reason="not wanted"))
    assert ASKED in [*a_minute(world), *a_minute(world)]
    world.tell(has(["j1.1"]))
    assert commands.Stop(node="n", attempt="j1.1", reason="cancelled") in world.commands


def test_chunk_that_its_node_does_not_have_is_sent_again() -> None:
    world = fleet()
    world.submit(sweep())
    (chunk, *_) = world.chunk("j1")
    assert ASKED in a_minute(world)
    held = list(world.state.sweeps["j1"].leases)
    world.tell(has(chunks=held[1:]))
    assert [each.chunk.id for each in world.commands if isinstance(each, commands.Lend)] == [chunk]
    (told,) = world.of(events.TroubleRecorded)
    assert chunk in told.what
    world.tell(world.searched(chunk))
    assert world.of(events.ChunkDone)


def test_chunk_that_is_reported_is_not_asked_for() -> None:
    world = fleet()
    world.submit(sweep())
    held = world.state.sweeps["j1"]
    for _ in range(8):
        told = {name: (held.ledger.leased[name][0], 0) for name in held.leases}
        world.tell(inputs.Progress(chunks=told), after_s=20.0)
        assert ASKED not in world.commands


def test_fetch_that_never_ends_is_ordered_again() -> None:
    world = fleet()
    job = script()
    world.submit(replace(job, payload=replace(job.payload, outputs=("*.txt",))))
    world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    world.tell(ended("j1.1"))
    assert world.job_state("j1") is JobState.COLLECTING
    again = [each for each in [*a_minute(world), *a_minute(world)] if isinstance(each, commands.Collect)]
    assert again
    assert again[0].fetch == Fetch(outputs=("*.txt",))
    world.tell(inputs.Fetched(attempt="j1.1"))
    assert world.job_state("j1") is JobState.DONE


def test_canary_that_is_never_answered_is_ordered_again() -> None:
    world = Driver()
    spec = replace(node(devices=1), canary=())
    world.tell(inputs.Begin(version="test", epoch=1), inputs.NodeFound(node=spec), link_up())
    assert any(isinstance(each, commands.Prove) for each in world.commands)
    begun, found = world.now, list[commands.Command]()
    while world.now < begun + PROOF_S + 3 * SILENT_S:
        found += a_minute(world)
    assert any(isinstance(each, commands.Prove) for each in found)


def test_node_that_lists_work_of_another_one_is_refused_that_only() -> None:
    world = Driver()
    both = [inputs.NodeFound(node=node(name, 1)) for name in "nm"]
    world.tell(inputs.Begin(version="test", epoch=1), *both, link_up("n"), link_up("m", agent="b"))
    world.submit(script(), script())
    world.tell(inputs.Launched(attempts=("j1.1", "j2.1")))
    asked = a_minute(world)
    assert {ListWork(node="n"), ListWork(node="m")} <= {each for each in asked if isinstance(each, ListWork)}
    theirs = {world.state.jobs[name].attempt.device[0]: f"{name}.1" for name in ("j1", "j2")}  # type: ignore[union-attr]
    given = WorkListed(node="n", attempts=(theirs["m"],), chunks=())
    world.tell(Reported(node="n", given=given))
    assert [each.attempt for each in world.of(events.AttemptLost)] == [theirs["n"]]
    assert [each.of for each in world.of(events.ResultRefused)] == [theirs["m"]]
    world.tell(Reported(node="n", given=WorkListed(node="m", attempts=(), chunks=())))
    assert not world.of(events.AttemptLost)
