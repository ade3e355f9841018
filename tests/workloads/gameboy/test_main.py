"""By hand: a training that is killed, or asked to end, goes on from where it was."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.workloads.gameboy.__main__ import DONE, MISUSED, main
from hostler.workloads.gameboy.homebrew.cartridge import cartridge

TRAINING = {"steps": 1_000_000, "envs_per_worker": 4, "batch_steps": 256, "fragment_steps": 16, "checkpoint_updates": 2}
PATIENCE_S = 120.0


def order(folder: Path, game: str = "keyrooms", **changes: Any) -> Path:
    path, rom = folder / "order.yaml", folder / "keyrooms.gb"
    rom.write_bytes(cartridge(busy=0))  # what the built-in one does between two frames takes half of a processor's time
    found = {"path": rom.name, "sha256": sha256(rom.read_bytes()).hexdigest()}
    path.write_text(yaml.safe_dump({"schema": 1, "game": game, "rom": found, "training": {**TRAINING, **changes}}))
    return path


def begun(path: Path, **more: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hostler.workloads.gameboy", "train", path, "--checkpoints", path.parent / "kept"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **more)


def told(process: subprocess.Popen[str], updates: int) -> dict[str, Any]:
    """What it tells after so many updates."""
    assert process.stdout is not None
    for line in process.stdout:
        if not line.startswith("{"):
            continue  # a cluster's, of nodes that died
        found: dict[str, Any] = json.loads(line)
        if found.get("updates", 0) >= updates:
            return found
    raise AssertionError(f"it ended with status {process.wait()}")


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_training_goes_on_from_where_it_was(
    tmp_path: Path, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    path = order(tmp_path)
    first = begun(path)
    try:
        before = told(first, 3)
        first.send_signal(number)
        rest = first.communicate(timeout=PATIENCE_S)[0].splitlines()
    finally:
        first.kill()
    assert first.wait() == (-number if number == signal.SIGKILL else 0)
    path = order(tmp_path, steps=before["steps"] + 1024)
    assert main(["train", str(path), "--checkpoints", str(tmp_path / "kept")]) == DONE
    out = capsys.readouterr().out.splitlines()
    note, went_on, ended = (json.loads(out[each]) for each in (0, 1, -1))
    assert "ram.goal: is 0 all the time" in note["note"], "whoever plays by chance never finds the chest"
    assert went_on["updates"] > 2
    assert ended["done"]
    assert ended["steps"] >= before["steps"] + 1024
    if number == signal.SIGTERM:
        last = json.loads(rest[-1])
        assert not last["done"]
        assert went_on["steps"] == last["steps"] + 256, "nothing of it is lost"
        assert last["steps"] >= before["steps"]
    else:
        assert went_on["steps"] == went_on["updates"] * 256


@pytest.mark.long
def test_what_is_told_says_what_the_time_went_into(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(order(tmp_path, steps=256, workers=1))]) == DONE
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    first = next(line for line in lines if line.get("updates", 0) >= 1)
    assert set(first["spent"]) == {"emulate", "encode", "policy", "advice", "transport", "learn"}
    assert all(each > 0 for what, each in first["spent"].items() if what != "advice")
    assert first["spent"]["advice"] == 0.0, "nobody advises"
    assert set(first["parts"]) <= {"rooms", "tiles", "keys", "doors", "chest"}


@pytest.mark.long
def test_what_is_not_as_its_file_says_is_not_learnt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    game = files("hostler.workloads.gameboy.homebrew").joinpath("keyrooms.yaml").read_text()
    (tmp_path / "game.yaml").write_text(game.replace("x: {at: 0xC002, below: 160}", "x: {at: 0xC002, below: 9}"))
    assert main(["train", str(order(tmp_path, game="game.yaml"))]) == MISUSED
    assert "nothing is learnt: ram.x: is" in capsys.readouterr().err


def test_what_cannot_be_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", str(tmp_path / "none.yaml")]) == MISUSED
    assert main(["train", str(order(tmp_path, wrokers=2))]) == MISUSED
    assert "training.wrokers is nothing that is known here" in capsys.readouterr().err
