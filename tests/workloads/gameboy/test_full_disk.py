"""A disk that is full: a training says so and ends, what it kept before is whole, and is gone on from."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from hostler.workloads.alphazero.artifacts import ArtifactError
from hostler.workloads.gameboy.__main__ import FAILED, MISUSED, main
from hostler.workloads.gameboy.checkpoints import Checkpoints
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.training import Training
from tests.workloads.gameboy.test_main import order
from tests.workloads.gameboy.test_training import run

FILLED_AFTER = 3
"""Updates, each with a checkpoint."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB of its own: some checkpoints of our game."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(mounted)], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.decode().strip()}")
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True)


def fill(folder: Path, *, left: int) -> None:
    """With a file that takes all but so many bytes."""
    ballast = folder / "ballast"
    with suppress(OSError), ballast.open("ab", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    with ballast.open("r+b") as file:
        file.truncate(ballast.stat().st_size - left)


def test_a_training_ends_and_goes_on_once_there_is_room(keyrooms: Game, cart: Cartridge, small: Path) -> None:
    told: list[Mapping[str, Any]] = []

    def tell(each: Mapping[str, Any]) -> None:
        told.append(each)
        if each["updates"] == FILLED_AFTER:
            fill(small, left=40_960)  # a checkpoint is begun, and cannot be written to its end

    asked = run(checkpoint_updates=1)
    with pytest.raises(ArtifactError, match=r"cannot be written: No space left on device; see to its folder"):
        Training(asked, keyrooms, cart, Checkpoints(small, {}), told=tell).run()
    assert len(told) == FILLED_AFTER, "it has not learnt on as if nothing were"
    assert {each.suffix for each in small.iterdir()} == {".safetensors", ""}, "nothing half is left"
    (small / "ballast").unlink()
    again = Training(asked, keyrooms, cart, Checkpoints(small, {}))
    assert again.learner.updates == FILLED_AFTER - 1
    assert again.progress.steps == told[-2]["steps"]
    assert again.run().steps >= asked.steps


def test_by_hand_its_exit_status_and_its_words_say_so(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = small / "kept"
    asked = {"steps": 1024, "checkpoint_updates": 1}
    assert main(["train", str(order(small.parent, **asked)), "--checkpoints", str(kept)]) == 0
    before = {each.name: each.read_bytes() for each in kept.iterdir()}
    capsys.readouterr()
    more = str(order(small.parent, **{**asked, "steps": 4096}))
    fill(small, left=40_960)
    assert main(["train", more, "--checkpoints", str(kept)]) == FAILED
    assert "No space left on device" in capsys.readouterr().err
    fill(small, left=0)
    assert main(["train", more, "--checkpoints", str(kept)]) == MISUSED, "it is seen before anything is learnt"
    assert f"{kept} cannot keep checkpoints: No space left on device" in capsys.readouterr().err
    assert {each.name: each.read_bytes() for each in kept.iterdir()} == before
