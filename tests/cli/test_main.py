"""The program as a whole: start-up, exit statuses, help, completion."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from hostler import __version__
from hostler.cli import main
from hostler.cli.common import complete_job
from hostler.client import Client
from hostler.model import errors
from hostler.model.inputs import Submit
from tests.cli.conftest import Hostler
from tests.core.builders import script
from tests.patience import PATIENCE_S
from tests.web.core_desk import Window

HEAVY = {"alembic", "asyncssh", "fastapi", "rich", "sqlalchemy", "structlog", "uvicorn", "yaml"}
HEAVY |= {"jinja2", "matplotlib", "numba", "numpy", "openskill", "torch"}
PROGRAM = [sys.executable, "-m", "hostler.cli"]
PATIENT = f"""
from hostler.cli import common, main
common.COMPLETION_TIMEOUT_S = {PATIENCE_S}
main.main()
"""
"""Completion would rather say nothing than keep a shell waiting, which would depend on the load of the machine."""


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with its words."""
    top: Any = typer.main.get_command(main.app()) if group is None else group
    for name, command in top.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def program(*words: str, command: Sequence[str] = PROGRAM, **environment: str) -> subprocess.CompletedProcess[str]:
    """`hostler` in a process of its own."""
    known = {**os.environ, "COLUMNS": "80", **environment}
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, env=known, timeout=PATIENCE_S, check=False
    )


def loaded_by(code: str) -> set[str]:
    """Top-level modules that some code leaves loaded."""
    show = f"{code}\nimport sys; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_starting_loads_nothing_heavy() -> None:
    assert not loaded_by("import hostler.cli.main") & (HEAVY | {"pydantic", "asyncio"})


def test_help_and_listings_load_nothing_heavy(served: Window) -> None:
    code = "from hostler.cli.main import run\nassert run({!r}) == 0"
    assert not loaded_by(code.format(["--help"])) & (HEAVY | {"pydantic", "asyncio"})
    assert not loaded_by(code.format(["jobs"])) & HEAVY


def test_no_controller_is_status_3_and_says_how_to_start_one(tmp_path: Path) -> None:
    done = program("jobs", HOSTLER_STATE_DIR=str(tmp_path))
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith(f"hostler: error: no controller is running for the state directory {tmp_path}")
    assert "hostler up --detach" in done.stderr


@pytest.mark.parametrize(("path", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in commands()])
def test_every_command_has_help_with_an_example(path: tuple[str, ...], command: Any, hostler: Hostler) -> None:
    said = hostler(*path, "--help")
    assert said.status == 0
    assert "Example:" in said.out
    assert f"  hostler {' '.join(path)}" in said.out
    assert all(len(line) <= 100 for line in said.out.splitlines())


def test_every_command_that_shows_something_can_show_it_as_json() -> None:
    without = {"init", "up", "down", "logs", "play", "trust", "connect", "get", "wait"}
    for path, command in commands():
        assert ("--json" in {name for each in command.params for name in each.opts}) == (path[-1] not in without), path


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ControllerAbsent, 3),
        (errors.UsageError, 2),
        (errors.NotFound, 2),
        (errors.SettingsError, 2),
        (errors.Conflict, 1),
        (errors.StoreFull, 1),
        (errors.LinkLost, 1),
    ],
)
def test_errors_have_their_status(
    error: type[errors.HostlerError], status: int, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error("first\x1b[2J\nsecond")

    monkeypatch.setattr(main, "_app_for", lambda arguments: fail)
    said = hostler("anything")
    assert (said.status, said.err) == (status, "hostler: error: first\\x1b[2J\nsecond\n")


def test_interruption_is_status_130(hostler: Hostler, served: Window, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Client) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "status", interrupt)
    assert hostler("status").status == 130


def test_a_reader_that_leaves_early_is_no_traceback(served: Window) -> None:
    served.tell(Submit(specs=tuple(script(f"n{n}") for n in range(2000))))
    with subprocess.Popen([*PROGRAM, "jobs", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_version_and_bare_call(hostler: Hostler) -> None:
    assert hostler("--version").out == f"{__version__}\n"
    assert hostler().out.startswith("Usage: hostler ")


def completed(words: str) -> list[str]:
    done = program(
        command=[sys.executable, "-c", PATIENT],
        _HOSTLER_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split(" ")) - 1),
        _TYPER_COMPLETE_ARGS=words,
    )
    return done.stdout.split()


def test_shell_completion_knows_jobs(served: Window) -> None:
    served.tell(Submit(specs=tuple(script(f"n{n}") for n in range(12))))
    assert completed("hostler cancel j1") == ["j1", "j10", "j11", "j12"]


@pytest.mark.long
def test_shell_completion_knows_commands_and_is_shown() -> None:
    assert completed("hostler ca") == ["cancel"]
    # Typer would look for the shell it was started from, and tests are started from anything.
    shown = program("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "complete_bash" in shown.stdout


def test_completion_is_silent_without_a_controller(tmp_path: Path) -> None:
    class Context:
        params: dict[str, Any] = {"state_dir": tmp_path}

    assert complete_job(Context(), "j") == []  # type: ignore[arg-type]


def test_the_token_is_shown_nowhere(served: Window, hostler: Hostler) -> None:
    token = served.headers["Authorization"].split()[1]
    for words in (["status", "--json"], ["nodes", "--json"], ["events", "--json", "--after", "0"], ["job", "none"]):
        said = hostler(*words)
        assert token not in said.out + said.err
