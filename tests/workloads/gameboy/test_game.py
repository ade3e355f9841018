"""What a game's file may say, and that everything else is refused with the place where it stands."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import yaml

from hostler.workloads.gameboy.game import MICRO, Pays, read_game
from hostler.workloads.gameboy.strict import SpecError

GAME: dict[str, Any] = {
    "schema": 1,
    "game": "a game",
    "skip": 4,
    "episode_steps": 100,
    "ram": {"room": {"at": 0xC000, "below": 9}, "score": {"at": 0xC010, "size": 2}},
    "observation": {"values": [{"of": "room", "as": "one_hot"}]},
    "reward": {
        "components": {
            "rooms": {"pays": "first", "of": "room", "worth": 1.5},
            "score": {"pays": "rise", "of": "score", "worth": 0.000001, "cap": 3},
        }
    },
    "map": "room",
}


def changed(path: str, value: Any) -> str:
    """The game, with something else at that place; `None` takes it out."""
    content = deepcopy(GAME)
    *inner, last = path.split(".")
    here = content
    for each in inner:
        here = here[each]
    if value is None:
        del here[last]
    else:
        here[last] = value
    return yaml.safe_dump(content)


def test_a_game_as_it_is_written() -> None:
    game = read_game(yaml.safe_dump(GAME))
    assert (game.skip, game.sound, game.places) == (4, False, 9)
    assert game.values["score"].below == 65_536
    assert game.actions == ("noop", "up", "down", "left", "right", "a", "b"), "START is for those who ask for it"
    rooms, score = game.reward.components
    assert (rooms.pays, rooms.worth, rooms.cap) == (Pays.FIRST, 1_500_000, None)
    assert (score.pays, score.worth, score.cap) == (Pays.RISE, 1, 3 * MICRO)


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("schema", 2, "schema has to be a whole number from 1 to 1"),
        ("skip", 0, "skip has to be a whole number from 1"),
        ("skip", True, "skip has to be a whole number"),
        ("skip", None, "skip is missing"),
        ("frame_skip", 4, "frame_skip is nothing that is known here"),
        ("actions", ["up", "jump"], "'jump' is no button"),
        ("actions", ["up", "up"], "names something twice"),
        ("ram.room.adress", 1, "ram.room.adress is nothing that is known here"),
        ("ram.room.at", 0x10000, "ram.room.at has to be"),
        ("ram.score.at", 0xFFFF, "end beyond the memory"),
        ("ram.health", {"at": 0xC002}, "ram.health: nothing uses it"),
        ("observation", {}, "there is nothing to see"),
        ("observation.values", [{"of": "rom", "as": "one_hot"}], "no value 'rom'"),
        ("observation.values", [{"of": "score", "as": "text"}], "has to be one of scaled, one_hot"),
        ("reward.components", {}, "nothing can be learnt"),
        ("reward.components.rooms.worht", 1, "worht is nothing that is known here"),
        ("reward.components.rooms.worth", 0.0000001, "no more than six digits"),
        ("reward.components.rooms.pays", "kill", "has to be one of first, rise"),
        ("reward.components.rooms.value", 3, "value is nothing that is known here"),
        ("reward.components.score.of", ["score", "room"], "only `first` takes several"),
        ("reward.components.end", {"pays": "reach", "of": "room", "value": 9, "worth": 1}, "room is never 9"),
        ("end", [{"of": "room", "value": 10}], "room is never 10"),
        ("map", ["room", "score"], "more than 65536 combinations"),
        ("observation.values", 5, "observation.values has to be a list"),
        ("end", {"of": "room"}, "end has to be a list"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_stands(path: str, value: Any, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        read_game(changed(path, value))


@pytest.mark.parametrize("text", ["", "[]", "a: [", "- 1", "a: 2026-99-99", "[" * 5000])
def test_what_is_no_game_at_all(text: str) -> None:
    with pytest.raises(SpecError):
        read_game(text)


def test_a_key_that_is_written_twice_is_refused() -> None:
    with pytest.raises(SpecError, match="skip stands there twice"):
        read_game(yaml.safe_dump(GAME) + "skip: 8\n")
