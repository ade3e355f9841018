"""The agent, compiled, beside its zipapp: what makes an allocation's start a third as long."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hostler.agent import compiled, shared
from hostler.agent.build import build_zipapp
from hostler.agent.protocol import VERSION

from .harness import PATIENCE_S, until

TAG = str(sys.implementation.cache_tag)


@pytest.fixture
def zipapp(tmp_path: Path) -> Path:
    path = tmp_path / "code" / "agent.pyz"
    path.parent.mkdir()
    build_zipapp(path)
    return path


def beside(zipapp: Path) -> Path:
    return zipapp.with_name(f"{zipapp.name}.{TAG}")


def said(zipapp: Path, *words: str) -> str:
    command = [sys.executable, "-I", "-S", str(zipapp), *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=True, cwd="/"
    ).stdout.strip()


def test_what_was_compiled_is_what_runs(zipapp: Path) -> None:
    compiled.leave(str(zipapp))
    other = VERSION[:-1] + "x"
    with zipfile.ZipFile(beside(zipapp)) as source:
        members = {name: source.read(name) for name in source.namelist()}
    with zipfile.ZipFile(beside(zipapp), "w") as target:
        for name, data in members.items():
            if not name.endswith(".py"):  # nothing is left that could be compiled anew
                target.writestr(name, data.replace(VERSION.encode(), other.encode()))
    assert said(zipapp, "--version") == other


def test_without_it_the_zipapp_runs_by_itself(zipapp: Path) -> None:
    beside(zipapp).with_suffix(".cpython-00").write_bytes(b"another version's")
    assert said(zipapp, "--version") == VERSION


def test_it_is_made_once(zipapp: Path) -> None:
    compiled.leave(str(zipapp))
    before = beside(zipapp).stat()
    compiled.leave(str(zipapp))
    assert beside(zipapp).stat().st_ino == before.st_ino
    assert sorted(zipapp.parent.iterdir()) == [zipapp, beside(zipapp)]


def test_bytecode_cache_is_not_written_for_a_folder(tmp_path: Path) -> None:
    compiled.leave(str(tmp_path))
    assert not beside(tmp_path).exists()


def test_where_nothing_can_be_written_it_is_said_and_that_is_all(
    zipapp: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(path: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shared, "publish", full)
    compiled.leave(str(zipapp))
    assert "No space left on device; the agent is compiled at every start" in capfd.readouterr().err


def test_the_origin_of_what_was_compiled_is_the_zipapp(zipapp: Path) -> None:
    assert compiled.origin(str(beside(zipapp))) == compiled.origin(str(zipapp)) == str(zipapp)


def test_traceback_of_compiled_code_shows_its_lines(zipapp: Path) -> None:
    compiled.leave(str(zipapp))
    asked = """
import traceback
from hostler.agent import paths
try:
    paths.relative(None)
except paths.RequestError:
    traceback.print_exc()
"""
    ended = subprocess.run(
        [sys.executable, "-S", "-c", asked],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=True,
        cwd="/",
        env={"PYTHONPATH": compiled.search_path(str(zipapp))},
    )
    assert 'File "agent.pyz/hostler/agent/paths.py", line' in ended.stderr
    assert "raise RequestError(" in ended.stderr


def test_an_allocation_leaves_it_and_the_next_one_names_the_same_code(zipapp: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    codes = []
    for task in ("0", "1"):
        folder = root / "jobs" / "b1" / task
        folder.mkdir(parents=True)
        (folder / "first.in").write_text('{"type":"hello","protocol":1,"controller":"test","epoch":1,"ack":0}\n')
        said(zipapp, "berth", "--root", str(root), "--token", "b1", "--idle-s", "0", "--task", task)
        assert beside(zipapp).exists()
        hello = (folder / "0" / "streams" / "first.out").read_text().partition("\n")[0]
        codes.append(hello.partition('"code":')[2].partition(",")[0])
    assert codes[0] == codes[1] != "null"


def test_a_desk_leaves_it_before_the_first_allocation(zipapp: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(zipapp), "post", "--root", str(tmp_path / "root")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as post:
        until(beside(zipapp).exists, "the compiled agent")
        assert post.stdin is not None
        post.stdin.close()
        assert post.wait(PATIENCE_S) == 0
