"""What has to come from a node before the end of an attempt counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from hostler.core import orders
from hostler.core.explain import explain_job
from hostler.core.fetching import told_of
from hostler.model import commands, events, inputs
from hostler.model.codec import dump_event
from hostler.model.files import LINKS_LEFT, Fetch, FileRef, named_in
from hostler.model.work import FailureClass, JobSpec, JobState, ScriptPayload
from tests.core.builders import Driver, ended, fleet, link_up, node, replayed, script

OUT = FileRef(path="j1.1/out.csv", size=3, sha256="a" * 64)


def leaving(*outputs: str, **spec: Any) -> JobSpec:
    return JobSpec(name="leaves", payload=ScriptPayload(schema=1, argv=("true",), outputs=outputs), **spec)


def apart() -> Driver:
    """A fleet of one node whose files are its own."""
    world = Driver()
    world.tell(inputs.NodeFound(node=replace(node(), apart=True)), link_up())
    return world


def collects(world: Driver) -> list[commands.Collect]:
    return [each for each in world.commands if isinstance(each, commands.Collect)]


def test_it_has_not_succeeded_before_its_files_have_come() -> None:
    world = fleet()
    world.submit(leaving("*.csv"))
    world.tell(ended("j1.1", result=7, left=True))
    assert world.job_state("j1") is JobState.COLLECTING
    assert collects(world) == [commands.Collect(node="n", attempt="j1.1", fetch=Fetch(outputs=("*.csv",)), cwd=None)]
    assert world.state.devices["n/cpu0"].attempts == ["j1.1"]
    world.tell(inputs.Fetched(attempt="j1.1", files=(OUT,)))
    job = world.state.jobs["j1"]
    assert (job.state, job.result, job.files) == (JobState.DONE, 7, (OUT,))
    assert replayed(world.entries).state.jobs["j1"].files == (OUT,)


def test_one_that_failed_by_itself_is_not_waited_for() -> None:
    world = fleet()
    world.submit(leaving("*.csv"))
    world.tell(ended("j1.1", exit_code=3))
    assert collects(world) == []
    assert world.job_state("j1") is JobState.PENDING


def test_files_that_never_come_are_a_failure_of_the_result() -> None:
    world = fleet()
    world.submit(leaving("*.csv"))
    world.tell(ended("j1.1"))
    world.tell(inputs.Fetched(attempt="j1.1", error="it left no file"))
    job = world.state.jobs["j1"]
    assert (job.failures, "it left no file" in str(job.why)) == ({FailureClass.RESULT: 1}, True)


def test_a_name_that_is_no_text_is_told_in_escapes() -> None:
    world = fleet()
    world.submit(leaving("*.csv"))
    world.tell(ended("j1.1"), inputs.Fetched(attempt="j1.1", files=(replace(OUT, path="j1.1/\udcff.csv"),)))
    assert world.state.jobs["j1"].files == (replace(OUT, path="j1.1/\\udcff.csv"),)
    assert [dump_event(entry.event) for entry in world.entries]


def test_what_is_told_twice_or_late_counts_once() -> None:
    world = fleet()
    world.submit(leaving("*.csv"))
    told = ended("j1.1")
    world.tell(told)
    assert world.tell(told) == []
    fetched = inputs.Fetched(attempt="j1.1", files=(OUT,))
    assert [event.kind for event in world.tell(fetched, fetched)] == ["files.fetched", "job.done"]
    assert world.tell(inputs.Fetched(attempt="j9.1", files=(OUT,))) == []


def test_after_a_reconnect_or_a_restart_it_is_fetched_again() -> None:
    """The agent has forgotten the attempt by then: its end is in the journal here."""
    world = fleet()
    world.submit(leaving("*.csv"))
    world.tell(ended("j1.1"))
    world.tell(inputs.LinkDown(node="n", why="cut"))
    world.commands.clear()
    world.tell(link_up(attempts=()))
    assert world.job_state("j1") is JobState.COLLECTING
    assert [each.attempt for each in collects(world)] == ["j1.1"]
    world.tell(inputs.Begin(version="x", epoch=2))
    world.commands.clear()
    world.tell(link_up(attempts=()))
    assert [each.attempt for each in collects(world)] == ["j1.1"]


def test_one_that_is_cancelled_meanwhile_is_not_waited_for() -> None:
    world = fleet()
    world.submit(leaving("*.csv"))
    world.tell(ended("j1.1"))
    world.tell(inputs.Cancel(job="j1"))
    assert world.job_state("j1") is JobState.CANCELLED
    assert world.tell(inputs.Fetched(attempt="j1.1", files=(OUT,))) == []


def test_one_that_was_asked_to_leave_and_ended_well_is_fetched_after_a_reconnect() -> None:
    world = fleet()
    world.submit(leaving("*.csv"))
    world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    world.tell(inputs.CordonNode(node="n", drain=True, now=True, why="fans", who="me"))
    world.tell(ended("j1.1"))
    assert world.job_state("j1") is JobState.COLLECTING
    world.tell(inputs.LinkDown(node="n", why="cut"))
    world.commands.clear()
    world.tell(link_up(attempts=()))
    assert [type(each) for each in world.commands] == [commands.Keep, commands.Collect]
    world.tell(inputs.Fetched(attempt="j1.1", files=(OUT,)))
    assert world.job_state("j1") is JobState.DONE


def test_one_whose_files_come_is_not_asked_to_leave() -> None:
    world = fleet()
    world.submit(leaving("*.csv"))
    world.tell(ended("j1.1"))
    world.commands.clear()
    world.tell(inputs.CordonNode(node="n", drain=True, now=True, why="fans", who="me"))
    assert not any(isinstance(each, commands.Stop) for each in world.commands)
    world.tell(inputs.Fetched(attempt="j1.1", files=(OUT,)))
    assert world.job_state("j1") is JobState.DONE


def test_one_that_makes_way_as_its_files_come_is_not_stopped() -> None:
    """The link takes a stop for the end of what it does for an attempt, and nobody would fetch them any more."""
    world = fleet()
    world.submit(leaving("*.csv"))
    asked = events.PreemptRequested(attempt="j1.1", by=None, why="a training goes before it")
    assert [type(each) for each in orders.commands(world.state, world.core.index, asked)] == [commands.Stop]
    world.tell(ended("j1.1"))
    assert list(orders.commands(world.state, world.core.index, asked)) == []


def test_one_that_was_asked_to_leave_before_it_came_has_not_failed() -> None:
    world = fleet()
    world.submit(script())
    world.tell(inputs.CordonNode(node="n", drain=True, now=True, why="fans", who="me"))
    world.tell(ended("j1.1", exit_code=None, started_at=None, reason="unknown"))
    job = world.state.jobs["j1"]
    assert (job.state, job.failures) == (JobState.PENDING, {})


def test_what_cannot_be_brought_there_speaks_against_no_device() -> None:
    world = fleet()
    world.submit(*(script(f"s{at}") for at in range(4)))
    for at in range(1, 5):
        world.tell(ended(f"j{at}.1", exit_code=None, started_at=None, reason="files", error="too much"))
    assert world.state.jobs["j1"].failures == {FailureClass.FILES: 1}
    assert world.state.trust.doubts == {}


def test_what_was_saved_in_a_folder_that_is_gone_is_not_counted() -> None:
    world = apart()
    world.submit(script(checkpoints=True, expected_s={"*": 100.0}))
    world.tell(inputs.Started(attempt="j1.1", pid=1, pid_start=1))
    world.tell(inputs.CordonNode(node="n", drain=True, now=True, why="fans", who="me"))
    world.tell(ended("j1.1", exit_code=None, signal=15, reason="stopped", started_at=1.0, ended_at=51.0))
    assert world.state.jobs["j1"].progress == 0


def test_what_was_laid_out_on_a_node_goes_when_nobody_needs_it() -> None:
    world = apart()
    world.submit(script(), leaving("*.csv"))
    world.tell(ended("j1.1", left=True))
    assert commands.Clear(node="n", attempt="j1.1") in world.commands
    world.commands.clear()
    world.tell(ended("j2.1", left=True))
    assert not any(isinstance(each, commands.Clear) for each in world.commands), "its files have still to come"
    world.tell(inputs.LinkDown(node="n", why="cut"), link_up())
    assert commands.Keep(node="n", attempts=("j2.1",)) in world.commands
    world.tell(inputs.Fetched(attempt="j2.1", files=(OUT,)))
    assert commands.Clear(node="n", attempt="j2.1") in world.commands


@pytest.mark.parametrize(
    ("unfetched", "clears"), [(f"{LINKS_LEFT}: latest.pt", True), (f"a cannot be read. {LINKS_LEFT}: b", False)]
)
def test_workspace_that_lacks_links_alone_is_cleared(unfetched: str, clears: bool) -> None:
    world = apart()
    world.submit(leaving("*.csv"))
    world.tell(ended("j1.1", left=True))
    world.tell(inputs.Fetched(attempt="j1.1", files=(OUT,), unfetched=unfetched))
    assert (commands.Clear(node="n", attempt="j1.1") in world.commands) is clears


def test_people_are_told_what_it_waits_for() -> None:
    world = apart()
    world.submit(leaving("*.csv"))
    explained = explain_job(world.state, world.core.index, world.state.jobs["j1"])
    assert "what it needs is being sent to n" in explained.reasons
    world.tell(ended("j1.1"))
    explained = explain_job(world.state, world.core.index, world.state.jobs["j1"])
    assert "it has ended; what it left is being fetched from n, and counts once it is here" in explained.reasons


def test_of_one_that_brought_nothing_and_left_nothing_nothing_is_cleared() -> None:
    world = apart()
    world.submit(script())
    world.tell(ended("j1.1", left=False))
    assert [type(each) for each in world.commands] == [commands.Discard]


def test_workspace_of_a_job_without_snapshot_is_not_cleared_on_shared_files() -> None:
    world = fleet()
    world.submit(script())
    world.tell(ended("j1.1", left=True), inputs.LinkDown(node="n", why="cut"), link_up())
    assert not any(isinstance(each, commands.Clear) for each in world.commands)


def test_the_end_survives_in_the_journal() -> None:
    world = fleet()
    world.submit(leaving("*.csv"))
    world.tell(ended("j1.1", result={"loss": 1}))
    (end,) = [event for event in world.events if isinstance(event, events.AttemptEnded)]
    assert (end.result, end.fetch) == ({"loss": 1}, Fetch(outputs=("*.csv",)))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["a" * 64, "g@" + "b" * 64, "c" * 65]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["sha256", "x", "model"]), inner),
)


@settings(max_examples=30)
@given(JSON)
def test_whatever_a_result_says_what_it_tells_of_is_named_in_it(result: Any) -> None:
    assert told_of(result) <= named_in(result)


def test_players_name_their_models() -> None:
    order = {"players": [{"player": "gumbel-64@" + "ab" * 32}, {"player": "greedy"}], "seed": 17, "x": "c" * 65}
    assert named_in(order) == {"ab" * 32}
    assert told_of({"segments": [{"sha256": "cd" * 32}], "player": "gumbel-64@" + "ab" * 32}) == {"cd" * 32}
