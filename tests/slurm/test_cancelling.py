"""What is not wanted any more, on a real cluster: no copy of it is left, none begins, and nobody waits for scancel."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.patience import PATIENCE_S
from tests.slurm.fleets import ClusterFleet, a_cluster_fleet, when
from tests.slurm.lab import Lab

CPU = {"resources": {"device": "cpu"}}
COMMANDS = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")


@pytest.fixture
def fleet(tmp_path: Path, slurm: Lab) -> Iterator[ClusterFleet]:
    """A fleet of one partition, not started."""
    with a_cluster_fleet(tmp_path, slurm, partitions=("cpu-eval",)) as made:
        yield made


@contextmanager
def closed(lab: Lab) -> Iterator[None]:
    """The partition begins nothing meanwhile."""
    lab.run("scontrol", "update", "PartitionName=cpu-eval", "State=DOWN", check=True)
    try:
        yield
    finally:
        lab.run("scontrol", "update", "PartitionName=cpu-eval", "State=UP", check=True)


def waiting(fleet: ClusterFleet) -> str:
    """A job whose batch job waits."""
    job = str(fleet.script(*fleet.noting(name="never"), **CPU))
    when(lambda: fleet.story("batch.submitted"), "a job that waits", fleet)
    return job


def hang(fleet: ClusterFleet) -> None:
    """Nothing that asks Slurm answers any more."""
    for each in COMMANDS:
        fleet.instead_of(each, f"echo {each} >> {fleet.shared}/calls; exec sleep 600")


def test_what_was_submitted_twice_is_cancelled_twice(fleet: ClusterFleet) -> None:
    fleet.instead_of("sbatch", '"$REAL" "$@" > /dev/null; "$REAL" "$@"')
    fleet.instead_of("scancel", f'echo "$*" >> {fleet.shared}/scancels; exec "$REAL" "$@"')
    fleet.start()
    with closed(fleet.lab):
        job = waiting(fleet)
        assert len(fleet.slurm_jobs()) == 2
        fleet.client.cancel(job)
        assert fleet.over(job)["job"]["state"] == "cancelled"
        when(lambda: not fleet.lab.said("squeue", "-h", "-t", "pending"), "an empty queue", fleet)
        when(lambda: fleet.story("batch.closed"), "the end of the batch", fleet)
        assert len((fleet.shared / "scancels").read_text().splitlines()) <= 3
    assert fleet.ran("never") == []


def test_what_is_cancelled_while_slurmctld_is_away_does_not_begin(fleet: ClusterFleet) -> None:
    fleet.start()
    with closed(fleet.lab):
        job = waiting(fleet)
        fleet.lab.slurmctld.stop()
        fleet.client.cancel(job)
        assert fleet.over(job)["job"]["state"] == "cancelled"
        fleet.lab.start_slurmctld()
    when(lambda: not fleet.slurm_jobs(), "an empty queue", fleet, 2 * PATIENCE_S)
    assert fleet.ran("never") == []


def test_a_controller_leaves_though_slurm_hangs_and_what_it_left_does_nothing(fleet: ClusterFleet) -> None:
    fleet.start()
    with closed(fleet.lab):
        job = waiting(fleet)
        hang(fleet)
        fleet.client.cancel(job)
        assert fleet.over(job)["job"]["state"] == "cancelled"
        when(lambda: "scancel" in fleet.ran("calls"), "a scancel that hangs", fleet)
        assert fleet.controller is not None
        began = time.monotonic()
        fleet.signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            fleet.controller.wait(2)
        assert time.monotonic() - began >= 2, "the cluster is given a moment"
        fleet.signal(signal.SIGTERM)
        fleet.controller.wait(PATIENCE_S)  # commands hang for longer than that
    when(lambda: not fleet.lab.said("squeue", "-h", "-t", "pending,running"), "an empty queue", fleet)
    assert fleet.ran("never") == []
