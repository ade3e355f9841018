"""What survives what: lost connections, a killed supervisor, a killed keeper."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hostler.agent.connection import connect
from hostler.agent.procs import start_time

from .harness import PATIENCE_S, Agent, alive, until
from .test_attempts import attempt, shell
from .test_workers import opened, worker


def test_facts_are_replayed_until_acknowledged(agent: Agent) -> None:
    first = agent.client()
    assert (first.hello["seq"], first.hello["attempts"], first.hello["incarnation"]) == (0, [], 1)
    first.launch(attempt("j1.1", "true"), attempt("j2.1", "true"))
    first.ended("j2.1")
    first.close()
    second = agent.client()
    second.ended("j2.1")
    assert second.hello["seq"] == 4
    assert sorted(second.hello["attempts"]) == ["j1.1", "j2.1"]
    assert second.facts == first.facts
    third = agent.client(ack=2)
    third.ended("j2.1")
    assert third.facts == first.facts[2:]
    assert third.hello["attempts"] == ["j2.1"]
    third.ack()
    third.sync()
    last = agent.client(ack=4)
    last.sync()
    assert (last.hello["attempts"], last.facts) == ([], [])


def test_an_ack_for_another_agent_is_not_taken(agent: Agent) -> None:
    first = agent.client()
    first.launch(attempt("j1.1", "true"))
    first.ended("j1.1")
    second = agent.client(ack=41, agent="another")
    second.ended("j1.1")
    assert second.hello["attempts"] == ["j1.1"]
    assert agent.client(ack=41, agent=second.hello["agent"]).hello["attempts"] == []


def test_an_ack_request_for_another_agent_is_ignored(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "true"))
    seq = client.ended("j1.1")["seq"]
    client.send(type="ack", seq=seq, agent="another")
    assert agent.client().hello["attempts"] == ["j1.1"]
    client = agent.client()
    client.send(type="ack", seq=seq, agent=client.hello["agent"])
    client.sync()
    assert agent.client().hello["attempts"] == []


def test_what_is_acknowledged_before_it_was_sent_again_is_not_sent(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "true"))
    fact = client.ended("j1.1")
    name, supervisor = client.hello["agent"], agent.supervisor
    requests = [
        {"type": "hello", "protocol": 1, "controller": "test", "epoch": 1, "ack": 0},
        {"type": "ack", "seq": fact["seq"], "agent": name},
        {"type": "read", "id": 1, "attempt": "none.such", "stream": "out", "offset": 0, "limit": 1},
    ]
    with connect(str(agent.directory), PATIENCE_S) as at_once, at_once.makefile("rb") as heard:
        at_once.sendall(b"".join(json.dumps(each).encode() + b"\n" for each in requests))
        until(lambda: json.loads(heard.readline())["type"] == "read", "the answer to the last request")
        time.sleep(0.2)  # facts are gathered for a moment before they are sent
    assert agent.supervisor == supervisor, "it did not fail meanwhile"
    assert agent.client().hello["attempts"] == []


def test_attempts_run_on_without_a_controller(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    client.launch(shell("j1.1", f"while ! [ -e {tmp_path}/go ]; do sleep 0.01; done; exit 5"))
    client.fact("started")
    client.close()
    (tmp_path / "go").touch()
    assert agent.client().ended("j1.1")["exit_code"] == 5


def test_epoch_fencing(agent: Agent) -> None:
    old = agent.client(epoch=3)
    new = agent.client(epoch=4)
    until(lambda: old.receive() == {}, "the hang-up")
    refused = agent.client(epoch=3).hello
    assert (refused["type"], refused["epoch"]) == ("refused", 4)
    new.sync()
    agent.kill_supervisor()
    assert agent.client(epoch=3).hello["type"] == "refused"
    assert agent.client(epoch=4).hello["type"] == "hello"


def test_second_agent_in_the_same_folder(agent: Agent) -> None:
    for extra in ([], ["--detach"]):
        second = subprocess.run(
            agent.command(*extra), env=agent._env, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert second.returncode == 3
        assert "another agent serves" in second.stderr
    agent.client().sync()


def test_killed_supervisor(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    client.launch(
        shell("j1.1", f"while ! [ -e {tmp_path}/go ]; do sleep 0.01; done; echo '[1]' > $HOSTLER_RESULT; exit 5"),
        attempt("j1.2", "true"),
        attempt("j2.1", "sleep", "3600", queue="cpu1"),
        attempt("j3.1", "sleep", "3600", queue="cpu2", walltime_s=1),
    )
    pids = [client.fact("started", attempt=name)["pid"] for name in ("j1.1", "j2.1", "j3.1")]
    agent.kill_supervisor()
    assert all(map(alive, pids[:2]))
    # The ack covers the starts only: on a busy machine the end of j3.1 may have been reported by now.
    client = agent.client(ack=max(fact["seq"] for fact in client.facts if fact["fact"] == "started"))
    assert client.hello["incarnation"] == 2
    assert sorted(client.hello["attempts"]) == ["j1.1", "j1.2", "j2.1", "j3.1"]
    (tmp_path / "go").touch()
    ended = client.ended("j1.1")
    assert (ended["exit_code"], ended["reason"], ended["result"]) == (5, None, [1])
    assert ended["started_at"] is not None
    assert client.ended("j1.2")["exit_code"] == 0
    assert client.ended("j3.1")["reason"] == "walltime"
    client.send(type="stop", attempts=["j2.1"], reason="cancelled")
    ended = client.ended("j2.1")
    assert (ended["reason"], ended["signal"]) == ("stopped", signal.SIGTERM)


def test_secrets_of_a_queued_attempt_outlive_the_supervisor_and_are_in_no_journal(agent: Agent, tmp_path: Path) -> None:
    value, secrets = "planted-value", agent.directory / "secrets"
    client = agent.client()
    client.launch(
        shell("j1.1", f"while ! [ -e {tmp_path}/go ]; do sleep 0.01; done"),
        shell("j1.2", 'printf %s "$TOKEN" | wc -c > $HOSTLER_RESULT', secrets={"TOKEN": value}),
    )
    client.fact("started", attempt="j1.1")
    assert [
        path.name for path in agent.directory.rglob("*") if path.is_file() and value in path.read_text("latin-1")
    ] == ["j1.2"]
    assert stat.S_IMODE((secrets / "j1.2").stat().st_mode) == 0o600
    agent.kill_supervisor()
    client = agent.client()
    (tmp_path / "go").touch()
    assert client.ended("j1.2")["result"] == len(value)
    assert list(secrets.iterdir()) == []


def test_attempt_whose_secrets_are_gone_is_lost(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600"), attempt("j1.2", "true", secrets={"TOKEN": "planted"}))
    client.fact("started", attempt="j1.1")
    (agent.directory / "secrets" / "j1.2").unlink()
    agent.kill_supervisor()
    client = agent.client()
    assert client.ended("j1.2")["reason"] == "lost"
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")
    client.ended("j1.1")


def test_attempt_that_ends_while_the_supervisor_is_down(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600"))
    pid = client.fact("started")["pid"]
    supervisor = agent.supervisor
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(pid, signal.SIGINT)
    until(lambda: not alive(pid), "the attempt's end")
    os.kill(supervisor, signal.SIGKILL)
    ended = agent_after(agent, supervisor).client().ended("j1.1")
    assert (ended["signal"], ended["reason"]) == (signal.SIGINT, None)


def agent_after(agent: Agent, killed: int) -> Agent:
    until(lambda: agent.supervisor != killed and agent._is_up(), "the next supervisor")
    return agent


def test_orphans_of_attempts_are_reaped(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    orphan = f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 0.1"
    client.launch(shell("j1.1", f"setsid sh -c '{orphan}' & while ! [ -e {tmp_path}/pid ]; do sleep 0.01; done"))
    client.ended("j1.1")
    pid = int((tmp_path / "pid").read_text())
    until(lambda: start_time(pid) is None, "the orphan to be reaped")


def test_stop_that_outlives_the_supervisor(agent: Agent) -> None:
    client = agent.client()
    client.launch(shell("j1.1", "trap '' TERM; echo ready; while true; do sleep 0.05; done", grace_s=1.5))
    pid = client.fact("started")["pid"]
    until(lambda: client.read("j1.1").get("size") == 6, "the trap")
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")
    client.sync()
    agent.kill_supervisor()
    ended = agent.client().ended("j1.1")
    assert ended["reason"] == "stopped"
    assert not alive(pid)


def test_killed_keeper_and_supervisor(agent: Agent, tmp_path: Path) -> None:
    client = agent.client()
    script = "while ! [ -e %s ]; do sleep 0.01; done; exit 5"
    client.launch(
        shell("j1.1", script % (tmp_path / "go1")),
        shell("j2.1", script % (tmp_path / "go2"), queue="cpu1"),
    )
    pids = [client.fact("started", attempt=name)["pid"] for name in ("j1.1", "j2.1")]
    agent.kill()
    assert all(map(alive, pids))
    (tmp_path / "go1").touch()
    until(lambda: not alive(pids[0]), "the unseen end")
    agent.start()
    client = agent.client()
    assert client.hello["incarnation"] == 2
    assert client.ended("j1.1")["reason"] == "lost"
    assert alive(pids[1])
    (tmp_path / "go2").touch()
    assert client.ended("j2.1")["reason"] == "lost"


def test_attempt_between_starting_and_started_is_found(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600"))
    pid = client.fact("started")["pid"]
    agent.kill()
    journal = agent.directory / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    assert '"fact":"started"' in lines[-1]
    journal.write_text("".join(lines[:-1]) + lines[-1][:20])
    agent.start()
    client = agent.client()
    started = client.fact("started", attempt="j1.1")
    assert (started["pid"], started["pid_start"]) == (pid, start_time(pid))
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")
    assert client.ended("j1.1")["reason"] == "stopped"
    until(lambda: not alive(pid), "its end")


def test_another_boot_means_lost(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600"), attempt("j2.1", "true"))
    pid = client.fact("started")["pid"]
    boot = client.hello["boot"]
    agent.kill()
    os.kill(pid, signal.SIGKILL)
    journal = agent.directory / "journal.jsonl"
    journal.write_text(journal.read_text().replace(boot, "an-earlier-boot"))
    agent.start()
    client = agent.client()
    assert client.ended("j1.1")["reason"] == "lost"
    assert client.ended("j2.1")["exit_code"] == 0


def test_killed_keeper_alone(agent: Agent) -> None:
    client = agent.client()
    supervisor = agent.supervisor
    agent.process.kill()
    agent.process.wait()
    client.launch(attempt("j1.1", "true"))
    assert client.ended("j1.1")["exit_code"] == 0
    client.send(type="shutdown", when="now")
    until(lambda: not alive(supervisor), "the end of the supervisor")


def test_the_next_hello_takes_a_shutdown_when_idle_back(agent: Agent) -> None:
    client = opened(agent, worker())
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100]])
    client.fact("chunk_done", chunk="c.1")
    client.send(type="shutdown", when="idle")
    client.sync()
    client = agent.client(ack=client.facts[-1]["seq"])
    client.sync()
    client.send(type="open", worker=worker())
    client.send(type="chunks", worker="w1", chunks=[["c.2", 0, 100]])
    assert len(client.fact("chunk_done", chunk="c.2")["hits"]) == 10
    client.ack()
    client.sync()
    client.send(type="shutdown", when="idle")
    assert agent.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("when", ["now", "idle"])
def test_shutdown(agent: Agent, when: str) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "0.1" if when == "idle" else "3600"), attempt("j1.2", "true"))
    client.fact("started", attempt="j1.1")
    client.send(type="shutdown", when=when)
    assert client.ended("j1.1")["reason"] == (None if when == "idle" else "stopped")
    assert client.ended("j1.2")["reason"] == (None if when == "idle" else "stopped")
    client.ack() if when == "idle" else None
    assert agent.process.wait(PATIENCE_S) == 0
    assert not (agent.directory / "agent.sock").exists()
    agent.start()
    assert sorted(agent.client().hello["attempts"]) == ([] if when == "idle" else ["j1.1", "j1.2"])


def test_a_folder_moved_away_ends_the_agent_though_another_takes_its_place(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600"))
    pid = client.fact("started", attempt="j1.1")["pid"]
    agent.directory.rename(agent.directory.with_name("moved"))
    other = Agent(agent.directory)
    assert agent.process.wait(PATIENCE_S) == 0
    assert not alive(pid)
    assert other.client().hello["attempts"] == []
    assert other.stop() == 0


def test_a_deleted_folder_ends_the_agent_and_what_it_runs(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600"))
    pid = client.fact("started", attempt="j1.1")["pid"]
    shutil.rmtree(agent.directory)
    assert agent.process.wait(PATIENCE_S) == 0
    assert not alive(pid)


HANGS_UP = """
import socket, sys
from hostler.agent import __main__, connection, node
complain, send_line = node.Node.complain, connection.Connection.send_line

def complain_twice(self, problem):
    complain(self, problem)
    complain(self, problem + ", indeed")

def hang_up_first(self, data):
    if b'"type":"error"' in data:
        self._peer.shutdown(socket.SHUT_RDWR)
    send_line(self, data)

node.Node.complain, connection.Connection.send_line = complain_twice, hang_up_first
sys.exit(__main__.main())
"""


def test_troubles_to_tell_of_as_the_controller_hangs_up_end_nobody(tmp_path: Path) -> None:
    """Found in CI: an agent with two of them ended itself when the first could not be sent."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho no device of mine\n")
    tool.chmod(0o755)
    agent = Agent(tmp_path / "agent", (sys.executable, "-c", HANGS_UP), PATH=f"{tmp_path}:{os.environ['PATH']}")
    supervisor = agent.supervisor
    client = agent.client()
    client.send(type="probe", id=7)
    while client.receive():
        continue
    assert agent.client().hello["incarnation"] == 1
    assert agent.supervisor == supervisor
    assert agent.stop() == 0


def test_why_a_supervisor_failed_is_in_the_log(tmp_path: Path) -> None:
    fails = "import sys; from hostler.agent import __main__ as a; a.Supervisor = lambda _: 1 / 0; sys.exit(a.main())"
    log = tmp_path / "log"
    with log.open("w") as errors:
        command = [sys.executable, "-c", fails, "--dir", str(tmp_path / "agent")]
        with subprocess.Popen(command, stderr=errors) as keeper:
            try:
                until(lambda: "the next one starts" in log.read_text(), "the end of the first supervisor")
            finally:
                keeper.terminate()
            assert keeper.wait(PATIENCE_S) == 1
    assert "ZeroDivisionError" in log.read_text()
