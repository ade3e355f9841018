"""`hostler slurm smoke` on a real Slurm: each kind of work goes through, and nothing is left, however it ends."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from hostler.backends.slurm import visiting
from tests.patience import PATIENCE_S
from tests.slurm.daemons import until
from tests.slurm.fleets import a_cluster_fleet, when
from tests.slurm.lab import Lab
from tests.slurm.visits import WITHIN_S, Site, before_first_question, command


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


def test_what_does_not_begin_is_cancelled(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    site.write(slurm={"extra": ["--begin=now+1hour"]})
    before_first_question(monkeypatch, lambda job: until(lambda: site.waits(job), "its reason", PATIENCE_S))
    said = site.hostler_here(monkeypatch, capfd, "smoke", "--wait", "1", "--json")
    (row,) = said.json
    assert (said.status, row["result"], row["waited_s"]) == (1, "waited", None)
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
    # The tiny jobs of the second last long because of the first line of their scripts.
    site.write(
        {"name": "cpu-eval", "work": ["evaluation", "selfplay", "export"]},
        cluster={"setup": [] if waiting else ["sleep 600"]},
        slurm={"extra": ["--begin=now+1hour"]} if waiting else None,
    )
    words = site.command("smoke")
    process = subprocess.Popen(
        words, env=site.lab.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
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
    site.write(slurm={"extra": ["--begin=now+1hour"]})  # a late signal meets the command, too
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
        gate = fleet.shared / "gate"
        argv = list(fleet.noting(f"while [ ! -e {gate} ]; do sleep 0.1; done"))
        job = {"name": "long", "argv": argv, "resources": {"device": "cpu"}}
        fleet.settle_more(jobs=[job])
        fleet.launch("--until-idle")
        when(lambda: fleet.ran() == ["begun"], "it runs", fleet)
        done = slurm.run(*command("smoke", fleet.file, "--json"), within_s=WITHIN_S)
        assert {row["result"] for row in json.loads(done.stdout)} == {"ok"}, done.stderr
        gate.touch()
        assert fleet.ended() == 0, fleet.log()
        assert fleet.ran() == ["begun", "ended"]


def test_a_cluster_that_goes_away_meanwhile(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(visiting, "LEAVES_S", 1.0)
    site.write(slurm={"extra": ["--begin=now+1hour"]})
    jobs: list[str] = []

    def go_away(job: str) -> None:
        jobs.append(job)
        site.lab.slurmctld.stop()

    before_first_question(monkeypatch, go_away)
    said = site.hostler_here(monkeypatch, capfd, "smoke", "--wait", "1")
    assert (said.status, "0 of 1 job went through" in said.out) == (1, True)
    (job,) = jobs
    assert f"scancel {job}" in said.err
