"""`hostler slurm smoke` on a real Slurm: each kind of work goes through, and nothing is left, however it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hostler.backends.slurm import visiting
from hostler.cli.main import run
from tests.slurm.daemons import until
from tests.slurm.fleets import a_cluster_fleet, when
from tests.slurm.lab import Lab
from tests.slurm.visits import WITHIN_S, Site

PATIENCE_S = 60.0


@pytest.fixture
def site(tmp_path: Path, slurm: Lab) -> Site:
    return Site(tmp_path, slurm)


def test_each_kind_of_work_goes_through(site: Site) -> None:
    site.write({"name": "gpu-train", "work": ["training", "selfplay"]}, {"name": "cpu-eval", "work": ["sweep"]})
    done = site.hostler("smoke", "--json")
    rows = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert [(row["node"], row["work"]) for row in rows] == [
        ("gpu-train", "training"),
        ("gpu-train", "selfplay"),
        ("cpu-eval", "sweep"),
    ]
    assert {row["result"] for row in rows} == {"ok"}
    assert all(row["job"] and row["waited_s"] > 0 and row["ran_s"] > 0 for row in rows)
    assert "1 × h100, 8 cores" in rows[0]["wants"], "what training asks for"
    assert "00:05:00" in rows[0]["wants"], "but for its time"
    assert site.is_clear()


def test_people_get_a_table_that_fits(site: Site) -> None:
    done = site.hostler("smoke", "--at-a-time", "1")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[0].split() == ["PARTITION", "KIND", "JOB", "WAITED", "RAN", "RESULT", "SAYS"]
    assert done.stdout.splitlines()[-1] == "1 of 1 job went through"
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_what_does_not_begin_is_cancelled(site: Site) -> None:
    site.write(slurm={"extra": ["--begin=now+1hour"]})
    done = site.hostler("smoke", "--wait", "2", "--json")
    (row,) = json.loads(done.stdout)
    assert (done.returncode, row["result"], row["waited_s"]) == (1, "waited", None)
    assert "BeginTime" in row["says"]
    assert site.is_clear()


def test_what_cannot_be_is_a_row_as_well(site: Site) -> None:
    site.write({"name": "a", "partition": "nope", "work": ["script"]}, {"name": "cpu-eval", "work": ["script"]})
    done = site.hostler("smoke")
    assert done.returncode == 1
    assert "1 of 2 jobs went through" in done.stdout
    assert "has no partition 'nope'" in " ".join(done.stdout.split())


@pytest.mark.parametrize(("number", "waiting"), [(signal.SIGINT, True), (signal.SIGTERM, False)])
def test_nothing_is_left_after_a_signal(site: Site, number: signal.Signals, waiting: bool) -> None:
    # The tiny jobs of the second are slow because of the first line of their scripts.
    site.write(
        {"name": "cpu-eval", "work": ["evaluation", "selfplay", "export"]},
        cluster={"setup": [] if waiting else ["sleep 60"]},
        slurm={"extra": ["--begin=now+1hour"]} if waiting else None,
    )
    command = site.command("smoke")
    process = subprocess.Popen(
        command, env=site.lab.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    state = "PENDING" if waiting else "RUNNING"
    try:
        until(lambda: site.lab.said("squeue", "-h", "-o", "%T").split().count(state) == 3, "three jobs", PATIENCE_S)
        process.send_signal(number)
        out, err = process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (130, "", "")
    assert site.is_clear()


def test_a_signal_that_comes_at_once(site: Site) -> None:
    process = subprocess.Popen(site.command("smoke"), env=site.lab.env, stdout=subprocess.PIPE, start_new_session=True)
    try:
        until(lambda: (site.shared / ".hostler").exists(), "it has begun", PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=WITHIN_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert not site.lab.said("squeue", "-h", "-a")


def test_a_controller_that_runs_is_not_disturbed(tmp_path: Path, slurm: Lab) -> None:
    with a_cluster_fleet(tmp_path, slurm, partitions=("cpu-eval",)) as fleet:
        job = {"name": "long", "argv": list(fleet.noting("sleep 15")), "resources": {"device": "cpu"}}
        fleet.settle_more(jobs=[job])
        fleet.launch("--until-idle")
        when(lambda: fleet.ran() == ["begun"], "it runs", fleet)
        command = (sys.executable, "-m", "hostler", "slurm", "smoke", str(fleet.file), "--json")
        done = slurm.run(*command, within_s=WITHIN_S)
        assert {row["result"] for row in json.loads(done.stdout)} == {"ok"}, done.stderr
        assert fleet.controller is not None
        assert fleet.controller.wait(WITHIN_S) == 0, fleet.log()
        assert fleet.ran() == ["begun", "ended"]


def test_a_cluster_that_goes_away_meanwhile(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(visiting, "LEAVES_S", 1.0)
    for name, value in site.lab.env.items():
        monkeypatch.setenv(name, value)
    site.write(slurm={"extra": ["--begin=now+1hour"]})
    jobs: list[str] = []

    def go_away() -> None:
        until(lambda: site.lab.said("squeue", "-h", "-o", "%A"), "it waits", PATIENCE_S)
        jobs.extend(site.lab.said("squeue", "-h", "-o", "%A").split())
        site.lab.slurmctld.stop()

    going = threading.Thread(target=go_away)
    going.start()
    status = run(["slurm", "smoke", str(site.file), "--wait", "4"])
    going.join()
    out, err = capfd.readouterr()
    assert (status, "0 of 1 job went through" in out) == (1, True)
    assert f"scancel {jobs[0]}" in err
