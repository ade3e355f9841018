"""An agent makes way for one of other code; what runs, runs on."""

from __future__ import annotations

import hashlib
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.agent import compiled
from hostler.agent.build import build_zipapp

from .harness import PATIENCE_S, Agent, alive, fill, until
from .test_attempts import attempt, shell
from .test_workers import opened, worker


@pytest.fixture(scope="module")
def zipapps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The agent, and another one that does the same; compiled beside them, which saves most of each start."""
    folder = tmp_path_factory.mktemp("zipapps")
    old, new = folder / "old.pyz", folder / "new.pyz"
    build_zipapp(old)
    build_zipapp(new)
    with zipfile.ZipFile(new, "a") as archive:
        archive.writestr("later", b"it is another file")
    for each in (old, new):
        compiled.leave(str(each))
    return old, new


@pytest.fixture
def agent(tmp_path: Path, zipapps: tuple[Path, Path]) -> Iterator[Agent]:
    running = Agent(tmp_path / "agent", [sys.executable, str(zipapps[0])])
    yield running
    running.stop()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_what_runs_runs_on_under_the_new_agent(agent: Agent, zipapps: tuple[Path, Path], tmp_path: Path) -> None:
    client = agent.client()
    assert client.hello["code"] == digest(zipapps[0])
    client.launch(
        attempt("j1.1", "sh", "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; exit 7"),
        attempt("j2.1", "true", queue="cpu1"),
    )
    pid = client.fact("started", attempt="j1.1")["pid"]
    client.ended("j2.1")
    old = agent.supervisor
    client.send(type="upgrade", zipapp=str(zipapps[1]), sha256=digest(zipapps[1]))
    until(lambda: not alive(old), "the end of the old supervisor")
    until(agent._is_up, "the new agent")
    later = agent.client()
    assert later.hello["code"] == digest(zipapps[1])
    assert (later.hello["agent"], later.hello["incarnation"]) == (client.hello["agent"], 2)
    assert sorted(later.hello["attempts"]) == ["j1.1", "j2.1"]
    assert alive(pid)
    (tmp_path / "go").touch()
    assert later.ended("j1.1")["exit_code"] == 7, "the keeper is the same process, and saw how it ended"
    assert agent.process.poll() is None


def test_a_chunk_in_work_comes_back_at_its_checkpoint(agent: Agent, zipapps: tuple[Path, Path]) -> None:
    client = opened(agent, worker(params={"every": 10, "delay_s": 3600}))
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 1000]])
    client.message("progress")
    client.send(type="upgrade", zipapp=str(zipapps[1]), sha256=digest(zipapps[1]))
    until(lambda: client.receive() == {}, "the hang-up")
    until(agent._is_up, "the new agent")
    later = agent.client()
    returned = later.fact("returned", chunk="c.1")
    assert (returned["reason"], returned["position"]) == ("agent_restarted", 500)


def test_a_program_that_is_not_there_or_another_is_refused(agent: Agent, zipapps: tuple[Path, Path]) -> None:
    client = agent.client()
    client.send(type="upgrade", zipapp="/nowhere/agent.pyz", sha256=digest(zipapps[1]))
    assert "No such file" in client.message("error")["error"]
    client.send(type="upgrade", zipapp=str(zipapps[1]), sha256=digest(zipapps[0]))
    assert "not the program" in client.message("error")["error"]
    client.launch(shell("j1.1", "exit 3"))
    assert client.ended("j1.1")["exit_code"] == 3


def test_a_program_that_cannot_be_started_changes_nothing(
    agent: Agent, zipapps: tuple[Path, Path], tmp_path: Path
) -> None:
    client = agent.client()
    broken = tmp_path / "broken.pyz"
    broken.write_bytes(b"no program")
    client.send(type="upgrade", zipapp=str(broken), sha256=digest(broken))
    until(lambda: client.receive() == {}, "the hang-up")
    until(agent._is_up, "an agent")
    assert agent.process.poll() is None
    assert agent.client().hello["code"] == digest(zipapps[0])


@pytest.mark.parametrize(
    "after_s", [0.0, *(pytest.param(each, marks=pytest.mark.long) for each in (0.05, 0.2, 0.3)), 0.1]
)
def test_a_signal_in_the_midst_of_it_ends_the_agent(agent: Agent, zipapps: tuple[Path, Path], after_s: float) -> None:
    """Whoever of the two it meets: it is neither lost, nor does it kill a keeper that leaves processes behind."""
    client = agent.client()
    client.launch(attempt("j1.1", "sleep", "3600"))
    pid = client.fact("started", attempt="j1.1")["pid"]
    client.send(type="upgrade", zipapp=str(zipapps[1]), sha256=digest(zipapps[1]))
    time.sleep(after_s)
    agent.process.terminate()
    assert agent.process.wait(PATIENCE_S) >= 0
    assert not alive(pid)


def test_a_full_disk_is_waited_for(small_disk: Path, zipapps: tuple[Path, Path], tmp_path: Path) -> None:
    """What the journal does not have, the next supervisor would not know."""
    agent = Agent(small_disk / "agent", [sys.executable, str(zipapps[0])])
    try:
        client = agent.client()
        wait = f"touch {tmp_path}/ready; while ! [ -e {tmp_path}/go ]; do sleep 0.01; done; exit 5"
        fat = 'printf "\\"%020000d\\"" 0 | tr 0 1 > $HOSTLER_RESULT'
        client.launch(shell("j1.1", f"{fat}; {wait}"))
        until((tmp_path / "ready").exists, "the result")
        client.fact("started", attempt="j1.1")
        (small_disk / "agent" / "upgrade").write_bytes(b"x" * 4096)  # there is room for this file
        fill(small_disk / "ballast")
        (tmp_path / "go").touch()
        assert "No space left" in client.message("error")["error"]
        client.send(type="upgrade", zipapp=str(zipapps[1]), sha256=digest(zipapps[1]))
        client.sync()
        old = agent.supervisor
        time.sleep(1.5)
        assert alive(old)
        (small_disk / "ballast").unlink()
        until(lambda: not alive(old), "the end of the old supervisor")
        until(agent._is_up, "the new agent")
        later = agent.client()
        assert later.hello["code"] == digest(zipapps[1])
        ended = later.ended("j1.1")
        assert (ended["exit_code"], len(ended["result"])) == (5, 20_000)
    finally:
        agent.stop()
