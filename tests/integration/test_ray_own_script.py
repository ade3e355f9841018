"""A script of one's own on a share of a real Ray cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_ray import a_share
from tests.own_script import check_files, check_order, check_search
from tests.raytown.town import Town

pytestmark = pytest.mark.services


def test_job_starts_from_the_files_of_its_submission(ray_town: Town, tmp_path: Path) -> None:
    with a_share(tmp_path, ray_town.python, ray_town.address, cpus=1) as fleet:
        fleet.start()
        check_files(fleet, tmp_path, tmp_path / "gate", "python3")


def test_order_of_output_is_exact(ray_town: Town, tmp_path: Path) -> None:
    with a_share(tmp_path, ray_town.python, ray_town.address, cpus=1) as fleet:
        fleet.start()
        check_order(fleet, tmp_path, "python3")


def test_order_of_output_is_exact_where_the_agent_is_killed_meanwhile(ray_town: Town, tmp_path: Path) -> None:
    with a_share(tmp_path, ray_town.python, ray_town.address, cpus=1) as fleet:
        fleet.start()
        check_order(fleet, tmp_path, "python3", agent_killed=True)


def test_sweep_runs_the_files_of_its_submission(ray_town: Town, tmp_path: Path) -> None:
    with a_share(tmp_path, ray_town.python, ray_town.address, cpus=1) as fleet:
        fleet.start()
        check_search(fleet, tmp_path, tmp_path / "gate", "python3")
