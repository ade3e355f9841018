"""The command line of every day, against one running controller."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import PATIENCE_S, WAIT, WORKER, Fleet, Hostler, until

ONCE = {"max_attempts": {"exit": 1}}


@pytest.fixture
def occupied(running: Fleet, tmp_path: Path) -> Path:
    """Both devices are taken until this file is there."""
    gate = tmp_path / "gate"
    for _ in range(2):
        running.pid(running.python(WAIT, str(gate), name="in the way"))
    return gate


def test_a_job_that_ignores_term_is_cancelled(running: Fleet, hostler: Hostler) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True)"
    job = running.python(code + "; time.sleep(900)", grace_s=0.3)
    pid = running.pid(job)
    until(lambda: hostler(running, "logs", job).out == "deaf\n", "its word that it is deaf")
    said = hostler(running, "cancel", job, "--reason", "wrong data")
    assert (said.status, said.err) == (0, "")
    assert "wrong data" in json.dumps(running.client.story(job))
    assert running.over(job)["job"]["state"] == "cancelled"
    assert not psutil.pid_exists(pid)
    assert hostler(running, "cancel", job).status == 2, "it is over"


def test_walltime_ends_a_job(running: Fleet) -> None:
    job = running.over(running.script("sleep", "900", walltime_s=0.5, grace_s=0.5))["job"]
    assert (job["state"], job["failure"]) == ("failed", "timeout")
    assert "0.5 s" in job["why"]


def test_memory_is_limited(running: Fleet) -> None:
    job = running.over(running.python("b'x' * (2 << 30)", resources={"memory_gb": 0.5}))["job"]
    assert (job["state"], job["failure"]) == ("failed", "memory")


def test_results_travel_to_who_comes_after(running: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    give = "import os, sys; open(os.environ['HOSTLER_RESULT'], 'w').write(sys.argv[1])"
    take = "import os; open(os.environ['HOSTLER_RESULT'], 'w').write(open(os.environ['HOSTLER_INPUTS']).read())"
    file = tmp_path / "jobs.json"
    jobs = [
        {"name": "sum", "argv": [sys.executable, "-c", take], "after": ["one", "two"]},
        {"name": "one", "argv": [sys.executable, "-c", give, '{"n": 1}']},
        {"name": "two", "argv": [sys.executable, "-c", give, "[2]"]},
    ]
    file.write_text(json.dumps(jobs))
    said = hostler(running, "submit", "--jobs-file", str(file))
    ids = said.out.split()
    assert (said.status, len(ids)) == (0, 3)
    by_id = {ids[1]: {"n": 1}, ids[2]: [2]}
    assert running.over("sum")["result"] == {"one": {"n": 1}, "two": [2], **by_id}
    assert hostler(running, "submit", "--jobs-file", str(file)).out.split() == ids, "the same again changes nothing"


def test_a_retry_revives_who_came_after(running: Fleet, hostler: Hostler, tmp_path: Path) -> None:
    code = "import os, sys; sys.exit(not os.path.exists(sys.argv[1]))"
    first = running.python(code, str(tmp_path / "cause"), retry=ONCE)
    second = running.script("true", after=[first])
    assert running.over(first)["job"]["failure"] == "exit"
    assert running.over(second)["job"]["failure"] == "dependency"
    assert f"hostler retry {first}" in hostler(running, "explain", second).out
    (tmp_path / "cause").touch()
    assert hostler(running, "retry", first).status == 0
    assert running.state_of(first, "done")["attempts"] == 2
    running.state_of(second, "done")
    assert hostler(running, "retry", first).status == 2, "what is done is done"


def test_priority_decides_who_goes_next(running: Fleet, hostler: Hostler, occupied: Path, tmp_path: Path) -> None:
    note = "import sys; open(sys.argv[1], 'a').write(sys.argv[2])"
    jobs = [running.python(note, str(tmp_path / "order"), name) for name in "abc"]
    assert hostler(running, "job", "priority", jobs[2], "5").status == 0
    queue = [row["job"] for row in hostler(running, "queue", "--json").json]
    assert [job for job in queue if job in jobs] == [jobs[2], jobs[0], jobs[1]]
    occupied.touch()
    for job in jobs:
        running.state_of(job, "done")
    assert (tmp_path / "order").read_text()[0] in "ca", "two devices: the first two, in either order"
    assert running.client.job(jobs[2])["job"]["started_at"] <= running.client.job(jobs[1])["job"]["started_at"]


def test_explain_tells_why_a_job_waits_or_runs(running: Fleet, hostler: Hostler, occupied: Path) -> None:
    runs = next(job["id"] for job in running.client.all_jobs(["running"]))
    waits = running.script("true")
    blocked = running.script("true", after=[waits])
    unfit = running.script("true", resources={"device": "gpu", "vram_gb": 80})
    for job, part in ((waits, "is taken"), (blocked, f"after {waits}"), (unfit, "fits on no device"), (runs, "here/")):
        said = hostler(running, "explain", job)
        assert (said.status, part in said.out) == (0, True), said.out
    assert set(hostler(running, "explain", unfit, "--json").json["devices"]) == {"here/cpu0", "here/cpu1"}
    occupied.touch()
    running.state_of(blocked, "done")
    assert hostler(running, "cancel", unfit).status == 0


def follow(running: Fleet, *words: str) -> subprocess.Popen[str]:
    """A command that goes on, as a process."""
    command = [sys.executable, "-m", "hostler", *words, "--state-dir", str(running.state)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_logs_follow_a_running_job(running: Fleet, tmp_path: Path) -> None:
    job = running.python(f"print('begun', flush=True)\n{WAIT}\nprint('over')", str(tmp_path / "go"))
    with follow(running, "logs", job, "-f") as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "begun\n"
        (tmp_path / "go").touch()
        assert following.stdout.read() == "over\n"
        assert following.wait(PATIENCE_S) == 0


def test_events_follow(running: Fleet) -> None:
    after = running.client.status()["seq"]
    with follow(running, "events", "-f", "--json", "--after", str(after)) as following:
        assert following.stdout is not None
        job = running.script("true")
        seen = [json.loads(following.stdout.readline())]
        while (seen[-1]["event"]["kind"], seen[-1]["event"].get("job")) != ("job.done", job):
            seen.append(json.loads(following.stdout.readline()))
        following.terminate()
    assert "job.submitted" in [entry["event"]["kind"] for entry in seen if entry["event"].get("job") == job]
    assert [entry["seq"] for entry in seen] == list(range(after + 1, after + 1 + len(seen)))


def test_a_sweep_from_start_to_proof(running: Fleet, hostler: Hostler) -> None:
    worker = f"{sys.executable} {WORKER}"
    words = ("sweep", "submit", "planted", "--range", "0:2**12", "--worker", worker, "--param", "planted=[0, 7, 4095]")
    job = hostler(running, *words, "--own-dir", "--target-s", "0.5").out.strip()
    running.state_of(job, "done")
    assert hostler(running, *words, "--own-dir", "--target-s", "0.5").out.strip() == job, "its name is its key"
    assert sorted(hit["at"] for hit in hostler(running, "sweep", "hits", "planted", "--json").json) == [0, 7, 4095]
    assert hostler(running, "sweep", "ledger", job, "--json").json["done"] == [[0, 4096]]
    said = hostler(running, "sweep", "verify", job)
    assert (said.status, "complete" in said.out) == (0, True)
    assert hostler(running, "logs", job).status == 2, "a sweep writes nothing"


def test_a_sweep_under_way_is_no_contradiction(running: Fleet, hostler: Hostler) -> None:
    worker = f"{sys.executable} {WORKER}"
    words = ("--range", "0:1e9", "--worker", worker, "--own-dir", "--param", "planted=[]", "--param", "pause_s=0.00001")
    job = hostler(running, "sweep", "submit", "long", *words).out.strip()
    until(lambda: running.client.sweep(job)["done"] > 0, "its first chunk")
    said = hostler(running, "sweep", "verify", job)
    assert (said.status, "not complete" in said.out, "FAULT" in said.out) == (0, True, False)
    assert "out" in hostler(running, "explain", job).out
    assert hostler(running, "cancel", job).status == 0
    running.state_of(job, "cancelled")


@pytest.mark.parametrize("words", ["status", "jobs", "queue", "node list", "jobs --state done", "jobs --limit 1"])
def test_every_listing_is_one_json_document(running: Fleet, hostler: Hostler, words: str) -> None:
    running.over(running.script("true", name="\x1b[31m\n\u202e"))
    said = hostler(running, *words.split(), "--json")
    assert (said.status, said.err) == (0, "")
    assert said.json is not None
    assert said.out.isascii()


@pytest.mark.parametrize("words", ["job show", "explain"])
def test_every_view_of_a_job_is_one_json_document(running: Fleet, hostler: Hostler, words: str) -> None:
    job = running.script("true")
    assert hostler(running, *words.split(), job, "--json").json
