"""What attempts leave running ends with them, however they end."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from hostler.agent import procs

from .harness import Agent, Client, Json, alive, patched, until
from .test_attempts import attempt, shell
from .test_workers import opened, worker

DAEMON = """
import os, sys
kind, at = sys.argv[1:]
if kind == "fork":                       # twice, in a session of its own
    if os.fork():
        sys.exit()
    os.setsid()
    if os.fork():
        sys.exit()
elif os.fork():
    sys.exit()
else:
    os.setsid()
env = {} if kind == "bare" else dict(os.environ)
if kind == "bare":                       # nothing about it says whose it is
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in range(3):
        os.dup2(null, fd)
with open(at + ".new", "w") as target:
    target.write(str(os.getpid()))
os.rename(at + ".new", at)
os.execve("/bin/sleep", ["sleep", "3600"], env)
"""
KINDS = ["fork", "setsid", "bare"]


def daemon(kind: str, at: Path) -> str:
    """A shell command that leaves a process behind, whose pid is in `at` when it is over."""
    return f"{sys.executable} -S {at.parent}/daemon.py {kind} {at}; while ! [ -e {at} ]; do sleep 0.01; done"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "daemon.py").write_text(DAEMON)
    return tmp_path / "pid"


def left_by(place: Path) -> int:
    until(place.exists, "the process that is left")
    return int(place.read_text())


def expect_ended(client: Client, place: Path, name: str = "j1.1") -> Json:
    """The end of an attempt, by which what it left is gone."""
    ended = client.ended(name)
    assert not alive(int(place.read_text()))
    return ended


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", [0, 3])
def test_what_is_left_ends_with_an_attempt_that_ends_by_itself(agent: Agent, place: Path, kind: str, code: int) -> None:
    client = agent.client()
    client.launch(shell("j1.1", f"{daemon(kind, place)}; exit {code}"))
    ended = expect_ended(client, place)
    assert (ended["exit_code"], ended["reason"]) == (code, None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["stopped", "walltime"])
def test_what_is_left_ends_with_an_attempt_that_is_stopped(agent: Agent, place: Path, kind: str, how: str) -> None:
    client = agent.client()
    limit = {"walltime_s": 2.0} if how == "walltime" else {}
    client.launch(shell("j1.1", f"{daemon(kind, place)}; sleep 3600", **limit))
    left_by(place)
    if how == "stopped":
        client.send(type="stop", attempts=["j1.1"], reason="cancelled")
    assert expect_ended(client, place)["reason"] == how


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_ends_with_an_attempt_that_another_supervisor_began(
    agent: Agent, place: Path, tmp_path: Path, kind: str
) -> None:
    client = agent.client()
    client.launch(shell("j1.1", f"{daemon(kind, place)}; while ! [ -e {tmp_path}/go ]; do sleep 0.01; done"))
    pid = left_by(place)
    agent.kill_supervisor()
    client = agent.client()
    client.sync()
    assert alive(pid), "it runs, and so does what it has started"
    (tmp_path / "go").touch()
    assert expect_ended(client, place)["exit_code"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_ends_with_an_attempt_that_ended_without_an_agent(
    agent: Agent, place: Path, tmp_path: Path, kind: str
) -> None:
    client = agent.client()
    client.launch(shell("j1.1", f"{daemon(kind, place)}; while ! [ -e {tmp_path}/go ]; do sleep 0.01; done"))
    pid, main = left_by(place), client.fact("started")["pid"]
    agent.kill()
    (tmp_path / "go").touch()
    until(lambda: not alive(main), "the end without an agent")
    assert alive(pid)
    agent.start()
    assert expect_ended(agent.client(), place)["exit_code"] == 0


def test_what_others_run_stays_as_a_new_agent_finds_an_attempt_that_has_ended(
    agent: Agent, place: Path, tmp_path: Path
) -> None:
    client = agent.client()
    client.launch(shell("j1.1", f"while ! [ -e {tmp_path}/go ]; do sleep 0.01; done"))
    first = client.fact("started", attempt="j1.1")["pid"]
    client.launch(shell("j2.1", f"{daemon('bare', place)}; sleep 3600", queue="cpu1"))
    main = client.fact("started", attempt="j2.1")["pid"]
    pid = left_by(place)
    agent.kill()
    (tmp_path / "go").touch()
    until(lambda: not alive(first), "the end without an agent")
    agent.start()
    client = agent.client()
    assert client.ended("j1.1")["exit_code"] == 0
    assert alive(main)
    assert alive(pid)
    client.send(type="stop", attempts=["j2.1"], reason="cancelled")
    expect_ended(client, place, "j2.1")


def test_what_others_run_and_the_agent_itself_stay(agent: Agent, place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    client = agent.client()
    client.launch(shell("j2.1", f"{daemon('fork', other)}; sleep 3600", queue="cpu1"))
    theirs, main = left_by(other), client.fact("started", attempt="j2.1")["pid"]
    client.launch(shell("j1.1", daemon("fork", place)))
    expect_ended(client, place)
    assert alive(theirs)
    assert alive(main)
    assert client.hello["incarnation"] == agent.client().hello["incarnation"]


def test_what_another_agent_in_an_attempt_left_stays_while_that_may_run(
    agent: Agent, place: Path, tmp_path: Path
) -> None:
    client = agent.client()
    nested = f"HOSTLER_ATTEMPT_DIR={tmp_path}/nested/attempts/j1.1 setsid sleep 3600 > /dev/null 2>&1 < /dev/null & "
    client.launch(shell("j1.1", f"cd /; {nested} echo $! > {place}.new; mv {place}.new {place}; sleep 3600"))
    pid = left_by(place)
    client.launch(attempt("j2.1", "true", queue="cpu1"))
    client.ended("j2.1")
    assert alive(pid)
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")
    expect_ended(client, place)


def test_what_cannot_be_attributed_is_told_of_and_ends_with_the_last_that_it_may_be_of(
    agent: Agent, place: Path
) -> None:
    client = agent.client()
    client.launch(attempt("j2.1", "sleep", "3600", queue="cpu1"))
    client.fact("started", attempt="j2.1")
    client.launch(shell("j1.1", daemon("bare", place)))
    client.ended("j1.1")
    pid = int(place.read_text())
    assert alive(pid)
    told = until(lambda: [each["error"] for each in client.messages if each["type"] == "error"], "a word of it")
    assert f"j1.1 has ended, and process {pid} (sleep) may be of it or of what runs beside it" in told[0]
    client.send(type="stop", attempts=["j2.1"], reason="cancelled")
    client.ended("j2.1")
    assert not alive(pid)


UNENDABLE = patched(
    "from hostler.agent import leftovers, procs; import os\n"
    "leftovers._LONGEST_S, leftovers._LOOK_S = 0.2, 0.05\n"
    "kill = procs.kill\n"
    "procs.kill = lambda each: kill(each) if os.path.exists(os.environ['MAY_KILL']) else None"
)
"""An agent that cannot end what was left, as what hangs in the kernel, before there is a file."""


def test_place_of_what_cannot_be_ended_is_given_nothing_and_a_text_says_so(place: Path, tmp_path: Path) -> None:
    agent = Agent(tmp_path / "agent", UNENDABLE, MAY_KILL=str(tmp_path / "may"))
    client = agent.client()
    client.launch(shell("j1.1", daemon("fork", place)), attempt("j1.2", "true"))
    assert client.ended("j1.1")["exit_code"] == 0
    pid = int(place.read_text())
    client.launch(attempt("j3.1", "true", queue="cpu1"))
    client.ended("j3.1")
    assert "j1.2" in agent.client(ack=client.facts[-1]["seq"]).hello["attempts"]
    told = [each["error"] for each in client.messages if each["type"] == "error"]
    assert f"left processes that cannot be ended: process {pid} (sleep); nothing else is started" in told[0]
    (tmp_path / "may").touch()
    client = agent.client(ack=client.facts[-1]["seq"])
    assert client.ended("j1.2")["exit_code"] == 0
    assert not alive(pid)
    assert agent.stop() == 0


def test_agent_says_where_orphans_do_not_come_to_it(tmp_path: Path, place: Path) -> None:
    forbidden = patched(
        "from hostler.agent import procs\n"
        "def refuse(*given): raise OSError(38, 'Function not implemented')\n"
        "procs._prctl = refuse"
    )
    agent = Agent(tmp_path / "agent", forbidden)
    client = agent.client()
    client.launch(shell("j1.1", f"setsid sleep 3600 & echo $! > {place}; exit 4"))
    assert client.ended("j1.1")["exit_code"] == 4
    told = [each["error"] for each in client.messages if each["type"] == "error"]
    assert any("does not give orphans to the agent" in each for each in told)
    until(lambda: not alive(int(place.read_text())), "the end of what carries its environment")
    assert agent.stop() == 0


def test_what_a_worker_leaves_ends_with_it(agent: Agent, tmp_path: Path) -> None:
    at = tmp_path / "pid"
    sweeper = worker()
    sweeper["argv"] = ["sh", "-c", f'setsid sleep 3600 & echo $! > {at}; exec "$@"', "sh", *sweeper["argv"]]
    client = opened(agent, sweeper)
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100]])
    client.fact("chunk_done", chunk="c.1")
    pid = int(at.read_text())
    assert alive(pid)
    client.send(type="close", worker="w1")
    until(lambda: not alive(pid), "the end of what the worker has left")


def test_children_of_a_process_are_found_without_the_kernels_list(monkeypatch: pytest.MonkeyPatch) -> None:
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        assert pid in procs.children(os.getpid())
        monkeypatch.setattr(os, "listdir", lambda path, real=os.listdir: ["none"] if "task" in path else real(path))
        assert pid in procs.children(os.getpid())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
