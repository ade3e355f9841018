"""`hostler slurm check` on a real Slurm: one that is well, and ways in which one is not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.backends.ssh import sshd
from tests.patience import PATIENCE_S
from tests.slurm.daemons import until
from tests.slurm.lab import Lab
from tests.slurm.visits import Site, before_first_question, findings

CPU = ("cpu-eval", "job")
BOTH: list[dict[str, Any]] = [{"name": "gpu-train"}, {"name": "evals", "partition": "cpu-eval", "work": ["evaluation"]}]


@pytest.fixture
def site(tmp_path: Path, slurm: Lab) -> Site:
    return Site(tmp_path, slurm)


def test_a_cluster_that_is_well(site: Site) -> None:
    site.write(*BOTH)
    found = site.found()
    assert {each["health"] for each in found.values()} == {"ok", "note"}
    assert found["this machine", "accounting"]["health"] == "note", "this lab has none"
    for node in ("gpu-train", "evals"):
        assert {"partition", "hosts", "slots", "submission", "job", "agent", "clock", "shared"} <= {
            what for whose, what in found if whose == node
        }
    assert found["gpu-train", "slots"]["says"] == "4 × h100"
    assert found["gpu-train", "gpu"]["says"] == "the job was given GPU 0"
    assert ("evals", "gpu") not in found
    assert site.is_clear()


def test_people_get_a_table_that_fits(site: Site) -> None:
    done = site.hostler("check")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("NODE")
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_one_partition_alone(site: Site) -> None:
    site.write(*BOTH)
    assert {node for node, _ in site.found("--node", "evals")} == {"this machine", "evals"}
    done = site.hostler("check", "--node", "gpu-tarin")
    assert (done.returncode, "it has gpu-train, evals" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("node", "what", "says", "fix"),
    [
        ({"partition": "nope"}, "partition", "there is no 'nope'", "cpu-eval"),
        ({"partition": "closed"}, "partition", "closed is DOWN", "scontrol show partition closed"),
        ({"slurm": {"constraint": "nope"}}, "submission", "Invalid feature", "slurm.constraint"),
        ({"slurm": {"reservation": "nope"}}, "submission", "reservation is invalid", "slurm.reservation"),
        ({"slurm": {"gpu_type": "a10"}}, "slots", "no GPU of type 'a10'", "gpu_type"),
        (
            {"slurm": {"resources": {"evaluation": {"cpus_least": 40, "cpus_most": 40}}}},
            "slots",
            "has 32",
            "cpus_least",
        ),
        ({"slurm": {"extra": ["--nodelist=gpu-a1"]}}, "submission", "not available", "slurm.extra"),
        ({"python": "/no/python"}, "python", "no Python runs on cpu-", "`python`"),
        ({"setup": ["module load nothing"]}, "setup", "module load nothing", "`setup`"),
        ({"slurm": {"venv_activate": "/no/bin/activate"}}, "job", "there is no /no/bin/activate", "venv_activate"),
    ],
)
def test_what_is_wrong_is_named_with_what_to_do(
    site: Site, node: dict[str, Any], what: str, says: str, fix: str
) -> None:
    site.write({"name": "cpu-eval", "work": ["evaluation"], **node})
    finding = site.found()["cpu-eval", what]
    assert finding["health"] == "error"
    assert says in finding["says"]
    assert fix in finding["fix"]
    assert site.is_clear()


def test_account_and_quality_of_service(tmp_path: Path, slurm_accounted: Lab) -> None:
    site = Site(tmp_path, slurm_accounted)
    assert site.found()["this machine", "accounting"]["health"] == "ok"
    for setting in ("account", "qos"):
        site.write(slurm={setting: "nope"})
        assert f"slurm.{setting}" in site.found()["cpu-eval", "submission"]["fix"]
    slurm_accounted.run("sacctmgr", "-i", "modify", "account", "research", "set", "MaxSubmitJobs=5", check=True)
    try:
        site.write(slurm={"account": "research"})
        assert "slurm.max_jobs: 5" in site.found()["cpu-eval", "limits"]["fix"]
    finally:
        slurm_accounted.run("sacctmgr", "-i", "modify", "account", "research", "set", "MaxSubmitJobs=-1", check=True)


def test_a_limit_that_no_job_can_keep(tmp_path: Path, slurm_accounted: Lab) -> None:
    site = Site(tmp_path, slurm_accounted)
    site.write(slurm={"account": "research", "qos": "scavenger"})
    with slurm_accounted.limited("scavenger", "MaxWall=00:10:00"):
        finding = site.found()["cpu-eval", "submission"]
        assert (finding["health"], "QOSMaxWallDurationPerJobLimit" in finding["says"]) == ("error", True)
        assert "slurm.resources.evaluation.most_s" in finding["fix"]
        site.write(slurm={"account": "research", "qos": "scavenger", "mode": "pilot", "pilot_s": 3600})
        assert "`slurm.pilot_s`" in site.found()["cpu-eval", "submission"]["fix"]
    with slurm_accounted.limited("scavenger", "MaxTRESPerJob=cpu=2"):
        finding = site.found()["cpu-eval", "submission"]
        assert (finding["health"], "slurm.resources.evaluation.cpus_least" in finding["fix"]) == ("error", True)


def test_a_job_that_never_begins_is_cancelled(
    site: Site, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    site.write(slurm={"extra": ["--begin=now+1hour"]})
    before_first_question(monkeypatch, lambda job: until(lambda: site.waits(job), "its reason", PATIENCE_S))
    finding = findings(site.hostler_here(monkeypatch, capfd, "check", "--wait", "1", "--json"))[CPU]
    assert finding["health"] == "warning"
    assert "PENDING (BeginTime)" in finding["says"]
    assert "were not looked at" in finding["says"]
    assert site.is_clear()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can have a job see another folder than we do")
@pytest.mark.parametrize("is_empty", [True, False])
def test_a_folder_that_is_another_one_on_the_node(site: Site, tmp_path: Path, is_empty: bool) -> None:
    other = tmp_path / "other"
    other.mkdir()
    copies = "" if is_empty else f"cp -r {site.shared}/.hostler {other}/; "
    hide = f"{copies}mount --bind {other} {site.shared}; "
    exec_elsewhere = f'exec() {{ builtin exec unshare -m bash -c \'{hide}exec "$@"\' sh "$@"; }}'
    site.write(cluster={"setup": [exec_elsewhere]})
    finding = site.found()["cpu-eval", "shared"]
    assert finding["health"] == "error"
    assert "mount the same file system" in finding["fix"]
    assert site.is_clear()


def test_a_folder_that_nobody_may_write_to(site: Site) -> None:
    site.write(slurm={"shared_root": "/proc/nope"})
    (finding,) = site.found().values()
    assert (finding["node"], finding["health"]) == ("this machine", "error")
    assert "slurm.shared_root" in finding["fix"]


def test_a_controller_that_is_down(site: Site) -> None:
    site.lab.slurmctld.stop()
    found = site.found()
    assert found["this machine", "slurmctld"]["health"] == "error"
    assert "systemctl status slurmctld" in found["this machine", "slurmctld"]["fix"]
    assert {node for node, _ in found} == {"this machine"}


def test_hosts_that_are_down(site: Site) -> None:
    site.lab.node_down("cpu-1", why="its fan")
    found = site.found()
    assert found["cpu-eval", "hosts"]["health"] == "warning"
    assert "cpu-1 down (its fan)" in found["cpu-eval", "hosts"]["says"]
    assert found[CPU]["says"].startswith("job ")


def test_no_commands(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(site.lab.env, "PATH", "/nowhere")
    found = site.found()
    assert "sbatch" in found["this machine", "commands"]["says"]
    assert "login node in `host`" in found["this machine", "commands"]["fix"]


@pytest.mark.skipif(sshd.MISSING is not None, reason=sshd.MISSING or "")
def test_a_cluster_behind_its_login_node(site: Site, tmp_path: Path) -> None:
    session = f"SetEnv SLURM_CONF={site.lab.env['SLURM_CONF']} PATH={site.lab.env['PATH']}"
    with sshd.running(tmp_path / "login", session) as server:
        way = {"host": "127.0.0.1", "port": server.port, "identity": str(server.folder / "client"), "via": []}
        node = {"name": "cpu-eval", "work": ["evaluation"], **way}
        site.write(node, ssh={"config": [], "known_hosts": [str(server.known_hosts)]})
        found = site.found()
        assert {each["health"] for each in found.values()} == {"ok", "note"}
        assert ("127.0.0.1", "clock") in found
        assert site.is_clear()
        site.write(node, ssh={"config": []})
        (stranger,) = site.found().values()
        assert "hostler node trust" in stranger["fix"]
