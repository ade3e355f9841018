"""Checkpoints in folders as they are found: full of damaged ones, of very long trainings, of other programs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hostler.workloads.alphazero.checkpoint import Checkpoint, save_checkpoint
from hostler.workloads.gameboy.checkpoints import Checkpoints
from hostler.workloads.gameboy.course import Course
from hostler.workloads.gameboy.policy import Network
from hostler.workloads.gameboy.ppo import Learner
from hostler.workloads.gameboy.progress import Progress
from hostler.workloads.gameboy.strict import SpecError


@pytest.fixture
def learner() -> Learner:
    return Learner(Network(3, None, 2, hidden=4), Course(), 0)


def kept(folder: Path, learner: Learner, *steps: int) -> list[Path]:
    return [Checkpoints(folder, {}).keep(learner, Progress(steps=each)) for each in steps]


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_the_newest_is_that_of_most_steps_however_many(tmp_path: Path, learner: Learner) -> None:
    kept(tmp_path, learner, 999_999_000, 1_000_000_500, 10_000_000_000)
    found = Checkpoints(tmp_path, {}).take_up(learner)
    assert found is not None
    assert found.steps == 10_000_000_000
    assert len(list(tmp_path.iterdir())) == 2


def test_one_just_written_stays_beside_damaged_ones_of_more_steps(tmp_path: Path, learner: Learner) -> None:
    for each in kept(tmp_path, learner, 5000, 6000):
        damage(each)
    kept(tmp_path, learner, 100, 200)
    found = Checkpoints(tmp_path, {}).take_up(learner)
    assert found is not None
    assert found.steps == 200


def test_where_all_are_damaged_nothing_is_begun_anew_unasked(tmp_path: Path, learner: Learner) -> None:
    for each in kept(tmp_path, learner, 5000, 6000):
        damage(each)
    with pytest.raises(ValueError, match=r"all checkpoints in .* are damaged"):
        Checkpoints(tmp_path, {}).take_up(learner)
    assert len(list(tmp_path.iterdir())) == 2


def test_those_of_another_program_are_refused(tmp_path: Path, learner: Learner) -> None:
    save_checkpoint(tmp_path, Checkpoint(1, {"a": {"b": torch.zeros(1)}}, {"order": "x"}))
    with pytest.raises(ValueError, match="of another program"):
        Checkpoints(tmp_path, {}).take_up(learner)


def test_what_is_no_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    with pytest.raises(SpecError, match="no folder for checkpoints"):
        Checkpoints(tmp_path / "kept", {})


def test_what_was_asked_to_end_before_its_first_update_goes_on(tmp_path: Path, learner: Learner) -> None:
    """There is nothing of the optimiser yet."""
    kept(tmp_path, learner, 64)
    found = Checkpoints(tmp_path, {}).take_up(Learner(Network(3, None, 2, hidden=4), Course(), 0))
    assert found is not None
    assert (found.steps, learner.updates) == (64, 0)
