"""`hostler logs`: a crash is seen, lines are in order, attempts are told apart, and the last line is the outcome."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.integration.conftest import WAIT, Fleet, Hostler, until
from tests.patience import PATIENCE_S

ONCE = {"max_attempts": {"exit": 1}}
TWICE = {"max_attempts": {"exit": 2}}
CRASH = """
import sys
print("loading")
raise ValueError("no data")
"""


def follow(running: Fleet, *words: str) -> subprocess.Popen[str]:
    """A command that goes on, as a process."""
    command = [sys.executable, "-m", "hostler", *words, "--state-dir", str(running.state)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_traceback_and_the_outcome_are_shown(running: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    (tmp_path / "crash.py").write_text(CRASH)
    job = running.script(sys.executable, str(tmp_path / "crash.py"), retry=ONCE)
    running.over(job)
    said = hostler(running, "logs", job)
    assert (said.status, said.out) == (0, "loading\n")
    *trace, outcome = said.err.splitlines()
    assert (trace[0], trace[-1]) == ("Traceback (most recent call last):", "ValueError: no data")
    assert outcome.startswith(f"{job} failed: exit 1, attempt 1 of 1")


def test_streams_of_a_job_into_one_pipe_are_in_order(running: Fleet) -> None:
    code = "import os, time\nfor n in range(20): os.write(1 + n % 2, b'%d\\n' % n); time.sleep(0.06)"
    job = running.python(code)
    running.state_of(job, "done")
    command = [sys.executable, "-m", "hostler", "logs", job, "--state-dir", str(running.state)]
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout
    *lines, outcome = told.decode().splitlines()
    assert lines == [str(number) for number in range(20)]
    assert outcome.startswith(f"{job} done in ")


def test_attempts_are_separated_and_each_can_be_asked_for(running: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    code = "import os, sys; sys.stderr.write(os.environ['HOSTLER_ATTEMPT'] + '\\n'); sys.exit(3)"
    job = running.python(code, retry=TWICE)
    running.over(job)
    said = hostler(running, "logs", job)
    assert re.fullmatch(
        rf"--- attempt 1 of {job} on here/cpu\d ---\n{job}\.1\n"
        rf"--- attempt 2 of {job} on here/cpu\d ---\n{job}\.2\n"
        rf"{job} failed: exit 3, attempt 2 of 2\n",
        said.err,
    ), said.err
    first = hostler(running, "logs", f"{job}.1")
    assert (first.status, first.err) == (0, f"{job}.1\n{job}.1 failed: exit 3\n")
    assert hostler(running, "logs", f"{job}.3").status == 2
    only = hostler(running, "logs", f"{job}.2", "--stream", "err")
    assert (only.out, only.err) == (f"{job}.2\n", f"{job}.2 failed: exit 3\n")


def test_follow_goes_through_a_retry_and_has_the_status_of_the_job(running: Fleet) -> None:
    job = running.python("import sys; print('try', flush=True); sys.exit(3)", retry=TWICE)
    with follow(running, "logs", job, "-f") as following:
        out, err = following.communicate(timeout=PATIENCE_S)
    assert (following.returncode, out) == (3, "try\ntry\n")
    assert re.fullmatch(
        rf"--- attempt 1 of {job} on here/cpu\d ---\n"
        rf"{job}: attempt 1 failed: exit 3; tried again( in .*)?\n"
        rf"--- attempt 2 of {job} on here/cpu\d ---\n"
        rf"{job} failed: exit 3, attempt 2 of 2\n",
        err,
    ), err


def test_follow_waits_for_a_job_that_has_not_begun(running: Fleet, tmp_path: Path) -> None:
    first = running.python(WAIT, str(tmp_path / "go"))
    job = running.python("print('second')", after=[first])
    with follow(running, "logs", job, "-f") as following:
        (tmp_path / "go").touch()
        out, _ = following.communicate(timeout=PATIENCE_S)
    assert (following.returncode, out) == (0, "second\n")


def test_follow_of_a_cancelled_job_fails(running: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    job = running.python(f"print('begun', flush=True)\n{WAIT}", str(tmp_path / "never"), grace_s=0.3)
    with follow(running, "logs", job, "-f") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "begun\n"
        assert hostler(running, "cancel", job, "--reason", "wrong data").status == 0
        _, err = following.communicate(timeout=PATIENCE_S)
    assert following.returncode == 1
    assert "cancelled" in err.splitlines()[-1]


def test_an_interrupt_ends_following_and_leaves_the_job(running: Fleet, tmp_path: Path) -> None:
    job = running.python(f"print('begun', flush=True)\n{WAIT}", str(tmp_path / "go"))
    with follow(running, "logs", job, "-f") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "begun\n"
        following.send_signal(signal.SIGINT)
        _, err = following.communicate(timeout=PATIENCE_S)
    assert following.returncode == 130
    assert "Traceback" not in err
    assert running.job(job)["state"] == "running"
    (tmp_path / "go").touch()
    running.state_of(job, "done")


def test_logs_of_a_job_that_runs_tell_where(running: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    job = running.python(f"print('begun', flush=True)\n{WAIT}", str(tmp_path / "go"))
    until(lambda: hostler(running, "logs", job).out == "begun\n", "its first line")
    assert re.fullmatch(rf"{job} is running on here/cpu\d\n", hostler(running, "logs", job).err)
    (tmp_path / "go").touch()
    running.state_of(job, "done")
