"""What keeps a controller from starting, and a command line from finding one: told in a line, and nothing is harmed."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from hostler.cli.main import run
from tests.integration.conftest import START_S, Fleet, Hostler, Said, a_fleet, small_disk, until

FLEETS = {
    "no YAML": ("name: [unclosed", "fleet.yaml:"),
    "tabs": ("name:\n\t- x", "fleet.yaml:"),
    "no mapping": ("- 1\n- 2\n", "fleet.yaml"),
    "an unknown key": ("nmae: x\n", "nmae"),
    "an unknown key deep inside": ("nodes:\n  - name: here\n    cpu_slot: 2\n", "cpu_slot"),
    "a value of another type": ("api: {port: many}\n", "api.port"),
    "a key twice": ("name: a\nname: b\n", "name"),
    "two jobs of one key": ("jobs: [{name: a, argv: [x]}, {name: a, argv: [x]}]\n", "'a'"),
    "a sweep of nothing": ("sweeps: [{name: a, worker: [x], range: [5, 5]}]\n", "empty"),
    "a missing jobs file": ("jobs_files: [nowhere.yaml]\n", "nowhere.yaml"),
    "a job of no command": ("jobs: [{name: a}]\n", "argv"),
    "no text": ("name: \ud800\x00\n", "fleet.yaml"),
}


def up_here(hostler: Hostler, fleet: Fleet, port: int = 0) -> Said:
    """`hostler up --until-idle` in this process, which saves the start of an interpreter for each case."""
    return hostler(fleet, "up", "--state-dir", str(fleet.state), "--port", str(port), "--until-idle", str(fleet.file))


def refused(hostler: Hostler, fleet: Fleet, *parts: str, port: int = 0) -> None:
    """`hostler up` does not start."""
    told(up_here(hostler, fleet, port), *parts)


def told(said: Said, *parts: str) -> None:
    """It failed in words, not in a stack of Python's."""
    assert said.status in (1, 2), said
    assert said.err.startswith("hostler: error: "), said.err
    assert "Traceback" not in said.err + said.out
    assert not [part for part in parts if part not in said.err], said.err


@pytest.mark.parametrize("name", FLEETS)
def test_a_bad_fleet_file_is_told(fleet: Fleet, hostler: Hostler, name: str) -> None:
    text, part = FLEETS[name]
    fleet.file.write_bytes(text.encode(errors="surrogatepass"))
    for word in ("check", "up"):
        told(hostler(fleet, word, str(fleet.file)), part)
    assert not (fleet.state / "journal.sqlite").exists()


def test_jobs_that_wait_for_each_other_are_told(fleet: Fleet, hostler: Hostler) -> None:
    fleet.settle(jobs=[{"name": "a", "argv": ["x"], "after": ["b"]}, {"name": "b", "argv": ["x"], "after": ["a"]}])
    refused(hostler, fleet, "ring", "none was submitted")


def test_a_missing_fleet_file_is_told(fleet: Fleet, hostler: Hostler) -> None:
    fleet.file.unlink()
    told(hostler(fleet, "up", str(fleet.file)), "fleet.yaml")


def test_an_environment_value_of_no_use_is_told(
    fleet: Fleet, hostler: Hostler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTLER_API__PORT", "many")
    told(hostler(fleet, "check", str(fleet.file)), "HOSTLER_API__PORT")


COMMANDS = (
    ("status",),
    ("queue",),
    (
        "node",
        "list",
    ),
    ("submit", "--", "true"),
    ("sweep", "submit", "x", "--range", "0:9", "--worker", "x"),
    ("sweep", "hits", "j1"),
    ("sweep", "ledger", "j1"),
    ("sweep", "verify", "j1"),
    ("jobs",),
    ("job", "show", "j1"),
    ("explain", "j1"),
    ("cancel", "j1"),
    ("retry", "j1"),
    ("job", "priority", "j1", "1"),
    ("logs", "j1"),
    ("events",),
    ("down",),
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_without_a_controller_each_command_says_how_to_start_one(
    fleet: Fleet, hostler: Hostler, words: tuple[str, ...]
) -> None:
    said = hostler(fleet, *words)
    assert (said.status, said.out) == (3, "")
    assert "no controller is running" in said.err
    assert "hostler up" in said.err


def test_command_during_start_up_waits_for_the_controller(fleet: Fleet, hostler: Hostler) -> None:
    fleet.launch()
    lock = fleet.state / "lock"
    until(lambda: lock.exists() and lock.read_text(), "the controller's lock", START_S, log=fleet.log)
    said = hostler(fleet, "submit", "--own-dir", "--", "true")
    assert (said.status, said.out) == (0, "j1\n"), said.err


def test_a_second_controller_is_refused_and_the_first_goes_on(living: Fleet, hostler: Hostler) -> None:
    refused(hostler, living, "a controller runs for", "--state-dir")
    assert living.over(living.script("true"))["job"]["state"] == "done"


def test_a_wrong_token_is_refused_with_a_reason(living: Fleet, hostler: Hostler) -> None:
    token = living.state / "token"
    assert token.stat().st_mode & 0o777 == 0o600
    right, before = token.read_text(), list(living.client.all_jobs())
    token.write_text("guessed\n")
    for words in (("status",), ("submit", "--", "true")):
        told(hostler(living, *words), "token")
    token.write_text(right)
    assert hostler(living, "jobs", "--json").json == before


def test_a_killed_controller_is_no_controller(living: Fleet, hostler: Hostler) -> None:
    living.kill()
    said = hostler(living, "status")
    assert said.status == 3
    assert "hostler up" in said.err


def test_a_port_in_use_is_told_and_leaves_nothing_behind(fleet: Fleet, hostler: Hostler) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        refused(hostler, fleet, str(port), "--port", port=port)
    assert hostler(fleet, "status").status == 3
    assert up_here(hostler, fleet).status == 0


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The journal of a fleet that has done one job."""
    with a_fleet(tmp_path_factory.mktemp("whole"), jobs=[{"name": "one", "argv": ["true"]}]) as fleet:
        words = ("--state-dir", str(fleet.state), "--port", "0", "--until-idle", str(fleet.file))
        assert run(("up", *words)) == 0
        return (fleet.state / "journal.sqlite").read_bytes()


def left(fleet: Fleet, content: bytes) -> Path:
    """A journal as a controller of earlier has left it."""
    fleet.state.mkdir()
    file = fleet.state / "journal.sqlite"
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("damage", ["overwritten", "cut off", "scribbled on"])
def test_a_damaged_journal_is_told_and_left_as_it_is(fleet: Fleet, hostler: Hostler, whole: bytes, damage: str) -> None:
    damaged = {
        "overwritten": b"not a database" * 1000,
        "cut off": whole[: len(whole) // 2],
        "scribbled on": whole[:8192] + b"\xa5" * len(whole[8192:]),
    }[damage]
    file = left(fleet, damaged)
    refused(hostler, fleet, "journal.sqlite")
    assert file.read_bytes() == damaged, "evidence must be kept"


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("delete from journal where seq = 3", "gap"),
        ('update journal set data = \'{"kind": "job.invented"}\' where seq = 3', "not an event of this version"),
        ("update journal set data = '{\"kind\":' where seq = 3", "not an event of this version"),
        ("update alembic_version set version_num = '9999_tomorrow'", "newer"),
    ],
)
def test_a_journal_that_cannot_be_read_is_told(
    fleet: Fleet, hostler: Hostler, whole: bytes, statement: str, part: str
) -> None:
    with closing(sqlite3.connect(left(fleet, whole))) as connection:
        connection.execute("delete from snapshots")
        connection.execute(statement)
        connection.commit()
    refused(hostler, fleet, part)


def test_a_read_only_state_directory_is_told(tmp_path: Path, hostler: Hostler, whole: bytes) -> None:
    with small_disk(tmp_path / "disk", "16m") as disk, a_fleet(tmp_path, state=disk / "state") as fleet:
        file = left(fleet, whole)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        refused(hostler, fleet, "cannot be written", "--state-dir")
        assert file.read_bytes() == whole
        subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
        assert up_here(hostler, fleet).status == 0
