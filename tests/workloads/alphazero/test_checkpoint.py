from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hostler.workloads.alphazero import checkpoint as checkpoints
from hostler.workloads.alphazero.artifacts import ArtifactError
from hostler.workloads.alphazero.checkpoint import Checkpoint, Found, newest, save_checkpoint


def made(step: int) -> Checkpoint:
    return Checkpoint(step, {"weights": {"a.b": torch.full((2, 3), step)}, "moments": {"a.b/step": torch.tensor(1.5)}},
                      {"loss": 0.1 + step, "curve": [{"step": step}]})  # fmt: skip


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, made(7))
    found = newest(tmp_path)
    assert found.damaged == ()
    assert found.checkpoint is not None
    assert (found.checkpoint.step, found.checkpoint.facts) == (7, made(7).facts)
    assert torch.equal(found.checkpoint.tensors["weights"]["a.b"], torch.full((2, 3), 7))
    assert found.checkpoint.tensors["moments"]["a.b/step"].item() == 1.5


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    for step in (9, 10, 200):
        save_checkpoint(tmp_path, made(step))
    steps = sorted(int(path.name.split("-")[1]) for path in tmp_path.iterdir())
    assert steps == [10, 200]
    found = newest(tmp_path).checkpoint
    assert found is not None
    assert found.step == 200


@pytest.mark.parametrize("damage", ["bit", "cut", "empty"])
def test_a_damaged_one_is_named_and_the_one_before_is_used(tmp_path: Path, damage: str) -> None:
    save_checkpoint(tmp_path, made(1))
    path = save_checkpoint(tmp_path, made(2))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes({"bit": bytes(content), "cut": bytes(content[:20]), "empty": b""}[damage])
    found = newest(tmp_path)
    assert found.damaged == (path.name,)
    assert found.checkpoint is not None
    assert found.checkpoint.step == 1


def test_without_a_whole_one_there_is_none(tmp_path: Path) -> None:
    assert newest(tmp_path) == Found(None, ())
    path = save_checkpoint(tmp_path, made(1))
    path.write_bytes(b"?")
    (tmp_path / ".checkpoint-000000002-0123456789abcdef.safetensors.host.1.tmp").write_bytes(b"half")
    assert newest(tmp_path) == Found(None, (path.name,))


def test_a_full_disk_is_named_and_leaves_the_older_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_checkpoint(tmp_path, made(1))

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "replace", full)
    with pytest.raises(ArtifactError, match=r"checkpoint-000000002-.* cannot be written: No space left on device"):
        save_checkpoint(tmp_path, made(2))
    found = newest(tmp_path).checkpoint
    assert found is not None
    assert found.step == 1


def test_one_that_vanishes_meanwhile_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, gone = save_checkpoint(tmp_path, made(1)), save_checkpoint(tmp_path, made(2))
    listed = [gone, kept]
    gone.unlink()
    monkeypatch.setattr("hostler.workloads.alphazero.checkpoint._newest_first", lambda folder: listed)
    found = newest(tmp_path)
    assert found.checkpoint is not None
    assert found.checkpoint.step == 1
    assert gone.name in found.damaged[0]
