"""docs/get-started/slurm.md: its blocks are executed in order, on a real Slurm."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import kill_below
from tests.integration.guides import execute
from tests.patience import PATIENCE_S
from tests.slurm.lab import Lab

GIVEN = {"hostler up fleet.yaml": "hostler up fleet.yaml --port 0"}
NO_RAY = {"RAY_ADDRESS": "http://127.0.0.1:9"}
"""A cluster of other tests is not found."""


@pytest.fixture
def state(slurm: Lab, tmp_path: Path) -> Iterator[Path]:
    """The state directory of a home that all nodes of the cluster share."""
    state = tmp_path / "state"
    try:
        yield state
    finally:
        words = [sys.executable, "-m", "hostler", "down", "--now", "--state-dir", str(state)]
        subprocess.run(words, env=slurm.env, capture_output=True, timeout=PATIENCE_S, check=False)
        kill_below(tmp_path)


def test_guide_of_slurm_is_executed_block_by_block(slurm: Lab, state: Path, tmp_path: Path) -> None:
    own = {name: value for name, value in slurm.env.items() if name not in ("HOME", "LANG")}
    path = f"{tmp_path / 'bin'}:{own['PATH']}"
    execute("slurm.md", tmp_path, {**own, **NO_RAY, "PATH": path, "HOSTLER_STATE_DIR": str(state)}, given=GIVEN)
