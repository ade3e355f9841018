"""Controllers that end and start again, and nodes that are drained: what runs there is taken up, not started anew."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil

from tests.integration.conftest import WAIT, Fleet, Hostler, until

ANSWER = WAIT + "open(os.environ['HOSTLER_RESULT'], 'w').write('42')"
SAVES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
"""


def cordon(fleet: Fleet) -> dict[str, object] | None:
    (node,) = fleet.client.nodes()
    found: dict[str, object] | None = node["cordon"]
    return found


def starts(fleet: Fleet, job: str) -> int:
    """How often a process was started for a job."""
    return sum(entry["event"]["kind"] == "attempt.started" for entry in fleet.client.story(job))


def drain(fleet: Fleet) -> None:
    """Send SIGTERM, and wait until the controller has understood it."""
    before = fleet.printed().count("draining")
    fleet.signal(signal.SIGTERM)
    until(lambda: fleet.printed().count("draining") > before, "the word that it drains", log=fleet.log)


def test_running_attempts_are_adopted_and_ended_ones_collected(living: Fleet, tmp_path: Path) -> None:
    fleet = living
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


def test_sigterm_drains(living: Fleet, tmp_path: Path) -> None:
    fleet = living
    runs = [fleet.python(ANSWER, str(tmp_path / "go")) for _ in range(2)]
    waits = fleet.script("true")
    for job in runs:
        fleet.pid(job)
    drain(fleet)
    (tmp_path / "go").touch()
    assert fleet.ended() == 0
    fleet.start()
    assert [fleet.over(job)["result"] for job in runs] == [42, 42]
    assert fleet.over(waits)["job"]["state"] == "done"
    assert [starts(fleet, job) for job in (*runs, waits)] == [1, 1, 1]


def test_a_second_sigterm_leaves_at_once_and_the_attempt_lives_on(living: Fleet, tmp_path: Path) -> None:
    fleet = living
    job = fleet.python(ANSWER, str(tmp_path / "go"))
    pid = fleet.pid(job)
    drain(fleet)
    fleet.signal(signal.SIGTERM)
    assert fleet.ended() == 0
    assert psutil.pid_exists(pid)
    fleet.start()
    assert fleet.pid(job) == pid
    (tmp_path / "go").touch()
    assert fleet.over(job)["result"] == 42
    assert starts(fleet, job) == 1


def test_a_node_is_drained_and_resumed(living: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    fleet, before = living, living.client.status()["seq"]
    gate = tmp_path / "gate"
    runs = fleet.python(WAIT, str(gate))
    fleet.pid(runs)
    said = hostler(fleet, "node", "drain", "here", "--why", "new fan")
    assert (said.status, said.out) == (0, "here draining\n")
    waits = fleet.script("true")
    assert "new fan" in hostler(fleet, "explain", waits).out
    fleet.kill()
    fleet.start()
    assert fleet.job(waits)["state"] == "pending"
    gate.touch()
    fleet.state_of(runs, "done")
    until(lambda: (cordon(fleet) or {}).get("state") == "drained", "that the node is drained")
    assert "new fan" in hostler(fleet, "hold", "list").out
    assert fleet.job(waits)["state"] == "pending"
    assert hostler(fleet, "node", "resume", "here").out == "here takes work\n"
    fleet.state_of(waits, "done")
    events = hostler(fleet, "events", "--after", str(before), "--json").out.splitlines()
    kinds = [json.loads(line)["event"]["kind"] for line in events]
    assert kinds.index("node.cordoned") < kinds.index("node.drained") < kinds.index("node.resumed")


def test_drain_now_ends_what_runs_and_blames_nobody(living: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    fleet = living
    gate = tmp_path / "gate"
    runs = fleet.python(SAVES, str(gate))
    fleet.pid(runs)
    assert hostler(fleet, "node", "drain", "here", "--now").status == 0
    until(lambda: (cordon(fleet) or {}).get("state") == "drained", "that the node is drained")
    detail = fleet.client.job(runs)
    assert (detail["job"]["state"], detail["failures"]) == ("pending", {})
    gate.touch()
    hostler(fleet, "node", "resume", "here")
    assert fleet.state_of(runs, "done")["attempts"] == 2


def test_down_drains_and_the_agent_ends(living: Fleet, hostler: Hostler) -> None:
    assert living.over(living.script("true"))["job"]["state"] == "done"
    said = hostler(living, "down")
    assert (said.status, said.err) == (0, "")
    assert living.ended() == 0
    until(lambda: not living.processes(), "the end of the agent, which has nothing left")


def test_until_idle_says_what_failed_and_the_same_file_again_does_nothing(
    fleet: Fleet, hostler: Hostler, tmp_path: Path
) -> None:
    code = f"open({str(tmp_path / 'runs')!r}, 'a').write('x')"
    good = {"name": "good", "argv": ["{python}", "-c", code]}
    bad = {"name": "bad", "argv": ["false"], "retry": {"max_attempts": {"exit": 1}}}
    fleet.settle(jobs=[good, bad])
    fleet.launch("--until-idle")
    assert fleet.ended() == 1
    assert "1 of 2 jobs are done" in fleet.log()
    assert "exit status 1" in fleet.log()
    words = ("up", "--state-dir", str(fleet.state), "--port", "0", "--until-idle", str(fleet.file))
    again = hostler(fleet, *words)  # in this process: the start of an interpreter is no part of it
    assert again.status == 1
    assert "1 of 2 jobs are done" in again.out + again.err
    assert (tmp_path / "runs").read_text() == "x"
    fleet.settle(jobs=[{"name": "good", "argv": ["true"]}, bad])
    said = hostler(fleet, *words)
    assert said.status == 2
    assert "submitted with other values" in said.err
    assert (tmp_path / "runs").read_text() == "x"
