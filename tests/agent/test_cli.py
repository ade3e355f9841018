"""The command line of the agent: detached start, refusal, signals, a full disk."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from .harness import PATIENCE_S, Agent, Client, alive, fill, until
from .test_attempts import attempt, shell


def test_detached_agent_outlives_its_starter(agent: Agent, tmp_path: Path) -> None:
    command = [*agent.command("--detach")[:-1], str(tmp_path / "detached")]
    started = subprocess.run(command, env=agent._env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (started.returncode, started.stdout, started.stderr) == (0, "", "")
    again = subprocess.run(command, env=agent._env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert again.returncode == 3
    client = Client(tmp_path / "detached")
    client.launch(shell("j1.1", "echo $PPID; ps -o sid= -p $PPID"))
    assert client.ended("j1.1")["exit_code"] == 0
    supervisor = int((tmp_path / "detached" / "attempts" / "j1.1" / "out").read_text().split()[0])
    assert os.getsid(supervisor) != os.getsid(0)
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: "starts in" in (tmp_path / "detached" / "agent.log").read_text(), "the keeper's word in the log")
    client.close()
    client = until(lambda: reconnect(tmp_path / "detached"), "the next supervisor")
    client.send(type="shutdown", when="now")
    while client.receive():
        pass
    client.close()
    until(lambda: not (tmp_path / "detached" / "agent.sock").exists(), "the end of the agent")


def reconnect(directory: Path) -> Client | None:
    try:
        client = Client(directory)
    except OSError:
        return None
    return client if client.hello else None


def test_a_folder_that_cannot_be_used(agent: Agent, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    command = [*agent.command()[:-1], str(tmp_path / "file" / "agent")]
    failed = subprocess.run(command, env=agent._env, capture_output=True, text=True, timeout=PATIENCE_S)
    assert failed.returncode == 2
    assert "cannot use the folder" in failed.stderr


def test_term_stops_everything(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600"))
    pid = client.fact("started")["pid"]
    agent.process.terminate()
    assert client.ended("j1.1")["reason"] == "stopped"
    assert agent.process.wait(PATIENCE_S) == 0
    assert not alive(pid)


def test_second_term_leaves_at_once_and_what_runs_runs_on(agent: Agent) -> None:
    client = agent.client()
    client.launch(shell("j1.1", "trap '' TERM; echo ready; exec sleep 3600", grace_s=3600))
    pid = client.fact("started")["pid"]
    until(lambda: client.read("j1.1").get("size") == 6, "the trap")
    agent.process.terminate()
    until(lambda: '"op":"stop"' in (agent.directory / "journal.jsonl").read_text(), "the stop")
    agent.process.terminate()
    assert agent.process.wait(PATIENCE_S) == 0
    assert alive(pid)
    os.kill(pid, signal.SIGKILL)
    until(lambda: not alive(pid), "its end")


def test_supervisor_that_dies_again_and_again_comes_back(agent: Agent) -> None:
    for incarnation in (2, 3, 4):
        agent.kill_supervisor()
        assert agent.client().hello["incarnation"] == incarnation


def test_full_disk_loses_no_fact(small_disk: Path, tmp_path: Path) -> None:
    agent = Agent(small_disk / "agent")
    try:
        fill_and_free(agent, small_disk, tmp_path)
    finally:
        agent.stop()


def fill_and_free(agent: Agent, small_disk: Path, tmp_path: Path) -> None:
    client = agent.client()
    fat = 'printf "\\"%020000d\\"" 0 | tr 0 1 > $HOSTLER_RESULT'
    wait = f"touch {tmp_path}/ready; while ! [ -e {tmp_path}/go ]; do sleep 0.01; done; exit 5"
    client.launch(shell("j1.1", f"{fat}; {wait}"), attempt("j1.2", "true"))
    until((tmp_path / "ready").exists, "the result")
    client.fact("started", attempt="j1.1")
    fill(small_disk / "ballast")
    (tmp_path / "go").touch()
    problem = client.message("error")["error"]
    assert "No space left" in problem
    assert "free some space" in problem
    client.sync()
    (small_disk / "ballast").unlink()
    assert client.ended("j1.1")["exit_code"] == 5
    assert client.ended("j1.2")["exit_code"] == 0
    agent.kill_supervisor()
    again = agent.client()
    again.ended("j1.2")
    assert again.facts == client.facts


def test_a_full_disk_with_the_log_on_it_ends_nobody(agent: Agent, small_disk: Path) -> None:
    folder = small_disk / "detached"
    subprocess.run([*agent.command("--detach")[:-1], str(folder)], env=agent._env, check=True, timeout=PATIENCE_S)
    client = Client(folder)
    incarnation = client.hello["incarnation"]
    try:
        fill(small_disk / "ballast")
        client.launch(shell("j1.1", f"true {20_000 * 'x'}"))
        assert "free some space" in client.message("error")["error"]
        client.sync()
    finally:
        (small_disk / "ballast").unlink()
        client.close()
        client = until(lambda: reconnect(folder), "the agent")
        client.send(type="shutdown", when="now")
        while client.receive():
            pass
        client.close()
    assert client.hello["incarnation"] == incarnation
    until(lambda: not (folder / "agent.sock").exists(), "the end of the agent")
