"""The agent runs anywhere: Python 3.8, standard library only, one file."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import hostler.agent
from hostler.agent.build import build_zipapp
from hostler.agent.protocol import VERSION

from .harness import PATIENCE_S, Agent
from .test_attempts import attempt
from .test_berth import HELLO, launch
from .test_workers import worker

PACKAGE = Path(hostler.agent.__file__).parent


def test_python_3_8_is_enough() -> None:
    vermin = shutil.which("vermin", path=sysconfig.get_path("scripts"))
    if vermin is None:
        pytest.skip("vermin is not installed in this environment")
    # pidfd_open is asked for with hasattr before it is used.
    command = [vermin, "--target=3.8-", "--no-tips", "--violations", "--exclude", "os.pidfd_open", str(PACKAGE)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE_S)
    assert checked.returncode == 0, checked.stdout


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(str(node.module))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 1, f"{path.name} imports from outside the agent"
    return names


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_only_the_standard_library_is_imported(path: Path) -> None:
    strangers = {name for name in imported(path) if name.split(".")[0] not in sys.stdlib_module_names}
    assert strangers <= ({"hostler.agent.__main__"} if path.name == "build.py" else set())


def test_zipapp_is_reproducible_and_runs_without_anything_else(tmp_path: Path) -> None:
    first, second = tmp_path / "a.pyz", tmp_path / "b.pyz"
    assert build_zipapp(first) == build_zipapp(second)
    assert first.read_bytes() == second.read_bytes()
    command = [sys.executable, "-I", "-S", str(first), "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, cwd="/")
    assert answer.stdout.strip() == VERSION
    assert sorted(tmp_path.iterdir()) == [first, second]


def test_older_pythons_run_the_zipapp(tmp_path: Path) -> None:
    found = [name for name in ("python3.8", "python3.9", "python3.10") if runs(name)]
    if not found:
        pytest.skip("no Python 3.8, 3.9 or 3.10 is installed here")
    build_zipapp(tmp_path / "agent.pyz")
    for name in found:
        agent = Agent(tmp_path / name, [name, str(tmp_path / "agent.pyz")])
        try:
            serve(agent)
        finally:
            assert agent.stop() == 0
        in_allocation([name, str(tmp_path / "agent.pyz")], tmp_path / f"{name}.root")


def serve(agent: Agent) -> None:
    client = agent.client()
    client.launch(attempt("j1.1", "true"), attempt("j2.1", "true", memory_bytes=1 << 30))
    client.launch(attempt("j3.1", "sleep", "3600", queue="cpu1"))
    assert client.ended("j1.1")["exit_code"] == client.ended("j2.1")["exit_code"] == 0
    client.fact("started", attempt="j3.1")
    client.send(type="open", worker=worker())
    client.send(type="chunks", worker="w1", chunks=[["c.1", 0, 100]])
    client.fact("chunk_done", chunk="c.1")
    agent.kill_supervisor()
    client = agent.client()
    client.send(type="stop", attempts=["j3.1"], reason="cancelled")
    assert client.ended("j3.1")["reason"] == "stopped"


def in_allocation(program: list[str], root: Path) -> None:
    """A batch that is prepared, run and listened to, by the two programs that a cluster sees."""
    with subprocess.Popen(
        [*program, "post", "--root", str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as post:
        assert post.stdin is not None
        assert post.stdout is not None
        assert json.loads(post.stdout.readline())["type"] == "hello"
        first = "".join(json.dumps(each) + "\n" for each in (HELLO, launch(attempt("j1.1", "true"))))
        asked = {"id": 1, "op": "prepare", "token": "b1", "files": {"0/first.in": first}}
        ran = {"id": 2, "op": "run", "argv": [*program, "berth", "--root", str(root), "--token", "b1", "--idle-s", "0"]}
        for request in (asked, {**ran, "timeout_s": PATIENCE_S}):
            print(json.dumps(request), file=post.stdin, flush=True)
            answer = json.loads(post.stdout.readline())
            assert "error" not in answer
        assert answer["status"] == 0, answer["err"]
        print('{"id": 3, "op": "facts", "token": "b1", "task": 0, "run": 0}', file=post.stdin, flush=True)
        assert [fact["fact"] for fact in json.loads(post.stdout.readline())["facts"]] == ["started", "ended"]
        post.stdin.close()


def runs(name: str) -> bool:
    try:
        return subprocess.run([name, "--version"], capture_output=True, timeout=PATIENCE_S).returncode == 0
    except OSError:
        return False
