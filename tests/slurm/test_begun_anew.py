"""What a real Slurm begins anew by itself, and what ended while no controller was there to see it."""

from __future__ import annotations

import time
from pathlib import Path

from tests.patience import PATIENCE_S
from tests.slurm.fleets import ClusterFleet, a_cluster_fleet, when
from tests.slurm.lab import Lab

GPU = {"resources": {"device": "gpu"}}
UNTIL_TOLD = "while [ ! -e {}/go ]; do sleep 0.1; done"
LONG_S = 3 * PATIENCE_S


def waits(fleet: ClusterFleet, name: str = "ran") -> tuple[str, ...]:
    """A command that notes that it begins, waits until it is told to end, and notes that."""
    return fleet.noting(UNTIL_TOLD.format(fleet.shared), name)


def go(fleet: ClusterFleet) -> None:
    """Tell what waits to end."""
    (fleet.shared / "go").touch()


def given(fleet: ClusterFleet) -> str:
    """What Slurm calls the first batch."""
    return str(when(lambda: fleet.story("batch.submitted"), "a submission", fleet)[0]["as_job"])


def test_a_pilot_that_was_begun_anew_keeps_its_work_when_a_controller_begins(tmp_path: Path, slurm: Lab) -> None:
    wanted = {"mode": "pilot", "requeue": True, "max_jobs": 1, "pilot_idle_s": PATIENCE_S}
    with a_cluster_fleet(tmp_path, slurm, partitions=("gpu-train",), slurm=wanted) as fleet:
        fleet.start()
        job = fleet.script(*waits(fleet), **GPU)
        when(fleet.ran, "its beginning", fleet)
        slurm.run("scontrol", "requeue", given(fleet), check=True)
        when(lambda: fleet.ran().count("begun") == 2, "a second attempt", fleet, 3 * PATIENCE_S)
        fleet.state_of(job, "running")
        fleet.kill()
        fleet.start()
        go(fleet)
        assert fleet.over(job)["job"]["state"] == "done"
        assert fleet.ran() == ["begun", "begun", "ended"]
        assert fleet.job(job)["attempts"] == 2
        assert len(fleet.story("batch.requested")) == 1


def test_a_task_of_an_array_that_is_begun_anew_goes_on_as_another(tmp_path: Path, slurm: Lab) -> None:
    with a_cluster_fleet(tmp_path, slurm, partitions=("gpu-train",), slurm={"mode": "array", "requeue": True}) as fleet:
        fleet.start()
        script = {"kind": "script", "schema": 1}
        jobs = fleet.client.submit_jobs(
            [{"name": "s", **GPU, "payload": {**script, "argv": list(waits(fleet, f"n{at}"))}} for at in range(3)]
        )
        when(lambda: all(fleet.ran(f"n{at}") for at in range(3)), "all to begin", fleet)
        slurm.run("scontrol", "requeue", f"{given(fleet)}_1", check=True)
        when(lambda: any(fleet.ran(f"n{at}").count("begun") == 2 for at in range(3)), "another", fleet, LONG_S)
        go(fleet)
        assert [fleet.over(job)["job"]["state"] for job in jobs] == ["done"] * 3
        assert sorted(len(fleet.ran(f"n{at}")) for at in range(3)) == [2, 2, 3]
        assert {event["failure"] for event in fleet.story("job.requeued")} == {None}
        when(lambda: not fleet.slurm_jobs(), "an empty queue", fleet)


def test_what_had_its_time_while_no_controller_was_there_had_it(tmp_path: Path, slurm: Lab) -> None:
    with a_cluster_fleet(tmp_path, slurm, partitions=("short",)) as fleet:
        fleet.start()
        job = fleet.script(*waits(fleet))
        when(fleet.ran, "its beginning", fleet)
        fleet.kill()
        when(lambda: not fleet.slurm_jobs(), "the end of its allocation", fleet, LONG_S)
        fleet.start()
        found = fleet.over_within(job, LONG_S)
        assert (found["job"]["state"], found["job"]["failure"]) == ("failed", "timeout")
        assert "there is no more for it" in found["job"]["why"]
        assert fleet.ran() == ["begun"]


def test_an_answer_that_was_lost_on_its_way_is_no_second_submission(tmp_path: Path, slurm: Lab) -> None:
    """Slurm's own words for a request that was taken and not answered; the job waits, and nobody looks at the queue."""
    taken = slurm.submit("sleep 600", "--partition=gpu-train", "--gres=gpu:h100:2", "--array=0-1")
    with a_cluster_fleet(tmp_path, slurm, partitions=("gpu-train",), slurm={"poll_s": 60}) as fleet:
        says = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (receive failure)"
        asked = fleet.shared / "asked"
        fleet.instead_of("sbatch", f'"$REAL" "$@" > /dev/null; echo "{says}" >&2; echo x >> {asked}; exit 1')
        fleet.start()
        job = fleet.script(*fleet.noting(), **GPU)
        given(fleet)
        assert fleet.ran("asked") == ["x"]
        slurm.run("scancel", taken, check=True)
        assert fleet.over(job)["job"]["state"] == "done"
        assert fleet.ran() == ["begun", "ended"]


def test_a_shared_folder_that_is_gone_for_a_while_costs_no_result(tmp_path: Path, slurm: Lab) -> None:
    """What ends meanwhile has its result in it, and Slurm says that it is over."""
    folder, away = tmp_path / "jobs", tmp_path / "away"
    own = {"job_dir": str(folder)}
    with a_cluster_fleet(tmp_path, slurm, partitions=("gpu-train",), slurm=own) as fleet:
        fleet.start()
        job = fleet.script(*waits(fleet), **GPU)
        when(fleet.ran, "its beginning", fleet)
        fleet.state_of(job, "running")
        folder.rename(away)
        go(fleet)
        when(lambda: "ended" in fleet.ran(), "its end", fleet)
        time.sleep(25.0)  # longer than last words are waited for
        away.rename(folder)
        assert fleet.over_within(job, LONG_S)["job"]["state"] == "done"
        assert fleet.ran() == ["begun", "ended"]
