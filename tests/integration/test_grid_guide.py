"""docs/get-started/grid.md: its blocks are executed in order, in a home and a project that are new."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Fleet, a_fleet
from tests.integration.guides import execute


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    (tmp_path / "fleet").mkdir()
    with a_fleet(tmp_path / "fleet", nodes=[{"name": "here", "cpu_slots": 2, "gpus": "none"}]) as made:
        made.start()
        yield made


@pytest.mark.services
def test_guide_of_a_grid_is_executed_block_by_block(fleet: Fleet, tmp_path: Path) -> None:
    execute("grid.md", tmp_path, {"HOSTLER_STATE_DIR": str(fleet.state)})
