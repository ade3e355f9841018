"""What real clusters do seldom, to work that is under way: arrays that fail in part, and a slurmctld that forgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostler.backends.slurm.verdicts import UNEXPLAINED_S
from tests.patience import PATIENCE_S
from tests.slurm.fleets import ClusterFleet, a_cluster_fleet, when
from tests.slurm.lab import Lab, available

LACKING = available()
LONG_S = UNEXPLAINED_S + 2 * PATIENCE_S
"""Nobody tells of a job that slurmctld does not know: for so long it might still say something itself."""
GPU = {"resources": {"device": "gpu"}}


def test_tasks_of_an_array_fail_alone(tmp_path: Path, slurm_accounted: Lab) -> None:
    with a_cluster_fleet(tmp_path, slurm_accounted, slurm={"mode": "array"}) as fleet:
        fleet.start()
        fails = {**a_script(*fleet.noting("exit 7", name="bad")), "retry": {"max_attempts": {"exit": 2}}}
        specs = [*(a_script(*fleet.noting(name=f"fine{at}")) for at in range(3)), fails]
        *fine, bad = fleet.client.submit_jobs(specs)
        assert [fleet.over(job)["job"]["state"] for job in fine] == ["done"] * 3
        found = fleet.over(bad)["job"]
        assert (found["state"], found["failure"], found["attempts"]) == ("failed", "exit", 2)
        assert "7" in found["why"]
        assert [fleet.ran(f"fine{at}") for at in range(3)] == [["begun", "ended"]] * 3
        assert max(len(event["tasks"]) for event in fleet.story("batch.requested")) > 1, "they went together"
        when(lambda: not fleet.slurm_jobs(), "an empty queue", fleet)


def test_what_a_qos_never_allows_fails_with_the_setting(tmp_path: Path, slurm_accounted: Lab) -> None:
    scavenger = {"account": "research", "qos": "scavenger"}
    with (
        slurm_accounted.limited("scavenger", "MaxWall=00:10:00"),
        a_cluster_fleet(tmp_path, slurm_accounted, partitions=("gpu-train",), slurm=scavenger) as fleet,
    ):
        fleet.start()
        found = fleet.over(fleet.script(*fleet.noting(), retry={"max_attempts": {"spawn": 1}}, **GPU))["job"]
        assert found["state"] == "failed"
        assert "QOSMaxWallDurationPerJobLimit" in found["why"]
        assert "`most_s`" in found["why"]
        assert "`slurm.resources`" in found["why"]


def test_an_array_beyond_the_limit_of_submitted_jobs_runs_in_parts(tmp_path: Path, slurm_accounted: Lab) -> None:
    few = {"account": "research", "qos": "scavenger", "mode": "array"}
    with (
        slurm_accounted.limited("scavenger", "MaxSubmitJobsPerUser=2"),
        a_cluster_fleet(tmp_path, slurm_accounted, partitions=("gpu-train",), slurm=few) as fleet,
    ):
        fleet.start()
        go = fleet.shared / "go"
        waits = f"while [ ! -e {go} ]; do sleep 0.1; done"
        jobs = [fleet.script(*fleet.noting(waits, name=f"n{at}"), **GPU) for at in range(4)]
        says = when(lambda: _refusal(fleet), "what sbatch says", fleet)
        assert "`slurm.max_pending`" in says
        when(lambda: _begun(fleet) == 2, "two of them to begin", fleet)
        go.touch()
        assert [fleet.over_within(job, 2 * PATIENCE_S)["job"]["state"] for job in jobs] == ["done"] * 4
        assert [fleet.ran(f"n{at}") for at in range(4)] == [["begun", "ended"]] * 4


@pytest.mark.slurm
@pytest.mark.skipif(LACKING is not None, reason=LACKING or "")
def test_arrays_on_a_cluster_that_allows_only_small_ones(tmp_path: Path) -> None:
    with (
        Lab.running(extra="\nMaxArraySize=3\n") as lab,
        a_cluster_fleet(tmp_path, lab, partitions=("gpu-train",), slurm={"mode": "array"}) as fleet,
    ):
        fleet.start()
        jobs = fleet.client.submit_jobs([a_script(*fleet.noting(name=f"n{at}")) for at in range(4)])
        assert [fleet.over(job)["job"]["attempts"] for job in jobs] == [1] * 4
        assert [fleet.ran(f"n{at}") for at in range(4)] == [["begun", "ended"]] * 4
        assert sorted(len(event["tasks"]) for event in fleet.story("batch.requested")) == [1, 3]


@pytest.mark.parametrize(
    ("promise", "why"), [({"require_result": True}, "HOSTLER_RESULT"), ({"outputs": ["model.bin"]}, "model.bin")]
)
def test_what_ends_well_without_what_it_promised_has_failed(
    tmp_path: Path, slurm_accounted: Lab, promise: dict[str, object], why: str
) -> None:
    with a_cluster_fleet(tmp_path, slurm_accounted, partitions=("gpu-train",)) as fleet:
        fleet.start()
        found = fleet.over(fleet.script(*fleet.noting(), retry={"max_attempts": {"result": 1}}, **promise, **GPU))[
            "job"
        ]
        assert fleet.ran() == ["begun", "ended"]
        (event,) = fleet.story("batch.submitted")
        slurm = event["as_job"]
        when(lambda: slurm_accounted.state(slurm) == "COMPLETED", "Slurm to be content", fleet)
        assert found["state"] == "failed"
        assert why in found["why"]


def test_no_more_tasks_of_an_array_run_at_a_time_than_its_limit(tmp_path: Path, slurm_accounted: Lab) -> None:
    limited = {"mode": "array", "array_limit": 2}
    with a_cluster_fleet(tmp_path, slurm_accounted, partitions=("gpu-train",), slurm=limited) as fleet:
        fleet.start()
        go = fleet.shared / "go"
        waits = f"while [ ! -e {go} ]; do sleep 0.1; done"
        jobs = fleet.client.submit_jobs([a_script(*fleet.noting(waits, name=f"n{at}")) for at in range(4)])
        when(lambda: _waits_for_limit(slurm_accounted), "tasks that wait for the limit alone", fleet)
        when(lambda: _begun(fleet) == 2, "two of them to begin", fleet)
        go.touch()
        assert [fleet.over(job)["job"]["state"] for job in jobs] == ["done"] * 4
        (event,) = fleet.story("batch.requested")
        assert len(event["tasks"]) == 4


def a_script(*argv: str) -> dict[str, object]:
    """One of several that are submitted together."""
    return {"name": "script", **GPU, "payload": {"kind": "script", "schema": 1, "argv": list(argv)}}


def _begun(fleet: ClusterFleet) -> int:
    return sum(bool(fleet.ran(f"n{at}")) for at in range(4))


def _refusal(fleet: ClusterFleet) -> str | None:
    """Why the first job in the queue waits, once that is the refusal of sbatch."""
    says = [row["waits_for"] or "" for row in fleet.client.queue()[:1]]
    return next((each for each in says if "QOSMaxSubmitJobPerUserLimit" in each), None)


def _waits_for_limit(lab: Lab) -> bool:
    return "JobArrayTaskLimit" in lab.said("squeue", "-h", "-t", "PD", "-o", "%r")


@pytest.mark.slurm
@pytest.mark.skipif(LACKING is not None, reason=LACKING or "")
def test_a_slurmctld_that_forgets_a_job_and_gives_its_id_again(tmp_path: Path) -> None:
    """It goes on from what it knew before: the job that runs is killed, and another one soon has its number."""
    with Lab.running() as lab, a_cluster_fleet(tmp_path, lab) as fleet:
        lab.remember()
        fleet.start()
        go = fleet.shared / "go"
        waits = f"while [ ! -e {go} ]; do sleep 0.1; done"
        first = fleet.script(*fleet.noting(waits, name="first"), **GPU)
        when(lambda: fleet.ran("first"), "the beginning of the first", fleet)
        given = fleet.story("batch.submitted")[0]["as_job"]
        lab.relapse()
        second = fleet.script(*fleet.noting(waits, name="second"), **GPU)
        when(lambda: fleet.ran("second"), "the beginning of the second", fleet)
        again = [event["as_job"] for event in fleet.story("batch.submitted")][1:]
        assert given in again, "the number was given again"
        when(lambda: fleet.ran("first").count("begun") == 2, "another attempt of the first", fleet, LONG_S)
        go.touch()
        assert [fleet.over(job)["job"]["state"] for job in (first, second)] == ["done"] * 2
        assert fleet.ran("second") == ["begun", "ended"]
        assert fleet.ran("first").count("ended") == 1
