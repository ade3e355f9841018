"""docs/get-started/shared-cards.md: its blocks are executed in order, while another person uses the first card."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cards import Cards
from tests.integration.conftest import Fleet, a_fleet, until
from tests.integration.guides import execute


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fleet]:
    (tmp_path / "fleet").mkdir()
    cards = Cards(tmp_path / "cards")
    monkeypatch.setenv("PATH", f"{cards.tools}:{os.environ['PATH']}")
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    stranger = subprocess.Popen(["sleep", "100000"], start_new_session=True)
    try:
        cards.use(f"GPU-aa, {stranger.pid}, 22016")
        with a_fleet(tmp_path / "fleet", nodes=[{"name": "here", "cpu_slots": 1}]) as made:
            made.start()
            until(lambda: made.client.status()["devices_used"] == 1, "the use by others")
            yield made
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.services
def test_guide_of_shared_cards_is_executed_block_by_block(fleet: Fleet, tmp_path: Path) -> None:
    execute("shared-cards.md", tmp_path, {"HOSTLER_STATE_DIR": str(fleet.state)})
