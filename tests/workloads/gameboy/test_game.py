"""What a game's file may say, and that everything else is refused with the place where it stands."""

from __future__ import annotations

import re
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
        ("ram.room.bank", 2, "ram.room.bank: only 0xd000 to 0xdffe are in banks, not 0xc000"),
        ("ram.score", {"at": 0xDFFE, "size": 2, "bank": 2}, "not 0xdffe to 0xdfff"),
        ("ram.score", {"at": 0xD000, "bank": 0}, "ram.score.bank has to be a whole number from 1 to 7"),
        ("observation.values", 5, "observation.values has to be a list"),
        ("end", {"of": "room"}, "end has to be a list"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_stands(path: str, value: Any, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        read_game(changed(path, value))


def paying(component: dict[str, Any], **changes: Any) -> str:
    """The game, with one component, of a value of four bytes."""
    content = {**deepcopy(GAME), **changes}
    content["ram"]["score"] = {"at": 0xC010, "size": 4}
    content["reward"]["components"]["score"] = component
    return yaml.safe_dump(content)


@pytest.mark.parametrize(
    ("component", "steps", "sum_"),
    [
        ({"pays": "rise", "of": "score", "worth": 1000}, 100, "1000 × 4294967295 × 100 steps = 4.29e+14"),
        ({"pays": "fall", "of": "score", "worth": -1000}, 100, "1000 × 4294967295 × 100 steps = 4.29e+14"),
        ({"pays": "rise", "of": "score", "worth": 1e9, "once": True}, 9, "1e+09 × 4294967295 × 1 steps = 4.29e+18"),
        ({"pays": "rise", "of": "score", "worth": 10000, "cap": 5}, 9, "5 + 10000 × 4294967295 = 4.29e+13"),
        ({"pays": "step", "worth": 1e9}, 100_000, "1e+09 × 100000 steps = 1e+14"),
        ({"pays": "reach", "of": "score", "value": 1, "worth": 1e9}, 100_000, "1e+09 × 100000 steps = 1e+14"),
        ({"pays": "first", "of": "room", "worth": 1e9}, 100_000, None),
        ({"pays": "rise", "of": "score", "worth": 1}, 1000, None),
        ({"pays": "rise", "of": "score", "worth": 1, "cap": 1e6}, 2**31, None),
        ({"pays": "rise", "of": "score", "worth": 1000, "once": True}, 2**31, None),
    ],
)
def test_what_an_episode_might_pay_can_be_counted(component: dict[str, Any], steps: int, sum_: str | None) -> None:
    content = {**deepcopy(GAME), "episode_steps": steps, "end": [{"of": "score", "value": 0}]}
    content["ram"]["score"]["size"] = 4
    content["reward"]["components"] = {"it": component, "rooms": GAME["reward"]["components"]["rooms"]}
    if sum_ is None:
        assert read_game(yaml.safe_dump(content)).episode_steps == steps
        return
    with pytest.raises(SpecError, match=re.escape(f"reward.components.it: an episode might be paid {sum_}")):
        read_game(yaml.safe_dump(content))


def test_what_components_might_pay_together_can_be_counted() -> None:
    both = {name: {"pays": "step", "worth": 3e4} for name in ("one", "other")}
    text = changed("reward.components", {**GAME["reward"]["components"], **both})
    assert read_game(text)
    with pytest.raises(
        SpecError, match=r"100000000 steps = 3e\+12, all components together 6e\+12; no more than 4.61e"
    ):
        read_game(text.replace("episode_steps: 100", "episode_steps: 100000000"))


def shown(components: int = 1, name: str = "n", **ram: int) -> str:
    """A game with so many components, and a map of these values and what they are below."""
    content = deepcopy(GAME)
    content["ram"] = {
        each: {"at": 0xC000 + 2 * index, "below": below, "size": 2} for index, (each, below) in enumerate(ram.items())
    }
    content["observation"] = {"screen": True}
    content["reward"]["components"] = {f"{name}{index}": {"pays": "step", "worth": 1} for index in range(components)}
    content["map"] = list(ram)
    return yaml.safe_dump(content)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (shown(63, x=2), "reward.components: there are 63, and no more than 62 can be shown"),
        (shown(1, "n" * 100, x=2), "its name has 101 characters, and 1 to 100 can be shown"),
        (shown(1, **{"x" * 101: 2}), "map: its name has 101 characters"),
        (
            shown(1, **{f"x{index}": 2 for index in range(9)}),
            "map: there are 9 values, and no more than 8 can be shown",
        ),
        (shown(1, x=256, y=256), r"map: 256 × 256 = 65536 places, .* 1\d{6} bytes; no more than 1048576 can be shown"),
    ],
)
def test_what_the_dashboard_cannot_show_is_refused(text: str, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        read_game(text)


def test_what_it_can_show_is_taken() -> None:
    assert read_game(shown(62, "ü" * 90, x=180, y=180)).places == 32_400
    assert read_game(shown(1, **{f"x{index}": 2 for index in range(8)})).places == 256


@pytest.mark.parametrize("text", ["", "[]", "a: [", "- 1", "a: 2026-99-99", "[" * 1000])
def test_what_is_no_game_at_all(text: str) -> None:
    with pytest.raises(SpecError):
        read_game(text)


def test_a_key_that_is_written_twice_is_refused() -> None:
    with pytest.raises(SpecError, match="skip stands there twice"):
        read_game(yaml.safe_dump(GAME) + "skip: 8\n")
