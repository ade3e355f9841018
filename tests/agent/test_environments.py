"""Python environments that an agent builds: once for each key, whoever waits, stops or dies; and their removal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostler.agent import environment_files, environments, procs
from tests.agent.harness import Agent, Client, Json, alive, fresh_name, until
from tests.integration.test_python_environments import wheel

SHOWS = "import os, sys; print(sys.prefix == os.environ['VIRTUAL_ENV'], os.environ['PATH'].split(':')[0])"


def project(folder: Path) -> Path:
    """A project with a requirements file; it is another one in each folder."""
    (folder / "project").mkdir()
    text = f"--no-index\n--find-links {wheel(folder / 'wheels')}\ntinymodel\n"
    (folder / "project" / "requirements.txt").write_text(text)
    return folder / "project"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project of the test's own."""
    return project(tmp_path)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose environment the first test builds, for all others."""
    return project(tmp_path_factory.mktemp("ready"))


@pytest.fixture
def client(shared_agent: Agent) -> Iterator[Client]:
    made = shared_agent.client(ack=0)
    yield made
    made.close()


def attempt(name: str, folder: Path, *argv: str, **more: Any) -> Json:
    setup = {"python": sys.executable, "file": "requirements.txt", "checked_as": None, **more.pop("setup", {})}
    words = argv or ("python", "-c", SHOWS)
    return {"id": name, "queue": name, "argv": list(words), "cwd": str(folder), "setup": setup, **more}


def text(client: Client, name: str, stream: str = "out") -> str:
    return b64decode(client.read(name, stream)["data"]).decode()


def built(client: Client, name: str) -> bool:
    return "building the Python environment" in text(client, name, "setup")


def test_attempts_at_once_build_once_and_later_ones_never(client: Client, ready: Path) -> None:
    names = [fresh_name() for _ in range(3)]
    client.launch(*(attempt(name, ready) for name in names))
    assert [client.ended(name)["exit_code"] for name in names] == [0, 0, 0]
    assert sorted(built(client, name) for name in names) == [False, False, True]
    later = fresh_name()
    client.launch(attempt(later, ready))
    assert client.ended(later)["exit_code"] == 0
    assert not built(client, later)


def test_command_runs_in_the_environment_and_its_own_streams(client: Client, ready: Path, shared_agent: Agent) -> None:
    name = fresh_name()
    client.launch(attempt(name, ready))
    end = client.ended(name)
    assert (end["exit_code"], end["reason"]) == (0, None)
    answer, first = text(client, name).split()
    assert answer == "True"
    assert Path(first).is_relative_to(shared_agent.directory / "environments")
    assert text(client, name, "err") == ""


@pytest.mark.services
def test_failed_build_tells_why(client: Client, folder: Path) -> None:
    first = fresh_name()
    (folder / "requirements.txt").write_text(
        f"--no-index\n--find-links {folder.parent}/wheels\nno-such-thing-{first}\n"
    )
    client.launch(attempt(first, folder))
    end = client.ended(first)
    assert end["reason"] == "environment"
    assert f"no-such-thing-{first}" in end["error"]
    assert len(end["error"].splitlines()) <= 21
    assert text(client, first) == ""


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("environment.yml", "micromamba, mamba, conda"),
        ("uv.lock", "needs the program uv"),
        ("gone.txt", "cannot be read"),
    ],
)
def test_program_or_file_that_is_missing_is_named(client: Client, folder: Path, file: str, reason: str) -> None:
    if file != "gone.txt":
        (folder / file).write_text("x: y\n")
    name = fresh_name()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    client.launch(attempt(name, folder, setup={"file": file}, env=env))
    end = client.ended(name)
    assert (end["reason"], reason in end["error"]) == ("environment", True), end


def test_interpreter_that_is_missing_is_named(client: Client, folder: Path) -> None:
    name = fresh_name()
    client.launch(attempt(name, folder, setup={"python": "no-such-python"}))
    end = client.ended(name)
    assert (end["reason"], "no-such-python" in end["error"]) == ("environment", True)


def gated(folder: Path) -> tuple[Path, Json]:
    """Python waits at a gate that the test opens; returns the gate, and variables with which a build waits there."""
    gate = folder.parent / "gate"
    (folder.parent / "hook").mkdir()
    hook = f"import os, time\nopen({str(folder.parent / 'began')!r}, 'a').close()\nend = time.monotonic() + 900\n"
    hook += f"while not os.path.exists({str(gate)!r}) and time.monotonic() < end: time.sleep(0.02)\n"
    (folder.parent / "hook" / "sitecustomize.py").write_text(hook)
    return gate, {"PYTHONPATH": str(folder.parent / "hook")}


def test_build_goes_on_when_the_agent_is_killed(agent: Agent, folder: Path) -> None:
    client = agent.client()
    (gate, env), name = gated(folder), fresh_name()
    client.launch(attempt(name, folder, env=env, walltime_s=0.1))
    until((folder.parent / "began").exists, "the build's begin")
    agent.kill_supervisor()
    again = agent.client(epoch=2)
    gate.touch()
    end = again.ended(name)
    assert end["exit_code"] == 0 or end["reason"] == "walltime", end
    assert built(again, name)


@pytest.mark.long
def test_stopped_build_ends_and_the_next_attempt_builds(agent: Agent, folder: Path) -> None:
    client = agent.client()
    (gate, env), first, second = gated(folder), fresh_name(), fresh_name()
    client.launch(attempt(first, folder, env=env), attempt(second, folder))
    until((folder.parent / "began").exists, "the build's begin")
    client.send(type="stop", attempts=[first], reason="test")
    assert client.ended(first)["reason"] == "stopped"
    assert client.ended(second)["exit_code"] == 0
    gate.touch()


def test_command_that_is_missing_is_named_as_without_a_build(client: Client, ready: Path) -> None:
    name = fresh_name()
    client.launch(attempt(name, ready, "no-such-program"))
    end = client.ended(name)
    assert (end["reason"], "no-such-program" in end["error"]) == ("command", True)


def test_memory_limit_holds_for_the_command_and_not_for_the_build(client: Client, ready: Path) -> None:
    takes, reserves = fresh_name(), fresh_name()
    code = "import time; held = b'x' * (700 << 20); time.sleep(3600)"
    client.launch(attempt(takes, ready, "python", "-c", code, memory_bytes=400 << 20))
    assert client.ended(takes)["reason"] == "memory"
    code = "import mmap; held = mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | 0x4000); print('reserved')"
    client.launch(attempt(reserves, ready, "python", "-c", code, memory_bytes=400 << 20))
    assert client.ended(reserves)["exit_code"] == 0
    assert text(client, reserves) == "reserved\n"


def test_signals_that_python_ignores_are_not_ignored_by_the_command(client: Client, ready: Path) -> None:
    name = fresh_name()
    client.launch(attempt(name, ready, "sh", "-c", "grep SigIgn /proc/self/status; ls /proc/self/fd"))
    client.ended(name)
    ignored, *descriptors = text(client, name).split()[1:]
    assert int(ignored, 16) & (1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)) == 0
    assert set(descriptors) <= {"0", "1", "2", "3"}, "3 is that of the ready that ls reads"


@pytest.mark.parametrize(
    ("script", "lacks"),
    [
        (
            "import no_such_a, json, os.path\nfrom no_such_b.c import d\nfrom . import e\nimport helper",
            "no_such_a, no_such_b",
        ),
        ("try:\n    import no_such_a\nexcept ImportError:\n    pass\ndef f():\n    import no_such_b\n", None),
        ("import helper, package, space.inner\n", None),
        ("import sys\nsys.path.insert(0, 'src')\nimport lib_of_project.part, module_of_project\n", None),
    ],
)
def test_imports_of_a_script_are_checked(client: Client, folder: Path, script: str, lacks: str | None) -> None:
    (folder / "helper.py").write_text("")
    (folder / "package").mkdir()
    (folder / "package" / "__init__.py").write_text("")
    (folder / "space").mkdir()
    (folder / "space" / "inner.py").write_text("")
    (folder / "src" / "lib_of_project").mkdir(parents=True)
    (folder / "src" / "lib_of_project" / "part.py").write_text("")
    (folder / "src" / "module_of_project.py").write_text("")
    (folder / "train.py").write_text(script.replace("from . import e\n", ""))
    for words in (["train.py"], ["-u", "-W", "ignore", "train.py", "--lr", "1"], ["-m", "train"]):
        name = fresh_name()
        client.launch(attempt(name, folder, sys.executable, *words, setup={"file": None}))
        end = client.ended(name)
        if lacks is None:
            assert (end["exit_code"], end["reason"]) == (0, None), end
        else:
            version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
            assert (end["reason"], end["error"]) == ("imports", f"{version} lacks {lacks}")


def test_script_that_cannot_be_read_fails_by_itself(client: Client, folder: Path) -> None:
    (folder / "train.py").write_text("import no_such_a\nthis is no python\n")
    name = fresh_name()
    client.launch(attempt(name, folder, sys.executable, "train.py", setup={"file": None}))
    end = client.ended(name)
    assert (end["exit_code"], end["reason"], "SyntaxError" in end["evidence"]) == (1, None, True)


def test_script_that_was_checked_once_is_not_checked_again(client: Client, folder: Path) -> None:
    (folder / "train.py").write_text("import json\n")
    first, second, other = fresh_name(), fresh_name(), fresh_name()
    setup = {"file": None, "checked_as": "s" * 64}
    command = (sys.executable, "train.py")
    client.launch(attempt(first, folder, *command, setup=setup))
    client.ended(first)
    (folder / "train.py").write_text("import no_such_module\n")
    client.launch(attempt(second, folder, *command, setup=setup))
    assert (client.ended(second)["exit_code"], client.ended(second)["reason"]) == (1, None), "by its own traceback"
    client.launch(attempt(other, folder, *command, setup={**setup, "checked_as": "t" * 64}))
    assert client.ended(other)["reason"] == "imports"


@pytest.mark.parametrize(
    "setup",
    [
        {"file": "../requirements.txt"},
        {"file": "/etc/requirements.txt"},
        {"file": ""},
        {"file": 1},
        {"python": None},
        {"checked_as": "x" * 300},
        {"more": 1},
    ],
)
def test_setup_that_cannot_be_understood_is_refused(client: Client, folder: Path, setup: Json) -> None:
    name = fresh_name()
    client.launch(attempt(name, folder, setup=setup))
    end = client.ended(name)
    assert (end["reason"], "setup" in end["error"]) == ("refused", True)


def test_job_cannot_have_itself_judged_by_what_it_writes(client: Client, folder: Path) -> None:
    """What it says of its setup counts only with the exit status of the step, and in its bounds."""
    for written in ("[]", '{"reason": "lost", "error": "x"}', '{"reason": "environment"}', "x" * 100_000):
        (folder / "train.py").write_text(
            "import os, sys\nwith open(os.environ['HOSTLER_ATTEMPT_DIR'] + '/setup.json', 'w') as target:\n"
            f"    target.write({written!r})\nsys.exit(125)"
        )
        name = fresh_name()
        client.launch(attempt(name, folder, sys.executable, "train.py", setup={"file": None}))
        end = client.ended(name)
        assert (end["exit_code"], end["reason"]) == (125, None), written


def test_unused_environments_are_removed_and_used_ones_stay(tmp_path: Path) -> None:
    root = tmp_path / "environments"
    long_ago = time.time() - environments.UNUSED_S - 60
    for name, at in (("old", long_ago), ("used", time.time()), ("running", long_ago)):
        (root / name / "env").mkdir(parents=True)
        (root / name / "complete").touch()
        os.utime(root / name / "complete", (at, at))
    (root / "half").mkdir()
    os.utime(root / "half", (long_ago, long_ago))
    assert environments.clean(str(root), ["running"]) == ["half", "old"]
    assert sorted(os.listdir(root)) == ["running", "used"]
    assert environments.clean(str(tmp_path / "nowhere"), []) == []


def made(root: Path, key: str, unused_s: float, size: int = 0) -> Path:
    (root / key / "env").mkdir(parents=True)
    (root / key / "env" / "module").write_bytes(b"x" * size)
    (root / key / "complete").touch()
    at = time.time() - unused_s
    os.utime(root / key / "complete", (at, at))
    return root / key


def room(folder: Path, wanted: int) -> list[str]:
    root, attempts = str(folder / "environments"), str(folder / "attempts")
    return [key for key, _ in environments.make_room(root, attempts, wanted, 3600.0)]


def test_room_is_made_by_what_was_unused_for_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "environments"
    for key, unused_s in (("new", 60.0), ("older", 9000.0), ("oldest", 90_000.0), ("old", 5000.0)):
        made(root, key, unused_s)
    gone = {"oldest": 100, "older": 200, "old": 400}
    monkeypatch.setattr(
        environments, "_free_bytes", lambda _: sum(size for key, size in gone.items() if not (root / key).exists())
    )
    assert room(tmp_path, 0) == []
    assert room(tmp_path, 150) == ["oldest", "older"]
    assert room(tmp_path, 10_000) == ["old"]
    assert os.listdir(root) == ["new"]
    assert room(tmp_path / "nowhere", 1) == []


def test_room_is_not_made_by_environments_that_attempts_or_processes_use(tmp_path: Path) -> None:
    root = tmp_path / "environments"
    for key in ("attempt", "process", "building", "unused"):
        made(root, key, 90_000.0)
    (tmp_path / "attempts" / "j1.1").mkdir(parents=True)
    (tmp_path / "attempts" / "j1.1" / "setup.json").write_text('{"ready_at": 1.0, "key": "attempt"}')
    env = {**os.environ, "VIRTUAL_ENV": str(root / "process" / "env")}
    with (
        subprocess.Popen(["sleep", "3600"], env=env) as running,
        environments._locked(str(root), "building"),
    ):
        until(lambda: procs.variable_of(running.pid, "VIRTUAL_ENV") == env["VIRTUAL_ENV"], "the process")
        assert room(tmp_path, 1 << 60) == ["unused"]
        running.kill()


def test_build_that_takes_too_long_is_ended_with_all_its_processes(agent: Agent, folder: Path) -> None:
    client, name = agent.client(), fresh_name()
    slow = folder.parent / "bin" / "uv"
    slow.parent.mkdir()
    slow.write_text(f"#!/bin/sh\nsetsid sleep 3600 & echo $! > {folder.parent}/pid\nsleep 3600\n")
    slow.chmod(0o755)
    env = {"PATH": f"{slow.parent}:{os.environ['PATH']}"}
    client.launch(attempt(name, folder, env=env, build_s=2.0))
    end = client.ended(name)
    assert (end["exit_code"], end["reason"]) == (125, "environment")
    first = end["error"].splitlines()[0]
    assert first.startswith("the build of requirements.txt took longer than 2 s and was ended while uv ran. Raise ")
    assert "limits.environment_build_s" in first
    pid = int((folder.parent / "pid").read_text())
    until(lambda: not alive(pid), "the end of what the build has started")


def test_agent_removes_unused_environments_when_a_controller_comes(agent: Agent) -> None:
    folder = agent.directory / "environments" / "old"
    folder.mkdir(parents=True)
    os.utime(folder, (1.0, 1.0))
    client = agent.client()
    until(lambda: not folder.exists(), "the removal of what is unused")
    assert folder.parent.exists()
    client.close()


@pytest.mark.long
def test_environment_whose_interpreter_is_gone_is_built_again(tmp_path: Path, folder: Path) -> None:
    root, env = str(tmp_path / "environments"), dict(os.environ)
    made = environments.ready(root, str(folder), "requirements.txt", sys.executable, env)
    os.unlink(f"{made.path}/bin/python")
    assert environments.ready(root, str(folder), "requirements.txt", sys.executable, env) == made
    assert os.access(f"{made.path}/bin/python", os.X_OK)


def test_environment_that_is_locked_is_not_removed(tmp_path: Path) -> None:
    root = tmp_path / "environments"
    (root / "key").mkdir(parents=True)
    os.utime(root / "key", (1.0, 1.0))
    with environments._locked(str(root), "key"):
        assert environments.clean(str(root), []) == []
    assert environments.clean(str(root), []) == ["key"]


def test_key_depends_on_names_contents_and_interpreter(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("-r more.txt\n--constraint=pins.txt\nnumpy\n")
    (tmp_path / "more.txt").write_text("scipy\n-r requirements.txt\n")
    (tmp_path / "pins.txt").write_text("numpy==1\n")
    files = environment_files.contents(str(tmp_path), "./requirements.txt")
    assert set(files) == {"requirements.txt", "more.txt", "pins.txt"}
    keys = {
        environment_files.key_of(files, "3.11"),
        environment_files.key_of(files, "3.12"),
        environment_files.key_of({**files, "more.txt": b""}, "3.11"),
        environment_files.key_of({"a": b"bc"}, ""),
        environment_files.key_of({"ab": b"c"}, ""),
    }
    assert len(keys) == 5
