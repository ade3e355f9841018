"""What a checkpoint has to agree with, and what may be otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from hostler.workloads.gameboy.checkpoints import Checkpoints
from hostler.workloads.gameboy.order import Order, order_of
from hostler.workloads.gameboy.rom import OtherMode
from hostler.workloads.gameboy.training import Training

TRAINING = {"steps": 64, "envs_per_worker": 2, "batch_steps": 64, "fragment_steps": 16}


def game() -> dict[str, Any]:
    """Ours, as it is written."""
    content: dict[str, Any] = yaml.safe_load(
        files("hostler.workloads.gameboy.homebrew").joinpath("keyrooms.yaml").read_text()
    )
    return content


def ordered(folder: Path, content: Mapping[str, Any], variables: Mapping[str, str], **training: Any) -> Order:
    (folder / "game.yaml").write_text(yaml.safe_dump(dict(content)))
    asked = {"schema": 1, "game": "game.yaml", "rom": "keyrooms", "training": {**TRAINING, **training}}
    return order_of(asked, folder, variables)


def begun(folder: Path, order: Order, told: list[Mapping[str, Any]]) -> Training:
    kept = Checkpoints(folder / "kept", order.made_of, order.beside)
    return Training(order.run, order.game, order.cartridge, kept, told=told.append)


def test_what_changes_no_meaning_is_gone_on_with_and_told(tmp_path: Path) -> None:
    begun(tmp_path, ordered(tmp_path, game(), {}), []).run()
    content = game()
    content["game"] = "my rooms"
    content["reward"]["alarm_share"] = 0.5
    changed = ordered(tmp_path, content, {"EPISODE_LENGTH": "77"}, course={"rate": 1e-4, "epochs": 2})
    told: list[Mapping[str, Any]] = []
    again = begun(tmp_path, changed, told)
    assert (again.progress.steps, again.learner.updates) == (64, 1)
    assert (again.shares.alarm_share, again.game.episode_steps) == (0.5, 77)
    assert again.learner.state()["optimiser"]["param_groups"][0]["lr"] == 1e-4
    (note,) = [each["note"] for each in told]
    for words in (
        "game is my rooms, and was key rooms",
        "episode_steps is 77, and was 512",
        "alarm_share is 0.5, and was 0.85",
        "rate is 0.0001, and was 0.001",
        "epochs is 2, and was 4",
    ):
        assert words in note
    told.clear()
    begun(tmp_path, ordered(tmp_path, game(), {}), told)
    assert told == []


@pytest.mark.parametrize(
    ("path", "value", "training", "what"),
    [
        ("skip", 4, {}, "game"),
        ("actions", ["up", "down"], {}, "game"),
        ("ram.x.at", 0xC00A, {}, "game"),
        ("observation.values.0.as", "scaled", {}, "game"),
        ("reward.components.rooms.worth", 2, {}, "game"),
        ("end.0.value", 0, {}, "game"),
        ("map", ["room_y", "room_x"], {}, "game"),
        (None, None, {"course": {"discount": 0.9}}, "discount"),
    ],
)
def test_what_weights_or_counts_would_mean_otherwise_is_refused(
    tmp_path: Path, path: str | None, value: Any, training: dict[str, Any], what: str
) -> None:
    first = ordered(tmp_path, game(), {})
    content: Any = game()
    if path is not None:
        *inner, last = path.split(".")
        here = content
        for each in inner:
            here = here[int(each)] if each.isdigit() else here[each]
        here[last] = value
    other = ordered(tmp_path, content, {}, **training)
    assert [key for key in first.made_of if first.made_of[key] != other.made_of[key]] == [what]


def test_a_checkpoint_of_another_discount_is_refused_with_its_name(tmp_path: Path) -> None:
    begun(tmp_path, ordered(tmp_path, game(), {}), []).run()
    with pytest.raises(ValueError, match="of another training: discount differ"):
        begun(tmp_path, ordered(tmp_path, game(), {}, course={"discount": 0.9}), [])


def test_values_in_banks_are_of_a_rom_for_the_color(tmp_path: Path) -> None:
    content = game()
    content["ram"]["x"] = {"at": 0xD002, "below": 160, "bank": 2}
    with pytest.raises(OtherMode, match=r"ram\.x\.bank: there are banks on a Game Boy Color only"):
        ordered(tmp_path, content, {})
