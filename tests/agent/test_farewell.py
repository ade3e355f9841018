"""An agent whose machine is about to go: it says so, ends what runs, and waits until what it has was fetched."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from hostler.agent.farewell import NOTICE

from .harness import PATIENCE_S, Agent, patched, until
from .test_attempts import attempt

FLUSHES = """
trap 'echo "{\\"games\\": 3}" > $HOSTLER_RESULT; exit 143' TERM
echo ready
while :; do sleep 0.05; done
"""


def terminated(agent: Agent) -> None:
    agent.process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    "agent", [pytest.param(patched(f"farewell._PATIENCE_S = {PATIENCE_S}"), id="patient")], indirect=True
)
def test_told_to_end_it_says_so_and_waits_for_a_controller_that_has_not_got_everything(agent: Agent) -> None:
    client = agent.client(byes=True)
    client.launch(attempt("j1.1", "sh", "-c", FLUSHES, grace_s=PATIENCE_S))
    until(lambda: client.read("j1.1").get("size") == len("ready\n"), "the trap")
    terminated(agent)
    assert "SIGTERM" in client.message("leaving")["why"]
    assert client.ended("j1.1")["result"] == {"games": 3}
    time.sleep(1.0)
    assert agent.process.poll() is None, "what it has may be fetched still"
    client.send(type="bye")
    assert agent.process.wait(PATIENCE_S) == 0


def test_it_waits_for_nobody_who_would_not_let_it_go(agent: Agent) -> None:
    client = agent.client()
    terminated(agent)
    assert agent.process.wait(PATIENCE_S) == 0
    client.close()


def test_it_waits_for_nobody_who_is_gone(agent: Agent) -> None:
    agent.client(byes=True).close()
    terminated(agent)
    assert agent.process.wait(PATIENCE_S) == 0


def test_a_notice_ends_what_runs_and_the_agent_stays(agent: Agent, tmp_path: Path) -> None:
    client = agent.client(byes=True)
    client.launch(attempt("j1.1", "sh", "-c", FLUSHES, grace_s=PATIENCE_S))
    until(lambda: client.read("j1.1").get("size") == len("ready\n"), "the trap")
    (agent.directory / NOTICE).write_text("the provider wants it back at 12:00\n")
    assert client.message("leaving")["why"] == "its machine is about to go: the provider wants it back at 12:00"
    ended = client.ended("j1.1")
    assert (ended["reason"], ended["result"]) == ("stopped", {"games": 3})
    client.send(type="bye")
    client.launch(attempt("j2.1", "true"))
    assert client.ended("j2.1")["exit_code"] == 0, "whoever gives it work all the same knows better"
    client.close()
    assert agent.client().hello["leaving"] == "its machine is about to go: the provider wants it back at 12:00"


def test_a_notice_is_told_once_wherever_it_lies(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "node" / "agent")
    try:
        client = agent.client()
        (tmp_path / NOTICE).touch()
        client.message("leaving")
        time.sleep(4.5)  # two looks
        client.sync()
        told = [each["why"] for each in client.messages if each["type"] == "leaving"]
        assert told == ["its machine is about to go"]
    finally:
        agent.stop()
