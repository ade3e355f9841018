"""A real training under a real controller: what it tells is what people and programs are shown."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Fleet

ORDER = """
schema: 1
game: keyrooms
rom: keyrooms
training: {steps: 900, envs_per_worker: 2, batch_steps: 128, fragment_steps: 32, episode_steps: 40, seed: 1}
"""


def test_what_a_training_tells_is_shown(fleet: Fleet, tmp_path: Path) -> None:
    for name in ("torch", "pyboy"):
        pytest.importorskip(name, reason=f"{name} is not installed; pip install 'hostler[rl]'")
    order = tmp_path / "order.yaml"
    order.write_text(ORDER)
    argv = [sys.executable, "-m", "hostler.workloads.gameboy", "train", str(order)]
    fleet.start()
    job = fleet.script(*argv, name="rooms", work_as="rl")
    fleet.over(job)
    told = [json.loads(each) for each in fleet.client.log(f"{job}.1").data.splitlines()]
    assert "note" in told.pop(0), "what playing by chance did not find; it is for the log alone"
    last = told[-2]
    detail = fleet.client.rl(job)
    numbers = detail["row"]["numbers"]
    assert (detail["row"]["lines"], detail["row"]["skipped"], numbers["done"]) == (len(told), 0, True)
    for name in ("steps", "updates", "episodes", "envs", "reward", "seconds"):
        assert numbers[name] == last[name], name
    assert numbers["steps_asked"] == 900
    assert {each["name"]: each["seconds"] for each in detail["spent"]} == last["spent"]
    assert {each["name"]: each["paid"] for each in detail["parts"]} == last["parts"]
    assert {str(each["number"]): each["episodes"] for each in detail["explored"]} == last["explored"]
    assert [(each["name"], each["width"]) for each in detail["map"]] == [("room_x", 4), ("room_y", 4)]
    assert [each["env"] for each in detail["pictures"]] == [0, 1]
    assert fleet.client.rl_picture(job, 1).startswith(b"\x89PNG")
    assert [each["steps"] for each in fleet.client.rl_curve(job)] == [each["steps"] for each in told[:-1]]
