"""What an agent does that hears from no controller: run on, and end what is leased when its lease is over."""

from __future__ import annotations

import json
import time
from pathlib import Path

from hostler.agent.contact import Contact, uptime
from hostler.agent.journal import Journal
from hostler.agent.loop import Loop
from hostler.agent.node import Node
from hostler.agent.state import State

from .harness import Agent, alive, until
from .test_attempts import attempt
from .test_workers import opened, worker, worker_pid

SHORT_S = 1.0
LONG_S = 1000.0


def test_what_is_leased_ends_with_its_lease_and_what_is_not_runs_on(agent: Agent) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 100}, lease_s=SHORT_S, queue="cpu3"))
    client.send(type="chunks", worker="w1", chunks=[["j7.1", 0, 100], ["j7.2", 100, 200]])
    client.launch(
        attempt("j1.1", "sleep", "3600", lease_s=SHORT_S),
        attempt("j1.2", "sleep", "3600", lease_s=SHORT_S),
        attempt("j2.1", "sleep", "3600", queue="cpu1", lease_s=LONG_S),
        attempt("j3.1", "sleep", "3600", queue="cpu2"),
    )
    pids = [client.fact("started", attempt=name)["pid"] for name in ("j1.1", "j2.1", "j3.1")]
    assert client.message("progress")["chunks"]["j7.1"][0] == 50
    searching = worker_pid(agent)
    client.close()
    until(lambda: not alive(pids[0]) and not alive(searching), "the ends of their leases")
    assert all(map(alive, pids[1:]))
    client = agent.client()
    for name, signal in (("j1.1", 15), ("j1.2", None)):
        ended = client.ended(name)
        assert (ended["reason"], ended["signal"]) == ("lease", signal)
        assert "its lease of 1 s is over" in ended["error"]
    returned = [client.fact("returned", chunk=name) for name in ("j7.1", "j7.2")]
    assert [(fact["reason"], fact["position"]) for fact in returned] == [("lease", 50), ("lease", None)]
    assert [hit["at"] for hit in returned[0]["hits"]] == [0, 10, 20, 30, 40]
    client.send(type="chunks", worker="w1", chunks=[["j7.3", 0, 10]])
    assert client.fact("returned", chunk="j7.3")["reason"] == "closed", "the worker holds its device no more"


def test_a_controller_that_is_connected_and_says_nothing_is_none(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600", lease_s=SHORT_S))
    assert client.ended("j1.1")["reason"] == "lease"


def test_a_word_now_and_then_keeps_the_lease(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600", lease_s=2.0))
    pid = client.fact("started")["pid"]
    end = time.monotonic() + 5.0  # its own clock, and two looks at it
    while time.monotonic() < end:
        client.send(type="here")
        time.sleep(0.1)
    assert alive(pid)


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
    assert Contact(node, None).silence_s() < 10.0
