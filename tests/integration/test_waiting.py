"""`hostler wait` as somebody types it: a real controller, killed and started again meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.integration.conftest import WAIT, Fleet, Hostler, until
from tests.patience import PATIENCE_S

FAIL = f"{WAIT}\nsys.exit(5)"
ONCE = {"max_attempts": {"exit": 1}}


def waiting(fleet: Fleet, *words: str) -> subprocess.Popen[str]:
    """`hostler wait` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "hostler", "wait", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOSTLER_STATE_DIR": str(fleet.state)},
    )


def lines(said: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert said.stdout is not None
    return said.stdout.readline()


def test_wait_survives_a_restart_of_the_controller(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start()
    good, bad = tmp_path / "good", tmp_path / "bad"
    first = fleet.python(WAIT, str(good), name="first")
    second = fleet.python(FAIL, str(bad), name="second", retry=ONCE)
    for job in (first, second):
        fleet.pid(job)
    with waiting(fleet, "first", second) as said:
        good.touch()
        assert lines(said).startswith(f"{first} done in ")
        fleet.kill()
        assert said.stderr is not None
        assert "the controller cannot be reached, and the command keeps waiting" in said.stderr.readline()
        bad.touch()
        fleet.start()
        out, err = said.communicate(timeout=PATIENCE_S)
        assert out == f"{second} failed: exit 5, attempt 1 of 1\n"
        assert err == "hostler: the controller answers again\n", "the absence is printed once"
        assert said.returncode == 1, "one of two failed"


def test_wait_gets_the_end_of_a_job_from_a_controller_that_drains(
    fleet: Fleet, tmp_path: Path, hostler: Hostler
) -> None:
    fleet.start()
    held = tmp_path / "held"
    job = fleet.python(f"{WAIT}\nsys.exit(5)", str(held), retry=ONCE)
    fleet.pid(job)
    with waiting(fleet, job) as said:
        try:
            time.sleep(2)  # the command rests for a second between two questions by then
            assert hostler(fleet, "down").status == 0
            held.touch()
            out, err = said.communicate(timeout=PATIENCE_S)
            assert (out, err, said.returncode) == (f"{job} failed: exit 5, attempt 1 of 1\n", "", 5)
        finally:
            said.kill()


def test_interrupted_wait_names_what_continues(fleet: Fleet, tmp_path: Path, hostler: Hostler) -> None:
    fleet.start()
    held, over = tmp_path / "held", fleet.script("true")
    job = fleet.python(WAIT, str(held))
    fleet.state_of(over, "done")
    with waiting(fleet, over, job) as said:
        assert lines(said).startswith(f"{over} done")
        said.send_signal(signal.SIGINT)
        out, err = said.communicate(timeout=PATIENCE_S)
        assert (said.returncode, out) == (130, "")
        assert err.strip() == f"hostler: interrupted; {job} continues, `hostler cancel {job}` would end it"
    assert hostler(fleet, "wait", job, "--timeout", "0").status == 124
    assert fleet.job(job)["state"] == "running", "who waits ends nothing"
    held.touch()
    until(lambda: hostler(fleet, "wait", job).status == 0, "its end")
