"""A script of one's own on a cluster: it starts from the files of its submission, and its output keeps its order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from tests.integration.conftest import Fleet, command, has_ended, until

TRAIN = """
data = open("data.txt").read()
print("trained on", data)
open("model.pt", "w").write("model of " + data)
"""
LINES = 200
ALTERNATING = f"""
import os, sys, time
for number in range({LINES}):
    os.write(1 + number % 2, b"line %d\\n" % number)
    if number == {LINES // 2}:
        open(sys.argv[1], "w").close()
    time.sleep(0.1)
"""
SEARCH = """
import hashlib, json, os, sys, time
from helper import text
say = lambda message: print(json.dumps(message), flush=True)
params = json.loads(sys.stdin.readline())["params"]
digest = hashlib.sha256(json.dumps(params, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
say({"type": "opened", "digest": digest})
for line in sys.stdin:
    chunk = json.loads(line)
    start, stop = chunk["start"], chunk["stop"]
    time.sleep(params.get("pause_s", 0) * (stop - start))
    hits = [{"at": at, "text": text(), "cwd": os.getcwd()} for at in range(start, stop)]
    say({"type": "done", "id": chunk["id"], "digest": digest, "start": start, "stop": stop, "hits": hits})
"""
HELPER = "def text(): return open('data.txt').read() + '{}'\n"


def check_files(fleet: Fleet, folder: Path, gate: Path, python: str, *words: str) -> None:
    """Submit a job behind another, edit its script, delete its data: it runs with what it was submitted with.

    `gate` is a file that the job before it waits for, where its node sees it; `words` are options of `submit`.
    """
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text(TRAIN)
    (project / "data.txt").write_text("old text")
    before = fleet.script("sh", "-c", f"while [ ! -e '{gate}' ]; do sleep 0.1; done", resources={"device": "any"})
    fleet.state_of(before, "running")
    said = _typed(fleet, project, "submit", *words, "--", python, "train.py")
    (project / "train.py").write_text("raise SystemExit('edited')")
    (project / "data.txt").unlink()
    gate.touch()
    job = said.strip()
    assert fleet.over(job)["job"]["state"] == "done", fleet.log()
    assert fleet.client.log(f"{job}.1").data.decode() == "trained on old text\n"
    fetched = folder / "fetched"
    _typed(fleet, folder, "fetch", job, str(fetched))
    assert (fetched / "model.pt").read_text() == "model of old text"


def check_order(fleet: Fleet, folder: Path, python: str, *words: str, agent_killed: bool = False) -> None:
    """Both streams of a script, which writes to them in turn, are printed in the order of its lines; also where its
    agent is killed at half of them."""
    (folder / "lines").mkdir()
    (folder / "lines" / "lines.py").write_text(ALTERNATING)
    half = folder / "half"
    job = _typed(fleet, folder / "lines", "submit", *words, "--", python, "lines.py", str(half)).strip()
    if agent_killed:
        until(half.exists, "half of the lines", log=fleet.log)
        _kill_agent_of(fleet.pid(job))
    assert fleet.over(job)["job"]["state"] == "done", fleet.log()
    logs = [sys.executable, "-m", "hostler", "logs", job, "--state-dir", str(fleet.state)]
    told = subprocess.run(logs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
    *lines, outcome = told.splitlines()
    assert lines == [f"line {number}" for number in range(LINES)]
    assert outcome.startswith(f"{job} done in ")


def _kill_agent_of(pid: int) -> None:
    """Kill the supervisor whose child a process is; its keeper starts the next one, which adopts the process."""
    agent = psutil.Process(pid).parent()
    assert agent is not None
    keeper = agent.parent()
    assert keeper is not None
    assert agent.cmdline() == keeper.cmdline(), "an agent is its keeper's copy"
    agent.kill()
    until(lambda: has_ended(agent), "the end of the agent")


def search_in(folder: Path) -> Path:
    """A project with a worker of two files, and its data."""
    project = folder / "project"
    project.mkdir()
    (project / "search.py").write_text(SEARCH)
    (project / "helper.py").write_text(HELPER.format(", old code"))
    (project / "data.txt").write_text("old text")
    return project


def edit_search(project: Path) -> None:
    """Change the files of such a project."""
    (project / "helper.py").write_text(HELPER.format(", new code"))
    (project / "search.py").write_text("raise SystemExit('edited')")
    (project / "data.txt").unlink()


def check_search(fleet: Fleet, folder: Path, gate: Path, python: str) -> None:
    """The same of a sweep: its worker is edited, its data deleted."""
    project = search_in(folder)
    before = fleet.script("sh", "-c", f"while [ ! -e '{gate}' ]; do sleep 0.1; done", resources={"device": "any"})
    fleet.state_of(before, "running")
    job = _typed(
        fleet, project, "sweep", "submit", "search", "--range", "0:20", "--worker", f"{python} search.py"
    ).strip()
    edit_search(project)
    gate.touch()
    assert fleet.over(job)["job"]["state"] == "done", fleet.log()
    hits = list(fleet.client.hits(job))
    assert sorted(hit["at"] for hit in hits) == list(range(20))
    assert {hit["data"]["text"] for hit in hits} == {"old text, old code"}


def _typed(fleet: Fleet, folder: Path, *words: str) -> str:
    said = command(*words, cwd=folder, env={**os.environ, "HOSTLER_STATE_DIR": str(fleet.state)})
    assert said.status == 0, said.err
    return said.out
