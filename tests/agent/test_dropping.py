"""Jobs of an agent that runs as root, as a user of their own."""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.agent import dropping
from hostler.agent.procs import SpawnError

from .harness import Agent, Client, alive
from .test_attempts import attempt, shell
from .test_workers import opened, worker

UID = "45678"
PYTHON = "/usr/bin/python3"
"""One that everybody may run: that of the tests may lie in a folder of root's."""

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run jobs as another user"),
    pytest.mark.skipif(not os.path.exists(PYTHON), reason=f"there is no {PYTHON}"),
]


def said(client: Client, name: str, stream: str = "out") -> str:
    return base64.b64decode(client.read(name, stream).get("data", "")).decode()


@pytest.fixture
def rooted() -> Iterator[Agent]:
    """An agent in a folder that others can come to."""
    with tempfile.TemporaryDirectory(prefix="hostler-drop-", dir="/tmp") as name:
        os.chmod(name, 0o711)
        agent = Agent(Path(name) / "agent")
        yield agent
        assert agent.stop() == 0


def test_job_runs_as_its_user_and_leaves_its_result(rooted: Agent) -> None:
    client = rooted.client()
    script = "id -u; id -G; echo $USER $HOME; pwd; echo '{\"a\": 1}' > $HOSTLER_RESULT; echo hello > left"
    client.launch(shell("j1.1", script, user=UID, memory_bytes=1 << 30))
    ended = client.ended("j1.1")
    assert (ended["exit_code"], ended["reason"], ended["result"]) == (0, None, {"a": 1}), said(client, "j1.1", "err")
    folder = rooted.directory / "attempts" / "j1.1"
    assert said(client, "j1.1").splitlines() == [UID, UID, f"{UID} {folder}", str(folder)]
    assert (folder / "left").stat().st_uid == int(UID)


def test_job_can_read_neither_token_nor_socket_nor_journal_nor_folders_of_others(rooted: Agent) -> None:
    (rooted.directory / "token").write_text("secret")
    (rooted.directory / "token").chmod(0o600)
    client = rooted.client()
    client.launch(shell("j1.1", "echo theirs > file", user="45679"))
    client.ended("j1.1")
    agent = rooted.directory
    tries = [f"cat {agent}/token", f"cat {agent}/journal.jsonl", f"ls {agent}", f"cat {agent}/attempts/j1.1/file"]
    connect = f"{PYTHON} -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"{agent}/agent.sock\")'"
    for at, command in enumerate([*tries, connect, f"ls {agent}/attempts", f"kill {rooted.supervisor}"]):
        client.launch(shell(f"j{at + 2}.1", command, user=UID))
        ended = client.ended(f"j{at + 2}.1")
        assert ended["exit_code"] not in (0, None, dropping.FAILED), command
        assert "ermitted" in ended["evidence"] or "denied" in ended["evidence"], ended
    with socket.socket(socket.AF_UNIX) as own:
        own.connect(f"/proc/self/fd/{os.open(agent, os.O_RDONLY)}/agent.sock")


def test_result_and_output_that_are_links_show_nothing_of_root(rooted: Agent) -> None:
    (rooted.directory / "secret").write_text('{"secret": 1}')
    (rooted.directory / "secret").chmod(0o600)
    client = rooted.client()
    links = f"ln -s {rooted.directory}/secret $HOSTLER_RESULT; rm out; ln -s {rooted.directory}/secret out"
    client.launch(shell("j1.1", links, user=UID))
    ended = client.ended("j1.1")
    assert ended["result"] is None
    assert "symbolic link" in ended["result_error"]
    assert "secret" not in said(client, "j1.1")


def test_what_a_job_of_another_user_leaves_ends_with_it(rooted: Agent, tmp_path: Path) -> None:
    client = rooted.client()
    client.launch(shell("j1.1", "setsid sleep 3600 & echo $! > pid", user=UID))
    client.ended("j1.1")
    assert not alive(int((rooted.directory / "attempts" / "j1.1" / "pid").read_text()))


def test_job_starts_in_a_folder_of_files_that_becomes_its_users(rooted: Agent) -> None:
    tree = rooted.directory / "trees" / "t1"
    (tree / "below").mkdir(parents=True)
    (tree / "below" / "file").write_text("x")
    client = rooted.client()
    client.launch(shell("j1.1", "cat below/file && echo y > below/file", user=UID, cwd=str(tree)))
    assert client.ended("j1.1")["exit_code"] == 0
    assert (tree / "below" / "file").read_text() == "y\n"


def test_worker_runs_as_its_user(rooted: Agent) -> None:
    sweeper = worker()
    sweeper["argv"] = ["sh", "-c", 'id -u >&2; exec "$@"', "sh", PYTHON, *sweeper["argv"][1:]]
    client = opened(rooted, {**sweeper, "user": UID})
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100]])
    assert client.fact("chunk_done", chunk="c.1")
    assert (rooted.directory / "workers" / "w1" / "err").read_text().split()[0] == UID


@pytest.mark.parametrize(
    ("user", "says"), [("nobody-of-that-name", "there is no user"), ("root", "is root"), ("0", "is root")]
)
def test_user_that_cannot_be_is_told(rooted: Agent, user: str, says: str) -> None:
    client = rooted.client()
    client.launch(attempt("j1.1", "true", user=user))
    ended = client.ended("j1.1")
    assert ended["exit_code"] is None
    assert says in ended["error"]


def test_folder_that_the_user_cannot_enter_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    (closed / "agent" / "attempts").mkdir(parents=True)
    closed.chmod(0o700)
    with pytest.raises(SpawnError, match=r"cannot enter .*; `chmod o\+x` it, or set `dir` of the node"):
        dropping.command("code", UID, str(closed / "agent"), str(closed / "agent" / "attempts" / "j1.1"), None)


def test_agent_that_is_not_root_refuses_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SpawnError, match="the agent runs as user 1000 and not as root"):
        dropping.command("code", UID, "/d", "/d/attempts/j1.1", None)


def test_numbers_without_a_name_are_users() -> None:
    assert dropping.user_of(UID) == (int(UID), int(UID), None, None)
    assert subprocess.run(["id", "-u", "nobody"], capture_output=True, check=True).stdout
    assert dropping.user_of("nobody").name == "nobody"
