"""Our cartridge in a real emulator: rooms, doors, keys, the chest; always the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.homebrew import cartridge as homebrew
from tests.workloads.gameboy.walking import Walker


@pytest.fixture
def walker(keyrooms: Game) -> Iterator[Walker]:
    """Somebody who plays it."""
    made = Walker(keyrooms)
    yield made
    made.close()


def test_a_door_leads_to_the_next_room_and_back(walker: Walker) -> None:
    assert walker.place == (0, 0)
    walker.go("right")
    assert walker.place == (1, 0)
    walker.go("left")
    assert walker.place == (0, 0)


def test_there_is_no_way_through_a_wall(walker: Walker) -> None:
    walker.hold("up", 60)
    assert (walker["room_y"], walker["y"]) == (0, 8)
    walker.hold("left", 60)
    assert (walker["room_x"], walker["x"]) == (0, 8)


def test_a_locked_door_takes_a_key_and_stays_open(walker: Walker) -> None:
    for _ in range(3):
        walker.go("right")
        walker.home()
    assert (walker["keys"], walker["taken"], walker["opened"]) == (1, 1, 0), "one lay on the way"
    walker.go("down")
    assert (walker.place, walker["keys"], walker["opened"]) == ((3, 1), 0, 1)
    walker.go("up")
    walker.go("down")
    assert (walker.place, walker["opened"]) == ((3, 1), 1)


def test_a_locked_door_without_a_key_is_a_wall(walker: Walker) -> None:
    walker.go("right")
    walker.go("right")
    walker.hold("up", 20)  # past the key
    assert walker["y"] < 58
    walker.hold("right", 40)
    walker.hold("down", 20)
    walker.go("right")
    walker.home()
    walker.hold("down", 60)
    assert (walker.place, walker["taken"]) == ((3, 0), 0)


def test_all_rooms_can_be_reached_and_the_chest_opened(walker: Walker) -> None:
    places = {walker.place}
    for button in walker.TOUR:
        walker.go(button)
        places.add(walker.place)
        walker.home()
    assert len(places) == homebrew.ROOMS
    assert (walker["taken"], walker["opened"], walker["goal"]) == (4, 4, 0)
    walker.hold("a", 2)
    assert walker["goal"] == 1


def test_start_halts_the_game_until_it_is_pressed_again(walker: Walker) -> None:
    walker.hold("start", 2)
    walker.hold("right", 30)
    assert walker["x"] == 76
    walker.hold("start", 2)
    walker.hold("right", 10)
    assert walker["x"] > 76


def test_the_same_buttons_lead_to_the_same_state(keyrooms: Game) -> None:
    states = []
    for _ in range(2):
        player = Walker(keyrooms)
        for button in ("right", "down", "a", "right", "up"):
            player.hold(button, 17)
        states.append(player.state())
        player.close()
    assert states[0] == states[1]


def test_a_cartridge_is_the_same_everywhere() -> None:
    assert homebrew.cartridge() == homebrew.cartridge.__wrapped__()
    assert len({homebrew.cartridge(), homebrew.cartridge(cgb=True), homebrew.cartridge(sound_wait=True)}) == 3


def test_rooms_look_different(walker: Walker) -> None:
    before = walker.picture()
    walker.go("right")
    assert (before != walker.picture()).any()
