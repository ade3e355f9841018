"""The program as a whole: start-up, exit statuses, help, completion."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hostler import __version__
from hostler.cli import main
from hostler.cli.commands import COMMANDS, PANELS, Command, Group, imported
from hostler.cli.completing import complete_job
from hostler.cli.help import summary
from hostler.cli.parameters import signature
from hostler.client import Client
from hostler.model import errors
from hostler.model.groups import GroupSpec, SubmitGroup
from hostler.model.inputs import Submit
from tests.cli.conftest import Hostler
from tests.core.builders import script, sweep
from tests.patience import PATIENCE_S
from tests.web.core_desk import Window

HEAVY = {"alembic", "asyncssh", "fastapi", "rich", "sqlalchemy", "structlog", "uvicorn", "yaml"}
HEAVY |= {"jinja2", "matplotlib", "numba", "numpy", "openskill", "torch"}
SLOW = {"asyncio", "dataclasses", "http", "email", "pydantic", "ssl", "hashlib", "subprocess"}
"""Their imports together cost more CPU time than a command may take."""
PROGRAM = [sys.executable, "-m", "hostler.cli"]
COMPLETE = """
from hostler.cli import completing, main
{}
main.main()
"""
PATIENT = f"completing.TIMEOUT_S = {PATIENCE_S}"
"""Completion would rather say nothing than keep a shell waiting, which would depend on the load of the machine."""


ALL = {
    path: function
    for name, each in COMMANDS.items()
    for path, function in (
        {(name,): each.function}
        if isinstance(each, Command)
        else {(name, word): f for word, f in each.commands.items()}
    ).items()
}
"""Every command by its words."""
SCREEN = (24, 80)
"""Lines and columns of the smallest usual terminal."""


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


def test_start_of_a_command_imports_nothing_slow(served: Window) -> None:
    code = "from hostler.cli.main import run\nassert run({!r}) == 0"
    assert not loaded_by("import hostler.cli.main") & (HEAVY | SLOW)
    served.tell(Submit(specs=(script("n"),)))
    submit = ["submit", "--own-dir", "--device", "cpu", "--", "true"]
    assert not loaded_by(code.format(submit)) & (HEAVY | SLOW)
    for words in (
        ["--help"],
        ["jobs"],
        ["status"],
        ["job", "show", "j1"],
        ["explain", "j1"],
        ["queue"],
        ["node", "list"],
    ):
        assert not loaded_by(code.format(words)) & (HEAVY | SLOW), words


def test_no_controller_is_status_3_and_says_how_to_start_one(tmp_path: Path) -> None:
    done = program("jobs", HOSTLER_STATE_DIR=str(tmp_path))
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith(f"hostler: error: no controller is running for the state directory {tmp_path}")
    assert "hostler up --detach" in done.stderr


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_has_help_with_an_example(
    path: tuple[str, ...], hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(SCREEN[1]))
    said = hostler(*path, "--help")
    assert said.status == 0
    assert "Example:" in said.out
    assert f"  hostler {' '.join(path)}" in said.out or path[0] == "job"  # those are the daily commands, too
    assert [line for line in said.out.splitlines() if len(line) > SCREEN[1]] == []


def test_every_command_that_shows_something_can_show_it_as_json() -> None:
    without = {"init", "up", "down", "logs", "play", "trust", "connect", "get", "wait"}
    for path, function in ALL.items():
        flags = {flag for each in signature(imported(function)).options for flag in each.flags}
        assert ("--json" in flags) == (path[-1] not in without), path


def test_help_of_the_program_fits_one_screen_and_names_every_command(hostler: Hostler) -> None:
    lines = hostler("--help").out.splitlines()
    assert len(lines) <= SCREEN[0] - 1  # and the line of the shell
    assert all(len(line) <= SCREEN[1] for line in lines)
    for panel in PANELS.values():
        for name, each in panel.items():
            assert any(f"  {name} " in line and each.about in line for line in lines), name


@pytest.mark.parametrize("name", [name for name, each in COMMANDS.items() if isinstance(each, Group)])
def test_help_of_a_group_names_its_commands_and_cuts_nothing(name: str, hostler: Hostler) -> None:
    group = COMMANDS[name]
    assert isinstance(group, Group)
    alone, asked = hostler(name), hostler(name, "--help")
    assert (alone.status, alone.out) == (asked.status, asked.out) == (0, asked.out)
    words = " ".join(asked.out.split())
    for word, function in group.commands.items():
        assert f" {word} {summary(imported(function).__doc__ or '')}" in words
    assert all(len(line) <= SCREEN[1] for line in asked.out.splitlines())


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["jbos"], "no such command: jbos; did you mean jobs?; `hostler --help` lists all commands"),
        (["nodes"], "no such command: nodes; did you mean node?; `hostler --help` lists all commands"),
        (["--vers"], "no such option: --vers; `hostler --help` lists all commands"),
        (["node", "shw"], "no such command: node shw; did you mean show?; `hostler node --help` lists all"),
        (["jobs", "--stat", "done"], "no such option: --stat; did you mean --state?; `hostler jobs --help` shows how"),
        (["submit", "--detach", "x"], "no such option: --detach; `hostler submit --help` shows how"),
        (["submit", "--max-attempts", "1", "x"], "'1': CLASS=N is expected, as in `--max-attempts exit=1`"),
        (["jobs", "--limit"], "--limit needs a value; `hostler jobs --help` shows how"),
        (["jobs", "--json=yes"], "--json takes no value, and 'yes' is given; leave it out"),
        (["jobs", "j1", "j2"], "unexpected words: j1 j2; leave them out; `hostler jobs --help` shows how"),
        (["job", "show"], "ID is missing; `hostler job show --help` shows how"),
        (["jobs", "--limit", "many"], "--limit: 'many' is not an integer"),
        (["jobs", "--limit", "0"], "--limit: 0 is less than 1, the least value"),
        (["submit", "--gpus", "65", "x"], "--gpus: 65 is more than 64, the greatest value"),
        (["submit", "--cpus", "nan", "x"], "--cpus: 'nan' is not a finite number"),
        (["submit", "--vram-gb", "inf", "x"], "--vram-gb: 'inf' is not a finite number"),
        (["submit", "--walltime-s", "1e400", "x"], "--walltime-s: '1e400' is not a finite number"),
        (["submit", "--cwd", "", "x"], "--cwd is empty; give a path"),
        (["submit", "--walltime-s", "soon", "x"], "--walltime-s: 'soon' is not a number"),
        (["jobs", "--state", "lost"], "--state: 'lost' is not one of pending, leased, launching, running, "),
        (["jobs", "--limit", "9" * 5000], "… (5000 characters) is not an integer"),
        (["jobs", "--limit", "9" * 20], "--limit: a number of 20 digits is too large"),
        (["logs", "\udcff"], "ID: '\\udcff' is not UTF-8"),
        (["submit", "--own-dir", "echo", "\udcff"], "CMD: '\\udcff' is not UTF-8"),
        (["status", "--state-dir", "~no-such-user/x"], "there is no user 'no-such-user' on this machine"),
        (["sweep", "lr=0.1,0.03"], "hostler submit --grid lr=0.1,0.03"),
        (["sweep", "primes", "--range", "0:9"], "no such command: sweep primes; `hostler sweep submit primes ..."),
    ],
)  # fmt: skip
def test_wrong_command_line_is_refused_with_what_would_do(words: list[str], hint: str, hostler: Hostler) -> None:
    said = hostler(*words)
    assert (said.status, said.out) == (2, "")
    assert hint in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ControllerAbsent, 3),
        (errors.UsageError, 2),
        (errors.NotFound, 2),
        (errors.SettingsError, 2),
        (errors.Conflict, 2),
        (errors.AnswerError, 1),
        (errors.StoreFull, 1),
        (errors.LinkLost, 1),
    ],
)
def test_errors_have_their_status(
    error: type[errors.HostlerError], status: int, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error("first\x1b[2J\nsecond")

    monkeypatch.setattr(main, "_run", fail)
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


def completed(line: str, patience: str = PATIENT, **environment: str) -> list[str]:
    """The words that a shell offers at the end of `line`, for which nothing else is printed."""
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "found")
        done = program(
            command=[sys.executable, "-c", COMPLETE.format(patience)],
            _ARGCOMPLETE="1",
            _ARGCOMPLETE_IFS="\013",
            _ARGCOMPLETE_STDOUT_FILENAME=str(found),
            COMP_LINE=line,
            COMP_POINT=str(len(line)),
            **environment,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        return sorted(word.strip() for word in found.read_text().split("\013") if word)


def test_shell_completion_knows_jobs(served: Window) -> None:
    served.tell(Submit(specs=tuple(script(f"n{n}") for n in range(12))))
    assert completed("hostler cancel j1") == ["j1", "j10", "j11", "j12"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("hostler wait g", ["g1"]),
        ("hostler results g", ["g1"]),
        ("hostler jobs --group g", ["g1"]),
        ("hostler node show n", ["n"]),
        ("hostler jobs --node n", ["n"]),
        ("hostler submit --exclude-node n", ["n"]),
        ("hostler device drain n/", ["n/cpu0", "n/cpu1"]),
        ("hostler explain n/", ["n/cpu0", "n/cpu1"]),
        ("hostler sweep hits p", ["primes"]),
        ("hostler submit --after g", ["g1"]),
    ],
)
def test_shell_completion_knows_names(line: str, words: list[str], served: Window) -> None:
    served.tell(SubmitGroup(spec=GroupSpec(name="a group"), jobs=(script("n", parameters={"n": "1"}),)))
    served.tell(Submit(specs=(sweep("primes"),)))
    assert completed(line) == words


@pytest.mark.parametrize("line", ["hostler node show n", "hostler wait g", "hostler sweep hits p"])
def test_shell_completion_is_silent_where_no_name_can_be_known(line: str, tmp_path: Path) -> None:
    """No controller, one that never answers, and an address that is none."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        for url in ("", f"http://127.0.0.1:{mute.getsockname()[1]}", "nonsense"):
            assert completed(line, "completing.TIMEOUT_S = 0.1", HOSTLER_URL=url, HOSTLER_STATE_DIR=str(tmp_path)) == []


@pytest.mark.services
def test_shell_completion_knows_commands_options_and_choices() -> None:
    assert completed("hostler ca") == ["cancel"]
    assert completed("hostler node tr") == ["trust"]
    assert completed("hostler jobs --st") == ["--state", "--state-dir"]
    assert completed("hostler jobs --state ca") == ["cancelled"]
    for shell in ("bash", "zsh", "fish"):
        assert "hostler" in program("--show-completion", shell).stdout
    refused = program("--show-completion", "cobol")
    assert (refused.returncode, "takes the name of one shell: bash" in refused.stderr) == (2, True)


def test_completion_is_silent_without_a_controller(tmp_path: Path) -> None:
    assert complete_job("j", {"state_dir": tmp_path}) == []


def test_the_token_is_shown_nowhere(served: Window, hostler: Hostler) -> None:
    token = served.headers["Authorization"].split()[1]
    for words in (
        ["status", "--json"],
        ["node", "list", "--json"],
        ["events", "--json", "--after", "0"],
        ["job", "show", "none"],
    ):
        said = hostler(*words)
        assert token not in said.out + said.err


def streams(shell: str, *words: str) -> subprocess.CompletedProcess[str]:
    """`hostler` in a process whose streams a shell has redirected."""
    return program("-c", f'exec "$0" -m hostler.cli "$@" {shell}', sys.executable, *words, command=["sh"])


@pytest.mark.parametrize("words", [["--help"], ["status"], ["jobs", "--json"], ["events", "--after", "0"]])
def test_output_on_a_full_disk_is_one_message(words: list[str], served: Window) -> None:
    said = streams(">/dev/full", *words)
    assert (said.returncode, said.stderr) == (
        1,
        "hostler: error: the output cannot be read or written: No space left on device\n",
    )


@pytest.mark.parametrize(
    ("words", "redirected", "status"),
    [
        (["status"], ">&-", 0),
        (["jobs", "--json"], "<&-", 0),
        (["bogus"], "2>&-", 2),
        (["bogus"], "2>/dev/full", 2),
        (["submit", "--own-dir", "--", "true"], ">&- 2>&-", 0),
        (["submit", "--own-dir", "--each-line", "-", "--", "echo", "{line}"], "<&-", 2),
    ],
)
def test_closed_streams_change_no_status(words: list[str], redirected: str, status: int, served: Window) -> None:
    said = streams(redirected, *words)
    assert said.returncode == status
    assert "Traceback" not in said.stderr
    assert "error" not in said.stdout


def test_text_that_the_terminal_cannot_show_is_escaped(served: Window) -> None:
    served.tell(Submit(specs=(script("名前"),)))
    said = program("jobs", PYTHONIOENCODING="ascii")
    assert (said.returncode, "\\u540d\\u524d" in said.stdout, said.stderr) == (0, True, "")
