"""Memory limits in cgroups: the rules on a tree of plain files, the rest on real cgroups where there are any."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hostler.agent import cgroups
from hostler.agent.cgroups import CGROUP, WATCHED, Cgroups

from .harness import Agent, alive, patched, until
from .test_attempts import TAKE, attempt, shell, text

FILES = ("cgroup.procs", "cgroup.subtree_control", "memory.max", "memory.swap.max", "memory.oom.group", "memory.events")


class Tree:
    """A cgroup file system of plain files: folders get their files when they are made."""

    def __init__(self, mount: Path) -> None:
        self.mount = mount
        self.path = "/"
        self.busy: set[Path] = set()
        self.make(str(mount))

    def make(self, folder: str) -> None:
        if folder != str(self.mount):
            os.mkdir(folder)
        else:
            self.mount.mkdir()
        for name in FILES:
            (Path(folder) / name).write_text("")
        (Path(folder) / "cgroup.controllers").write_text("cpu memory pids\n")
        (Path(folder) / "memory.max").write_text("max\n")

    def remove(self, folder: str) -> None:
        if Path(folder) in self.busy:
            raise OSError(16, "Device or resource busy", folder)
        shutil.rmtree(folder)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """Delegated to the agent as systemd does it, by a mark on the top."""
    made = Tree(tmp_path / "cgroup")
    monkeypatch.setattr(cgroups, "_mount_point", lambda: str(made.mount))
    monkeypatch.setattr(cgroups, "_path_of", lambda pid: made.path)
    monkeypatch.setattr(cgroups, "_mkdir", made.make)
    monkeypatch.setattr(cgroups, "_rmdir", made.remove)
    monkeypatch.setattr(cgroups, "_is_in_namespace", lambda: False)
    marked = {str(made.mount / "unit")}
    monkeypatch.setattr(os, "getxattr", lambda path, name: _mark(str(path) in marked))
    return made


def _mark(marked: bool) -> bytes:
    if not marked:
        raise OSError(61, "No data available")
    return b"1"


def test_own_cgroup_is_divided_where_it_is_delegated(tree: Tree) -> None:
    tree.make(str(tree.mount / "unit"))
    tree.path = "/unit"
    (tree.mount / "unit/cgroup.procs").write_text(f"{os.getppid()}\n{os.getpid()}\n")
    assert cgroups.delegated("a1") == str(tree.mount / "unit")
    assert (tree.mount / "unit/hostler-agent-a1/cgroup.procs").read_text() in map(str, (os.getpid(), os.getppid()))
    assert (tree.mount / "unit/cgroup.subtree_control").read_text() == "+memory"


def test_cgroup_above_is_used_by_an_agent_in_a_part_of_a_delegated_one(tree: Tree) -> None:
    tree.make(str(tree.mount / "unit"))
    tree.make(str(tree.mount / "unit/main"))
    tree.path = "/unit/main"
    (tree.mount / "unit/cgroup.subtree_control").write_text("memory pids\n")
    assert cgroups.delegated("a1") == str(tree.mount / "unit")
    assert not (tree.mount / "unit/main/hostler-agent-a1").exists()


def test_cgroup_with_the_processes_of_others_is_left_as_it_is(tree: Tree) -> None:
    tree.make(str(tree.mount / "unit"))
    tree.path = "/unit"
    (tree.mount / "unit/cgroup.procs").write_text(f"{os.getpid()}\n1\n")
    assert cgroups.delegated("a1") is None
    assert not (tree.mount / "unit/hostler-agent-a1").exists()


def test_cgroup_without_the_memory_controller_is_not_used(tree: Tree) -> None:
    tree.make(str(tree.mount / "unit"))
    tree.path = "/unit"
    (tree.mount / "unit/cgroup.controllers").write_text("cpu hugetlb\n")
    assert cgroups.delegated("a1") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="root may write to every cgroup")
def test_cgroup_that_root_may_merely_write_to_is_not_used(tree: Tree) -> None:
    tree.make(str(tree.mount / "session"))
    tree.path = "/session"
    (tree.mount / "session/cgroup.procs").write_text(f"{os.getpid()}\n")
    assert cgroups.delegated("a1") is None


def test_top_of_a_namespace_is_divided(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_is_in_namespace", lambda: True)
    assert cgroups.delegated("a1") == str(tree.mount)


def test_cgroups_of_an_earlier_agent_are_removed_but_for_the_attempts_that_run(tree: Tree) -> None:
    base = str(tree.mount)
    earlier = Cgroups("a1", base)
    for name in ("j1.1", "j2.1"):
        earlier.make(name)
    Cgroups("a2", base).make("j1.1")
    Cgroups("a1", base).tidy({"j1.1"})
    assert sorted(each.name for each in tree.mount.glob("hostler-*")) == ["hostler-a1-j1.1", "hostler-a2-j1.1"]


def test_cgroup_of_a_process_that_outlives_its_attempt_is_removed_later(tree: Tree) -> None:
    made = Cgroups("a1", str(tree.mount))
    folder = Path(made.make("j1.1"))
    tree.busy = {folder}
    made.remove(str(folder))
    assert folder.exists()
    tree.busy = set()
    made.make("j2.1")
    assert not folder.exists()


def test_cgroup_of_an_attempt_has_no_swap_and_ends_as_one(tree: Tree) -> None:
    folder = Path(Cgroups("a1", str(tree.mount)).make("j1.1"))
    cgroups.limit(str(folder), 1 << 30)
    told = [(folder / name).read_text() for name in ("memory.swap.max", "memory.oom.group")]
    assert (told, cgroups.is_limited(str(folder))) == (["0", "1"], True)


@pytest.mark.parametrize(
    ("events", "killed"),
    [
        ("low 0\nhigh 0\nmax 91\noom 1\noom_kill 0\noom_group_kill 0\n", False),
        ("low 0\nhigh 0\nmax 91\noom 1\noom_kill 3\n", True),
        ("", False),
    ],
)
def test_kill_for_want_of_memory_is_read_from_the_events(tree: Tree, events: str, killed: bool) -> None:
    (tree.mount / "memory.events").write_text(events)
    assert cgroups.has_killed(str(tree.mount)) is killed


# --- on real cgroups ------------------------------------------------------------------------------------------------

PATCH = """
from hostler.agent import cgroups
cgroups.CONTROLLER, cgroups.LIMIT = {controller!r}, {limit!r}
cgroups._MARKS = ("trusted.hostler",)
if cgroups._path_of("self") == {outside!r}:
    cgroups.enter({top!r})
"""
LIMITS = {"memory": "memory.max", "hugetlb": "hugetlb.2MB.max"}
"""What a limit is written to. Where memory is counted by cgroups of version 1, another controller stands in for it."""


class Delegated:
    """A real cgroup that is delegated to the agents of a test."""

    def __init__(self, top: Path, controller: str, outside: str) -> None:
        self.top, self.controller, self.outside = top, controller, outside
        self.agents: list[Agent] = []

    def agent(self, folder: Path) -> Agent:
        limit = LIMITS[self.controller]
        patch = PATCH.format(controller=self.controller, limit=limit, outside=self.outside, top=str(self.top))
        self.agents.append(Agent(folder, patched(patch)))
        return self.agents[-1]

    def attempts(self) -> list[Path]:
        return [each for each in self.top.glob("hostler-*") if not each.name.startswith("hostler-agent-")]


def _real(controllers: tuple[str, ...]) -> Iterator[Delegated]:
    mount, path = cgroups._mount_point(), cgroups._path_of("self")
    if mount is None or path is None or os.geteuid() != 0:
        pytest.skip("no cgroups of version 2 are mounted here, or they are not writable: not root")
    outer = Path(mount + path)
    known = (outer / "cgroup.controllers").read_text().split()
    controller = next((each for each in controllers if each in known), None)
    if controller is None:
        pytest.skip(f"the cgroup of this process has no controller {' or '.join(controllers)}, only {known}")
    lock = os.open(outer, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)  # other processes of the tests share what is enabled
    enabled = controller in (outer / "cgroup.subtree_control").read_text().split()
    top = outer / f"hostler-test-{os.getpid()}"
    try:
        if not enabled:
            (outer / "cgroup.subtree_control").write_text("+" + controller)
        top.mkdir()
        os.setxattr(top, "trusted.hostler", b"1")
    except OSError as error:
        pytest.skip(f"no cgroup can be made below {outer}: {error}")
    made = Delegated(top, controller, path)
    yield made
    for agent in made.agents:
        agent.stop()
    for each in sorted(top.glob("*/"), reverse=True):
        until(lambda each=each: not (each / "cgroup.procs").read_text(), "the end of what is in the cgroup")
        each.rmdir()
    top.rmdir()
    if not enabled:
        (outer / "cgroup.subtree_control").write_text("-" + controller)
    os.close(lock)


@pytest.fixture
def delegated() -> Iterator[Delegated]:
    yield from _real(("memory", "hugetlb"))


@pytest.fixture
def delegated_memory() -> Iterator[Delegated]:
    yield from _real(("memory",))


def test_attempt_with_a_limit_runs_in_a_cgroup_until_its_end(delegated: Delegated, tmp_path: Path) -> None:
    agent = delegated.agent(tmp_path / "agent")
    client = agent.client()
    assert client.hello["memory_limits"] == CGROUP
    client.launch(
        attempt("j1.1", "sleep", "3600", memory_bytes=400 << 20), shell("j2.1", "cat /proc/self/cgroup", queue="cpu1")
    )
    pid = client.fact("started", attempt="j1.1")["pid"]
    (folder,) = delegated.attempts()
    assert (folder / LIMITS[delegated.controller]).read_text() == f"{400 << 20}\n"
    assert (folder / "cgroup.procs").read_text() == f"{pid}\n"
    client.ended("j2.1")
    assert "/hostler-agent-" in text(client, "j2.1")
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")
    assert client.ended("j1.1")["reason"] == "stopped"
    assert delegated.attempts() == []


def test_attempt_in_a_cgroup_is_adopted_and_ended_with_all_its_processes(delegated: Delegated, tmp_path: Path) -> None:
    agent = delegated.agent(tmp_path / "agent")
    client = agent.client()
    # One that has left its session, and has a clean environment: no mark of the attempt.
    script = "env -i setsid sleep 3600 & echo $!; wait"
    client.launch(shell("j1.1", script, memory_bytes=400 << 20, grace_s=0.1))
    started = client.fact("started", attempt="j1.1")["pid"]
    stray = int(until(lambda: text(client, "j1.1").strip(), "the pid of the stray"))
    agent.kill_supervisor()
    client = agent.client(epoch=2)
    (folder,) = delegated.attempts()
    assert {started, stray} <= set(map(int, (folder / "cgroup.procs").read_text().split()))
    client.send(type="stop", attempts=["j1.1"], reason="cancelled")
    assert client.ended("j1.1")["reason"] == "stopped"
    until(lambda: not alive(stray), "the end of the stray")


def test_attempt_that_wants_more_than_its_cgroup_has_ends_as_one_that_is_measured(
    delegated_memory: Delegated, tmp_path: Path
) -> None:
    agent = delegated_memory.agent(tmp_path / "agent")
    client = agent.client()
    argv = (sys.executable, "-c", TAKE, "700", "children", str(tmp_path / "never"))
    client.launch(attempt("j1.1", *argv, memory_bytes=400 << 20))
    ended = client.ended("j1.1")
    assert (ended["reason"], ended["signal"]) == ("memory", signal.SIGKILL)
    assert ended["error"].startswith("its processes took ")
    assert "more than its 0.39 GiB" in ended["error"]


def test_agent_without_a_delegated_cgroup_measures(agent: Agent) -> None:
    if cgroups.delegated("none") is not None:
        pytest.skip("this process has a delegated cgroup")
    assert agent.client().hello["memory_limits"] == WATCHED
