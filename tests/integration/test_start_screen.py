"""What `hostler up` prints first, its link that logs in once, `--detach`, and `down`."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psutil
import pytest

from tests.integration.conftest import Fleet, command, typed, until
from tests.patience import PATIENCE_S

WAITS = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)"


def screen(fleet: Fleet, nth: int = 1) -> list[str]:
    """The lines of the start screen of the last of so many starts, once all of it is printed."""

    def last() -> list[str] | None:
        starts = fleet.printed().split("Hostler ")
        lines = starts[-1].splitlines()
        return lines if len(starts) > nth and any(line.startswith("Next") for line in lines[:-1]) else None

    return until(last, "the start screen", log=fleet.log)


def asked(url: str, method: str, path: str, body: str | None = None) -> tuple[int, str | None, str]:
    """Status, cookie and body of an answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE_S)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": url} if body is not None else {}
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, answer.headers.get("Set-Cookie"), text


def test_link_of_the_start_screen_logs_in_once(fleet: Fleet) -> None:
    fleet.start()
    lines = screen(fleet)
    link = next(line.split()[1] for line in lines if line.startswith("Dashboard"))
    url, code = re.fullmatch(r"(http://127\.0\.0\.1:\d+)/login\?once=(\S+)", link).groups()  # type: ignore[union-attr]
    for _ in range(2):  # looking at the link does not use it up
        status, cookie, page = asked(url, "GET", f"/login?once={code}")
        assert (status, cookie) == (200, None)
        assert f'name="once" value="{code}"' in page
    form = urlencode({"once": code, "next": "/"})
    status, cookie, _ = asked(url, "POST", "/login", form)
    assert status == 303
    assert cookie is not None
    assert "HttpOnly" in cookie
    status, cookie, page = asked(url, "POST", "/login", form)
    assert (status, cookie) == (401, None)
    assert "This link has been used, or has expired" in page
    assert code not in "".join(each.read_text(errors="replace") for each in fleet.state.glob("*.log"))


def test_start_screen_names_what_was_adopted_after_a_kill(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start()
    first = screen(fleet)
    assert not any(line.startswith("Adopted") for line in first)
    gate = tmp_path / "gate"
    stays = fleet.python(WAITS, str(gate))
    ends = fleet.python(WAITS, str(tmp_path / "other"))
    fleet.state_of(stays, "running")
    pid = fleet.pid(ends)
    fleet.kill()
    (tmp_path / "other").touch()
    until(lambda: not psutil.pid_exists(pid), "the end of one of the processes")
    fleet.start()
    assert "Adopted    1 still running, 1 ended meanwhile" in screen(fleet, 2)
    gate.touch()
    fleet.over(stays)


def test_controller_in_the_background_is_ready_when_the_command_returns(fleet: Fleet) -> None:
    words = [str(fleet.file), "--port", "0", "--state-dir", str(fleet.state)]
    said = command("up", "--detach", *words)
    try:
        assert said.status == 0, said.err
        lines = said.out.splitlines()
        assert lines[0].startswith("Hostler ")
        assert f"Log        {fleet.state}/up.log" in lines
        assert fleet.client.status()["nodes_up"] == 1
        again = command("up", "--detach", *words)
        assert again.status == 2
        assert "a controller runs for" in again.err
    finally:
        ended = command("down", "--now", "--state-dir", str(fleet.state))
    assert (ended.status, ended.out.split(";")[0]) == (0, "the controller has ended")
    assert command("down", "--now", "--state-dir", str(fleet.state)).status == 3


def test_controller_in_the_background_that_cannot_start_prints_why(fleet: Fleet) -> None:
    fleet.file.write_text("nodes: [{name: 'no good'}]\n")
    said = typed("up", "--detach", str(fleet.file), "--state-dir", str(fleet.state), cwd=fleet.path)
    assert said.status == 2
    assert "nodes[0].name" in said.out + said.err
    assert typed("up", "--detach", "--until-idle", cwd=fleet.path).status == 2


def test_down_drains_and_tells_how_many_jobs_are_under_way(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start()
    gate = tmp_path / "gate"
    job = fleet.python(WAITS, str(gate))
    fleet.state_of(job, "running")
    said = typed("down", "--state-dir", str(fleet.state), cwd=tmp_path)
    assert (said.status, said.out) == (
        0,
        "the controller starts nothing more, and ends once nothing runs (1 job under way)\n",
    )
    gate.touch()
    assert fleet.ended() == 0


def test_down_never_signals_a_process_that_is_not_the_controller(fleet: Fleet, tmp_path: Path) -> None:
    """The number of a controller that was killed may be another program's by now."""
    state = tmp_path / "stale"
    state.mkdir()
    (state / "token").write_text("t")
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            for pid in (other.pid, 0, -1, 99999999999):
                (state / "controller.json").write_text(json.dumps({"url": "http://127.0.0.1:1", "pid": pid}))
                for held in (False, True):
                    with (state / "lock").open("w") as lock:
                        if held:
                            fcntl.flock(lock, fcntl.LOCK_EX)
                        said = typed("down", "--now", "--state-dir", str(state), cwd=tmp_path)
                    assert (said.status, "no controller is running" in said.err) == (3, True), said.err
            assert other.poll() is None
        finally:
            other.kill()
    # The file that was left does not keep a new controller from its start.
    words = ["--port", "0", "--state-dir", str(state)]
    try:
        assert command("up", "--detach", str(fleet.file), *words).status == 0
    finally:
        assert command("down", "--now", "--state-dir", str(state)).status == 0


@pytest.mark.services
def test_controller_in_the_background_imports_nothing_of_the_current_folder(fleet: Fleet, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for name in ("queue", "token", "types"):
        (project / f"{name}.py").write_text("raise SystemExit('a module of the project was imported')\n")
    state = ["--state-dir", str(fleet.state)]
    words = [sys.executable, "-P", "-m", "hostler"]
    said = subprocess.run(
        [*words, "up", "--detach", str(fleet.file), "--port", "0", *state],
        cwd=project,
        capture_output=True,
        check=False,
    )
    try:
        assert said.returncode == 0, said.stdout + said.stderr
    finally:
        subprocess.run([*words, "down", "--now", *state], cwd=project, check=False, capture_output=True)


@pytest.mark.parametrize("obstacle", ["file", "folder", "fifo"])
def test_state_directory_that_cannot_be_written_is_one_line(tmp_path: Path, obstacle: str) -> None:
    state = tmp_path / "state"
    if obstacle == "file":
        state.write_text("")
    else:
        state.mkdir()
        (state / "up.log").mkdir() if obstacle == "folder" else os.mkfifo(state / "up.log")
    said = typed("up", "--detach", "--state-dir", str(state), cwd=tmp_path)
    assert said.status == 1
    assert "Traceback" not in said.err
    assert len(said.err.splitlines()) == 1
