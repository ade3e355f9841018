"""Controllers that go and come: what runs on the node runs on, and is taken up, not started anew."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil

from tests.integration.conftest import WAIT, Fleet, command, until

ANSWER = WAIT + "open(os.environ['HOSTLER_RESULT'], 'w').write('42')"


def starts(fleet: Fleet, job: str) -> int:
    """How often a process was started for a job."""
    return sum(entry["event"]["kind"] == "attempt.started" for entry in fleet.client.story(job))


def test_running_attempts_are_adopted_and_ended_ones_collected(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start()
    long, short = (fleet.python(ANSWER, str(tmp_path / name)) for name in ("long", "short"))
    pids = [fleet.pid(long), fleet.pid(short)]
    fleet.kill()
    (tmp_path / "short").touch()
    until(lambda: not psutil.pid_exists(pids[1]), "the end of the short one")
    fleet.start()
    assert fleet.over(short)["result"] == 42
    assert fleet.pid(long) == pids[0]
    assert fleet.job(long)["attempts"] == 1
    (tmp_path / "long").touch()
    assert fleet.over(long)["result"] == 42
    assert [starts(fleet, job) for job in (long, short)] == [1, 1]


def test_sigterm_drains(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start()
    runs = [fleet.python(ANSWER, str(tmp_path / "go")) for _ in range(2)]
    waits = fleet.script("true")
    for job in runs:
        fleet.pid(job)
    fleet.signal(signal.SIGTERM)
    until(lambda: "draining" in fleet.log(), "the word that it drains")
    (tmp_path / "go").touch()
    assert fleet.ended() == 0
    fleet.start()
    assert [fleet.over(job)["result"] for job in runs] == [42, 42]
    assert fleet.over(waits)["job"]["state"] == "done"
    assert [starts(fleet, job) for job in (*runs, waits)] == [1, 1, 1]


def test_a_second_sigterm_leaves_at_once_and_the_attempt_lives_on(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start()
    job = fleet.python(ANSWER, str(tmp_path / "go"))
    pid = fleet.pid(job)
    fleet.signal(signal.SIGTERM)
    until(lambda: "draining" in fleet.log(), "the word that it drains")
    fleet.signal(signal.SIGTERM)
    assert fleet.ended() == 0
    assert psutil.pid_exists(pid)
    fleet.start()
    assert fleet.pid(job) == pid
    (tmp_path / "go").touch()
    assert fleet.over(job)["result"] == 42
    assert starts(fleet, job) == 1


def test_stop_by_command_drains(fleet: Fleet) -> None:
    fleet.start()
    assert fleet.over(fleet.script("true"))["job"]["state"] == "done"
    said = command("stop", "--state-dir", fleet.state)
    assert (said.status, said.err) == (0, "")
    assert fleet.ended() == 0
    until(lambda: not fleet.processes(), "the end of the agent, which has nothing left")


def test_until_idle_says_what_failed_and_a_second_time_does_nothing(fleet: Fleet) -> None:
    once = {"max_attempts": {"exit": 1}}
    jobs = [{"name": "good", "argv": ["true"]}, {"name": "bad", "argv": ["false"], "retry": once}]
    fleet.settle(jobs=jobs)
    fleet.launch("--until-idle")
    assert fleet.ended() == 1
    assert "1 of 2 jobs are done" in fleet.log()
    assert "exit status 1" in fleet.log()


def test_the_same_fleet_file_again_does_nothing(fleet: Fleet, tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'runs')!r}, 'a').write('x')"
    fleet.settle(jobs=[{"name": "once", "argv": ["{python}", "-c", code]}])
    for _ in range(2):
        fleet.launch("--until-idle")
        assert fleet.ended() == 0
    assert (tmp_path / "runs").read_text() == "x"
    fleet.settle(jobs=[{"name": "once", "argv": ["true"]}])
    fleet.launch("--until-idle")
    assert fleet.ended() == 1
    assert "submitted with other values" in fleet.log()
