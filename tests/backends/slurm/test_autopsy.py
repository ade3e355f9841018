"""What is made of tiny jobs: of those that told something, and of what the others have left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.agent.protocol import VERSION
from hostler.backends.slurm import autopsy
from hostler.backends.slurm.parsing import JobRecord
from hostler.backends.slurm.script import Site
from hostler.backends.slurm.states import read_state
from hostler.backends.slurm.tiny import Told
from hostler.backends.slurm.visiting import Tried
from hostler.model.inputs import Ended

ROOT = "/shared/.hostler/check-0"
TRIED = Tried(attempt="a", slot="cuda0", job="7", token="t", asked_at=1000.0)
BEGUN = replace(TRIED, began_at=1010.0, ended_at=1012.0)
TOLD = Told(
    host="gpu-1",
    machine="x86_64",
    python="3.11.7",
    executable="/usr/bin/python3",
    now=1011.0,
    gpus="0",
    read="a",
    unread=None,
    unwritten=None,
    agent=VERSION,
)
SITE = Site(folder="/shared")


def job(state: str, status: int | None = None, reason: str | None = None, nodes: str | None = "gpu-1") -> JobRecord:
    return JobRecord(job="7", state=read_state(state), status=status, reason=reason, nodes=nodes)


@pytest.mark.parametrize(
    ("reason", "health", "word"),
    [
        ("Resources", "warning", "--wait"),
        ("Priority", "warning", "--wait"),
        ("PartitionTimeLimit", "error", "lowered since"),
        ("QOSNotAllowed", "error", "`qos`"),
        (None, "warning", "--wait"),
    ],
)
def test_a_job_that_waits_tells_why(reason: str | None, health: str, word: str) -> None:
    found = autopsy.waits("p", replace(TRIED, record=job("PENDING", reason=reason, nodes=None)), 60.0)
    assert (found.what, found.health) == ("job", health)
    assert word in found.fix
    assert f"PENDING ({reason})" in found.says or reason is None
    assert "the shared folder, Python, the clock and the GPUs there were not looked at" in found.says


def test_a_job_that_runs_and_is_not_heard_of_has_another_folder() -> None:
    found = autopsy.waits("p", replace(TRIED, record=job("RUNNING")), 60.0)
    assert (found.what, found.health) == ("shared", "error")


def test_a_job_of_which_nothing_is_known() -> None:
    assert "nothing is known of it" in autopsy.waits("p", TRIED, 60.0).says


@pytest.mark.parametrize(
    ("record", "said", "what", "word"),
    [
        (job("FAILED", 78), "hostler: h: there is no apptainer on PATH", "job", "container_runtime"),
        (job("FAILED", 78), "hostler: h: is a aarch64, and neither slurm.venv_activate_arm64 nor ...", "job", "images"),
        (job("FAILED", 127), "line 9: python9: command not found", "python", "`python`"),
        (job("FAILED", 2), "python3: can't open file '/shared/agent-1.pyz': [Errno 2]", "shared", "same file system"),
        (job("FAILED", 2), "hostler berth: cannot use the folder /x: is the shared ...", "shared", "same file system"),
        (job("FAILED", 1), "hostler: line 8 of the batch script has failed: module load x", "setup", "`setup`"),
        (job("FAILED", 9), "Segmentation fault", "job", "`setup`"),
        (job("COMPLETED", 0), "", "shared", "same file system"),
        (job("FAILED", 1), None, "shared", "same file system"),
        (None, None, "shared", "same file system"),
    ],
)
def test_a_job_that_told_nothing(record: JobRecord | None, said: str | None, what: str, word: str) -> None:
    found = autopsy.failed("p", TRIED, record, said, ROOT)
    assert (found.what, found.health) == (what, "error")
    assert word in found.fix


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED", "CANCELLED by 0", "BOOT_FAIL"])
def test_what_the_cluster_took_away_is_nobodys_fault(state: str) -> None:
    found = autopsy.failed("p", TRIED, job(state), None, ROOT)
    assert (found.health, found.fix) == ("warning", "run this again")


def test_words_of_others_are_made_harmless() -> None:
    found = autopsy.failed("p", TRIED, job("FAILED", 9), "\x1b[2J" + "x" * 1000, ROOT)
    assert found.says.isprintable()
    assert len(found.says) < 400


def test_an_agent_that_came_up_and_a_program_that_did_not() -> None:
    ended = Ended(attempt="a", ended_at=1.0, exit_code=1, evidence="no module named json")
    assert "status 1 (no module named json)" in autopsy.cut_short("p", replace(BEGUN, end=ended)).says
    assert "heard nothing" in autopsy.cut_short("p", replace(BEGUN, late="it was heard nothing of")).says


def test_a_node_that_is_well() -> None:
    found = {each.what: each for each in autopsy.told_findings("p", BEGUN, TOLD, SITE, on_gpu=True)}
    assert {each.health for each in found.values()} == {"ok"}
    assert found["job"].says == "job 7 on gpu-1, began after 10 s"
    assert found["gpu"].says == "the job was given GPU 0"


def test_a_job_that_is_not_told_its_gpu() -> None:
    found = list(autopsy.told_findings("p", BEGUN, replace(TOLD, gpus=None), SITE, on_gpu=True))
    assert [each.health for each in found if each.what == "gpu"] == ["error"]
    found = list(autopsy.told_findings("p", BEGUN, replace(TOLD, gpus=None), SITE, on_gpu=False))
    assert "gpu" not in {each.what for each in found}


@pytest.mark.parametrize(
    ("now", "says"),
    [(1011.0, "within 5 s"), (1016.0, "within 5 s"), (1100.0, "88 s ahead of"), (900.0, "105 s behind")],
)
def test_its_clock(now: float, says: str) -> None:
    found = {each.what: each for each in autopsy.told_findings("p", BEGUN, replace(TOLD, now=now), SITE, on_gpu=True)}
    assert says in found["clock"].says
    assert (found["clock"].health == "ok") == ("within" in says)


def test_where_its_agent_runs() -> None:
    site = replace(SITE, runtime="apptainer", image="/i.sif", venv_arm64="/v/bin/activate")
    for machine, where in (("x86_64", "in apptainer"), ("aarch64", "in its virtual environment")):
        found = autopsy.told_findings("p", BEGUN, replace(TOLD, machine=machine), site, on_gpu=True)
        assert where in next(each.says for each in found if each.what == "agent")


def test_an_agent_of_another_version() -> None:
    found = autopsy.told_findings("p", BEGUN, replace(TOLD, agent="fails: x"), SITE, on_gpu=True)
    assert [each.health for each in found if each.what == "agent"] == ["warning"]


@pytest.mark.parametrize(
    ("told", "came_back", "health", "word"),
    [
        (TOLD, True, "ok", "both sides"),
        (replace(TOLD, read="b"), True, "error", "another one is there"),
        (replace(TOLD, read=None, unread="[Errno 2]"), True, "error", "[Errno 2]"),
        (replace(TOLD, unwritten="Read-only file system"), False, "error", "Read-only"),
        (TOLD, False, "error", "does not come to be seen"),
    ],
)
def test_the_shared_folder(told: Told, came_back: bool, health: str, word: str) -> None:
    found = autopsy.shared("p", told, "a", came_back, ROOT)
    assert found.health == health
    assert word in found.says
