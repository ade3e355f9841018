"""What has to come from a node before the end of an attempt counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, strategies as st

from hostler.core.explain import explain_job
from hostler.core.fetching import told_of
from hostler.model import commands, events, inputs
from hostler.model.files import Fetch, FileRef, named_in
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
    assert any(isinstance(each, commands.Stop) for each in world.commands)
    world.tell(ended("j1.1", exit_code=None, reason="unknown"))
    assert world.job_state("j1") is JobState.CANCELLED


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


def test_people_are_told_what_it_waits_for() -> None:
    world = apart()
    world.submit(leaving("*.csv"))
    explained = explain_job(world.state, world.core.index, world.state.jobs["j1"])
    assert "what it needs is being sent to n" in explained.reasons
    world.tell(ended("j1.1"))
    explained = explain_job(world.state, world.core.index, world.state.jobs["j1"])
    assert "it has ended; what it left is being fetched from n, and counts once it is here" in explained.reasons


def test_nodes_that_share_this_machines_files_are_told_nothing_of_the_kind() -> None:
    world = fleet()
    world.submit(script())
    world.tell(ended("j1.1", left=True), inputs.LinkDown(node="n", why="cut"), link_up())
    assert not any(isinstance(each, commands.Clear | commands.Keep) for each in world.commands)


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


@given(JSON)
def test_whatever_a_result_says_what_it_tells_of_is_named_in_it(result: Any) -> None:
    assert told_of(result) <= named_in(result)


def test_players_name_their_models() -> None:
    order = {"players": [{"player": "gumbel-64@" + "ab" * 32}, {"player": "greedy"}], "seed": 17, "x": "c" * 65}
    assert named_in(order) == {"ab" * 32}
    assert told_of({"segments": [{"sha256": "cd" * 32}], "player": "gumbel-64@" + "ab" * 32}) == {"cd" * 32}
