"""docs/get-started/ray.md: its blocks are executed in order, on a real Ray cluster."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import kill_below
from tests.integration.guides import execute
from tests.patience import PATIENCE_S
from tests.raytown.town import TOKEN, Town, free_port


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """The state directory of a home whose project has the token of the cluster."""
    state = tmp_path / "state"
    (tmp_path / "ray.token").write_text(f"{TOKEN}\n")
    try:
        yield state
    finally:
        words = [sys.executable, "-m", "hostler", "down", "--now", "--state-dir", str(state)]
        subprocess.run(words, capture_output=True, timeout=PATIENCE_S, check=False)
        kill_below(tmp_path)


@pytest.mark.services
def test_guide_of_ray_is_executed_block_by_block(ray_town: Town, state: Path, tmp_path: Path) -> None:
    given = {
        "http://127.0.0.1:8265": ray_town.address,
        "127.0.0.1:8767": f"127.0.0.1:{free_port()}",
        "hostler check": "cp ~/ray.token . && hostler check",
        "hostler up fleet.yaml": "hostler up fleet.yaml --port 0",
    }
    execute("ray.md", tmp_path, {"HOSTLER_STATE_DIR": str(state)}, given=given)
