"""A script of one's own on a cluster: it starts from the files of its submission, and its output keeps its order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.integration.conftest import Fleet, command

TRAIN = """
data = open("data.txt").read()
print("trained on", data)
open("model.pt", "w").write("model of " + data)
"""
LINES = 200
ALTERNATING = f"""
import os, time
for number in range({LINES}):
    os.write(1 + number % 2, b"line %d\\n" % number)
    time.sleep(0.1)
"""


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


def check_order(fleet: Fleet, folder: Path, python: str, *words: str) -> None:
    """Both streams of a script, which writes to them in turn, are printed in the order of its lines."""
    (folder / "lines").mkdir()
    (folder / "lines" / "lines.py").write_text(ALTERNATING)
    job = _typed(fleet, folder / "lines", "submit", *words, "--", python, "lines.py").strip()
    assert fleet.over(job)["job"]["state"] == "done", fleet.log()
    logs = [sys.executable, "-m", "hostler", "logs", job, "--state-dir", str(fleet.state)]
    told = subprocess.run(logs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
    *lines, outcome = told.splitlines()
    assert lines == [f"line {number}" for number in range(LINES)]
    assert outcome.startswith(f"{job} done in ")


def _typed(fleet: Fleet, folder: Path, *words: str) -> str:
    said = command(*words, cwd=folder, env={**os.environ, "HOSTLER_STATE_DIR": str(fleet.state)})
    assert said.status == 0, said.err
    return said.out
