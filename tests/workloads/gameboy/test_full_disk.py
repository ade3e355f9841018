"""A disk that is full: a training says so and ends, what it kept before is whole, and is gone on from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from hostler.workloads.alphazero.artifacts import ArtifactError
from hostler.workloads.gameboy.__main__ import DONE, FAILED, MISUSED, main
from hostler.workloads.gameboy.checkpoints import Checkpoints
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.training import Training
from tests import fulldisks
from tests.workloads.gameboy.test_main import order
from tests.workloads.gameboy.test_training import run

FILLED_AFTER = 3
"""Updates, each with a checkpoint."""
PART = 40_960
"""Bytes that are left: a checkpoint is begun, and cannot be written to its end."""


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """Room for some checkpoints of our game."""
    with fulldisks.disk(tmp_path / "small", "3m") as made:
        yield made


@pytest.mark.parametrize(
    ("of", "left"),
    [
        (fulldisks.BYTES, PART),
        pytest.param(fulldisks.BYTES, 0, marks=pytest.mark.long),
        pytest.param(fulldisks.NAMES, 0, marks=pytest.mark.long),
    ],
)
def test_a_training_ends_and_goes_on_once_there_is_room(
    keyrooms: Game, cart: Cartridge, small: Path, of: str, left: int
) -> None:
    asked, told, kept = run(checkpoint_updates=1), list[Mapping[str, Any]](), Checkpoints(small / "kept", {})
    before: dict[str, bytes] = {}
    with ExitStack() as until_then:

        def tell(each: Mapping[str, Any]) -> None:
            told.append(each)
            if each["updates"] == FILLED_AFTER:
                before.update(fulldisks.below(small))
                until_then.enter_context(fulldisks.full(small, of, left))

        with pytest.raises(ArtifactError, match=r"cannot be written: No space left on device; see to its folder"):
            Training(asked, keyrooms, cart, kept, told=tell).run()
        assert len(told) == FILLED_AFTER, "it has not learnt on as if nothing were"
        assert fulldisks.below(small) == before, "of what it kept nothing is lost, and nothing half is left"
    again = Training(asked, keyrooms, cart, Checkpoints(small / "kept", {}))
    assert again.learner.updates == FILLED_AFTER - 1
    assert again.progress.steps == told[-2]["steps"]
    assert again.run().steps >= asked.steps


@pytest.mark.long
def test_by_hand_its_exit_status_and_its_words_say_so(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = small / "kept"

    def trained(steps: int) -> int:
        path = order(small.parent, steps=steps, checkpoint_updates=1)
        return main(["train", str(path), "--checkpoints", str(kept)])

    assert trained(1024) == DONE
    before = fulldisks.below(small)
    with fulldisks.full(small, left=PART):
        assert trained(4096) == FAILED
    assert "cannot be written: No space left on device" in capsys.readouterr().err
    with fulldisks.full(small):
        assert trained(4096) == MISUSED, "it is seen before anything is learnt"
    assert f"{kept} cannot keep checkpoints: No space left on device" in capsys.readouterr().err
    assert fulldisks.below(small) == before
    assert trained(4096) == DONE
