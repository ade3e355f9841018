"""A script of one's own on a real Slurm, on its shared folder and through a login node."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.backends.ssh import sshd
from tests.own_script import check_files, check_order, check_search
from tests.slurm.fleets import ClusterFleet, a_cluster_fleet, when
from tests.slurm.lab import Lab
from tests.slurm.test_login import login

ONE_CPU = {"cpu-eval": {"cpu_slots": 1}}


@pytest.fixture(params=["shared folder", "login node"])
def fleet(request: pytest.FixtureRequest, tmp_path: Path, slurm: Lab) -> Iterator[ClusterFleet]:
    """A fleet of one partition with one slot."""
    with ExitStack() as stack:
        server = None
        if request.param == "login node":
            if sshd.MISSING is not None:
                pytest.skip(sshd.MISSING)
            server = stack.enter_context(sshd.running(tmp_path / "login", login(tmp_path, slurm)))
        made = stack.enter_context(
            a_cluster_fleet(tmp_path, slurm, partitions=("cpu-eval",), nodes=ONE_CPU, login=server)
        )
        made.start()
        yield made


def test_job_starts_from_the_files_of_its_submission(fleet: ClusterFleet, tmp_path: Path) -> None:
    check_files(fleet, tmp_path, fleet.shared / "gate", sys.executable)


def test_order_of_output_is_exact(fleet: ClusterFleet, tmp_path: Path) -> None:
    check_order(fleet, tmp_path, sys.executable)


def test_order_of_output_is_exact_where_the_agent_is_killed_meanwhile(fleet: ClusterFleet, tmp_path: Path) -> None:
    check_order(fleet, tmp_path, sys.executable, agent_killed=True)


def test_sweep_runs_the_files_of_its_submission(fleet: ClusterFleet, tmp_path: Path) -> None:
    check_search(fleet, tmp_path, fleet.shared / "gate", sys.executable)
    when(lambda: not list(fleet.shared.glob("**/trees/**/j2")), "the end of its folder", fleet)
