"""Cordon, drain, resume: what a node is given, what it has, and what is said of it."""

from __future__ import annotations

import pytest

from hostler.core import shown
from hostler.core.explain import explain_job
from hostler.core.explain_device import explain_device
from hostler.core.views import node_views
from hostler.model import commands, events, inputs
from hostler.model.errors import BrokenInvariant, NotFound
from hostler.model.views import CordonView
from hostler.model.work import JobState
from tests.core.builders import Driver, ended, fleet, link_up, replayed, script, snapshot, sweep

CORDON = inputs.CordonNode(node="n", why="a fan is loud", who="anna")
DRAIN = inputs.CordonNode(node="n", drain=True)
NOW = inputs.CordonNode(node="n", drain=True, now=True)
RESUME = inputs.ResumeNode(node="n", who="anna")


def test_a_cordoned_node_is_given_nothing_new_and_what_runs_runs_on() -> None:
    world = fleet(devices=2)
    world.submit(script())
    world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    assert [event.kind for event in world.tell(CORDON)] == ["node.cordoned"]
    assert world.commands == []
    world.submit(script(), sweep())
    assert (world.of(events.AttemptLeased), world.of(events.ChunkLeased)) == ([], [])
    world.tell(ended("j1.1"))
    assert world.job_state("j1") is JobState.DONE
    assert world.of(events.AttemptLeased) == []
    assert replayed(world.entries).state == world.state


def test_a_resumed_node_is_given_work_again() -> None:
    world = fleet(devices=2)
    world.tell(CORDON)
    world.submit(script(), sweep())
    world.tell(RESUME)
    assert len(world.of(events.NodeResumed)) == len(world.of(events.AttemptLeased)) == 1
    assert world.of(events.ChunkLeased)


def test_saying_it_twice_is_no_error_and_no_event() -> None:
    world = fleet()
    for given in (RESUME, CORDON):
        world.tell(given)
        assert world.tell(given) == []
        assert world.answers == [None]
    assert world.tell(inputs.CordonNode(node="n")) == [], "the reason that is known stays"
    (again,) = world.tell(inputs.CordonNode(node="n", why="it burns", who="bob"))
    assert isinstance(again, events.NodeCordoned)
    assert (again.why, again.who, again.drain) == ("it burns", "bob", False)


@pytest.mark.parametrize("given", [inputs.CordonNode(node="x"), inputs.ResumeNode(node="x")])
def test_an_unknown_node_is_not_found(given: inputs.Input) -> None:
    world = fleet()
    assert world.tell(given) == []
    assert isinstance(world.answers[0], NotFound)
    assert "it has n" in str(world.answers[0])


def test_chunks_behind_the_one_at_work_are_recalled() -> None:
    world = fleet()
    world.submit(sweep())
    first, behind = world.state.devices["n/cpu0"].chunks
    world.tell(CORDON)
    assert [each.chunk for each in world.commands if isinstance(each, commands.Recall)] == [behind]
    world.tell(world.returned(behind, reason="recalled"))
    world.tell(world.searched(first))
    assert world.of(events.ChunkLeased) == []
    assert world.state.devices["n/cpu0"].chunks == []


def test_a_drained_node_is_told_of_once() -> None:
    world = fleet(devices=2)
    world.submit(script(), script())
    assert [event.kind for event in world.tell(DRAIN)] == ["node.cordoned"]
    assert cordon_of(world).state == "draining"
    world.tell(ended("j1.1"))
    assert world.of(events.NodeDrained) == []
    world.tell(ended("j2.1"))
    assert len(world.of(events.NodeDrained)) == 1
    assert cordon_of(world).state == "drained"
    assert world.tell(inputs.Tick()) == world.tell(DRAIN) == []
    assert [event.kind for event in world.tell(CORDON)] == ["node.cordoned"], "for a reason, and as empty as it was"
    assert cordon_of(world).state == "drained"
    assert replayed(world.entries).state == world.state


def test_an_idle_node_is_drained_at_once() -> None:
    assert [event.kind for event in fleet().tell(DRAIN)] == ["node.cordoned", "node.drained"]


def test_drain_now_asks_everything_to_go_and_blames_nobody() -> None:
    world = fleet(devices=3)
    world.submit(script(), script(checkpoints=True), sweep())
    world.tell(*(inputs.Started(attempt=f"j{n}.1", pid=n, pid_start=1) for n in (1, 2)))
    chunks = list(world.state.devices["n/cpu2"].chunks)
    world.tell(DRAIN)
    world.tell(NOW)
    assert [event.attempt for event in world.of(events.PreemptRequested)] == ["j1.1", "j2.1"]
    assert {each.attempt for each in world.commands if isinstance(each, commands.Stop)} == {"j1.1", "j2.1"}
    assert [each.chunk for each in world.commands if isinstance(each, commands.Recall)] == chunks
    assert world.tell(NOW) == []
    world.tell(*(ended(f"j{n}.1", signal=15, reason="stopped") for n in (1, 2)))
    assert {event.failure for event in world.of(events.JobRequeued)} == {None}
    world.tell(*(world.returned(chunk, reason="recalled") for chunk in chunks))
    assert not any(event.blame for event in world.of(events.ChunkReturned))
    assert len(world.of(events.NodeDrained)) == 1
    assert [world.job_state(name) for name in ("j1", "j2")] == [JobState.PENDING] * 2
    world.tell(RESUME)
    assert len(world.of(events.AttemptLeased)) == 2


def test_a_node_out_of_reach_is_told_when_it_answers() -> None:
    world = fleet(devices=2)
    world.submit(script(), sweep())
    world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    chunks = list(world.state.devices["n/cpu1"].chunks)
    world.tell(inputs.LinkDown(node="n", why="cut"))
    world.tell(NOW)
    assert world.of(events.NodeDrained) == []
    world.tell(link_up(attempts=["j1.1"], chunks=chunks))
    assert [type(each).__name__ for each in world.work] == ["Stop", *["Recall"] * len(chunks)]


def test_what_a_cordoned_node_never_got_it_does_not_get() -> None:
    world = fleet()
    world.submit(sweep())
    first, behind = world.state.devices["n/cpu0"].chunks
    world.tell(inputs.LinkDown(node="n", why="cut"))
    world.tell(CORDON)
    world.tell(link_up(chunks=[first]))
    assert [each.chunk for each in world.commands if isinstance(each, commands.Recall)] == [behind]
    assert len(world.work) == 1


def test_it_survives_restarts_and_new_descriptions() -> None:
    world = fleet()
    world.tell(CORDON)
    again = Driver(replayed((), snapshot(world.state)), now=world.now)
    again.tell(inputs.Begin(version="test", epoch=2), link_up())
    again.submit(script())
    assert again.of(events.AttemptLeased) == []
    again.tell(inputs.NodeFound(node=fleet(devices=2).state.nodes["n"].spec))
    assert again.of(events.AttemptLeased) == []
    again.tell(RESUME)
    assert len(again.of(events.AttemptLeased)) == 1


def test_it_is_shown_everywhere() -> None:
    world = fleet()
    world.tell(CORDON)
    world.submit(script(), sweep())
    index = world.core.index
    said = "n is cordoned by anna: a fan is loud"
    (ban,) = shown.bans(world.state, index)
    assert (ban.kind, ban.what, ban.owner, ban.until) == ("cordon", "n", "anna", None)
    assert "hostler node resume n" in ban.why
    for name in ("j1", "j2"):
        told = explain_job(world.state, index, world.state.jobs[name])
        assert told.gates == {"cordon": 1}
        assert said in told.devices["n/cpu0"]
        assert any("hostler node resume n" in change.what for change in told.changes)
    assert said in explain_device(world.state, index, world.state.devices["n/cpu0"]).summary
    view = cordon_of(world)
    assert (view.state, view.who, view.why, view.since) == ("cordoned", "anna", "a fan is loud", world.now - 1.0)


def test_what_is_put_there_all_the_same_is_found() -> None:
    world = fleet()
    world.submit(script())
    world.tell(CORDON)
    attempt = world.state.jobs["j1"].attempt
    assert attempt is not None
    attempt.leased_at = world.now + 1.0
    with pytest.raises(BrokenInvariant, match=r"j1\.1 was put on n/cpu0, which has been cordoned"):
        world.core.validate()


def cordon_of(world: Driver) -> CordonView:
    (view,) = node_views(world.state, world.core.index)
    assert view.cordon is not None
    return view.cordon
