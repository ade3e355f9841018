"""What an agent does that hears from no controller: run on, and end what is leased when its lease is over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hostler.agent.contact import Contact, uptime
from hostler.agent.journal import Journal
from hostler.agent.loop import Loop
from hostler.agent.node import Node
from hostler.agent.state import State

from .harness import Agent, alive, patched, until
from .test_attempts import attempt
from .test_workers import opened, worker, worker_pid

SHORT_S = 1.0
LONG_S = 1000.0
"""A lease that no busy machine exceeds in real time."""
CLOCK = """
def ahead():
    try:
        with open(sys.argv[-1] + "/ahead_s") as source:
            return uptime() + float(source.read())
    except FileNotFoundError:
        return uptime()

uptime = contact.uptime
contact.Contact.__init__.__defaults__ = (ahead,)
"""
with_clock = pytest.mark.parametrize("agent", [pytest.param(patched(CLOCK), id="clock")], indirect=True)
"""The agent has a lease clock that the test can advance."""


def set_clock(agent: Agent, ahead_s: float) -> None:
    """Set how far the clock of leases is ahead of the machine's."""
    fresh = agent.directory / "ahead_s.new"
    fresh.write_text(str(ahead_s))
    fresh.rename(agent.directory / "ahead_s")


@with_clock
def test_what_is_leased_ends_with_its_lease_and_what_is_not_runs_on(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 3600}, lease_s=LONG_S, queue="cpu3"))
    client.send(type="chunks", worker="w1", chunks=[["j7.1", 0, 100], ["j7.2", 100, 200]])
    client.launch(
        attempt("j1.1", "sleep", "3600", lease_s=LONG_S),
        attempt("j1.2", "sleep", "3600", lease_s=LONG_S),
        attempt("j2.1", "sleep", "3600", queue="cpu1", lease_s=3 * LONG_S),
        attempt("j3.1", "sleep", "3600", queue="cpu2"),
    )
    pids = [client.fact("started", attempt=name)["pid"] for name in ("j1.1", "j2.1", "j3.1")]
    assert client.message("progress")["chunks"]["j7.1"][0] == 50
    searching = worker_pid(agent)
    client.close()
    set_clock(agent, 2 * LONG_S)
    until(lambda: not alive(pids[0]) and not alive(searching), "the ends of their leases")
    assert all(map(alive, pids[1:]))
    client = agent.client()
    for name, signal in (("j1.1", 15), ("j1.2", None)):
        ended = client.ended(name)
        assert (ended["reason"], ended["signal"]) == ("lease", signal)
        assert f"its lease of {LONG_S:g} s is over" in ended["error"]
    returned = [client.fact("returned", chunk=name) for name in ("j7.1", "j7.2")]
    assert [(fact["reason"], fact["position"]) for fact in returned] == [("lease", 50), ("lease", None)]
    assert [hit["at"] for hit in returned[0]["hits"]] == [0, 10, 20, 30, 40]
    client.send(type="chunks", worker="w1", chunks=[["j7.3", 0, 10]])
    assert client.fact("returned", chunk="j7.3")["reason"] == "closed", "the worker holds its device no more"


def test_a_controller_that_is_connected_and_says_nothing_is_none(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600", lease_s=SHORT_S))
    assert client.ended("j1.1")["reason"] == "lease"


@with_clock
def test_a_word_now_and_then_keeps_the_lease(agent: Agent) -> None:
    client = agent.client()
    client.launch(
        attempt("j1.1", "sleep", "3600", lease_s=LONG_S),
        attempt("j2.1", "sleep", "3600", queue="cpu1", lease_s=LONG_S / 2),
    )
    pid = client.fact("started", attempt="j1.1")["pid"]
    client.fact("started", attempt="j2.1")
    for count in (1, 2, 3):
        set_clock(agent, count * 0.4 * LONG_S)
        client.send(type="here")
        client.sync()
    set_clock(agent, 1.8 * LONG_S)
    # The agent checks all leases in one pass, so the end of j2.1 shows that it has checked that of j1.1.
    assert client.ended("j2.1")["reason"] == "lease"
    assert alive(pid)
    whole = (agent.directory / "journal.jsonl").read_text().rpartition("\n")[0]  # the agent may be writing a line
    entries = map(json.loads, whole.splitlines())
    assert [entry["attempt"] for entry in entries if entry.get("op") == "stop"] == ["j2.1"]
    assert not [message for message in client.messages if message["type"] == "error"]


def test_the_lease_goes_on_over_a_restart(agent: Agent) -> None:
    client = agent.client()
    client.launch(
        attempt("j1.1", "sleep", "3600", lease_s=LONG_S),
        attempt("j2.1", "sleep", "3600", queue="cpu1", lease_s=3 * LONG_S),
    )
    pids = [client.fact("started", attempt=name)["pid"] for name in ("j1.1", "j2.1")]
    agent.kill()
    with (agent.directory / "journal.jsonl").open("a") as journal:
        journal.write(json.dumps({"op": "contact", "at": uptime() - 2 * LONG_S}) + "\n")
    agent.start()
    until(lambda: not alive(pids[0]), "the end of its lease")
    assert alive(pids[1])
    assert agent.client().ended("j1.1")["reason"] == "lease"


def test_the_end_of_a_lease_outlives_the_agent(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sh", "-c", "trap '' TERM; sleep 3600 & wait; wait", lease_s=SHORT_S, grace_s=3.0))
    pid = client.fact("started")["pid"]
    client.close()
    journal = agent.directory / "journal.jsonl"
    until(lambda: '"op":"stop"' in journal.read_text(), "the end of its lease")
    agent.kill_supervisor()
    until(lambda: not alive(pid), "its end, which the next supervisor goes on with")
    assert agent.client().ended("j1.1")["reason"] == "lease"


def test_the_last_word_is_kept_now_and_then(tmp_path: Path) -> None:
    now = 100.0
    journal = Journal(str(tmp_path / "journal.jsonl"))
    node = Node(str(tmp_path), Loop(), journal, State())
    contact = Contact(node, 40.0, lambda: now)
    assert contact.silence_s() == 60.0

    def kept() -> float | None:
        assert journal.flush()
        return State(journal.replay()).contact

    contact.heard()
    contact.note(61.0)
    assert kept() is None
    contact.note()
    assert (kept(), contact.silence_s()) == (100.0, 0.0)
    now = 120.0
    contact.heard()
    contact.note()
    assert kept() == 100.0
    contact.note(0.0)
    assert kept() == 120.0


def test_without_a_note_it_counts_from_the_start(tmp_path: Path) -> None:
    node = Node(str(tmp_path), Loop(), Journal(str(tmp_path / "journal.jsonl")), State())
    began = uptime()
    contact = Contact(node, None)
    assert 0.0 <= contact.silence_s() <= uptime() - began
