"""Wrong addresses, sound that is missed, chance from outside: what does not fail by itself is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostler.workloads.gameboy import checks
from hostler.workloads.gameboy.checks import Verdict, check_game
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.homebrew.cartridge import cartridge
from hostler.workloads.gameboy.machine import Machine
from hostler.workloads.gameboy.rom import Cartridge, insert

STEPS = 300
"""Far fewer than a check of its own makes: what is wrong here shows soon."""


def verdicts(game: Game, cart: Cartridge, **more: int) -> dict[str, Verdict]:
    return {each.what: each.verdict for each in check_game(game, cart, **more)}


@pytest.mark.long
def test_our_game_is_what_its_file_says(keyrooms: Game, cart: Cartridge) -> None:
    found = check_game(keyrooms, cart)
    assert not [each for each in found if each.verdict is Verdict.WRONG], found
    good = {each.what for each in found if each.verdict is Verdict.GOOD}
    assert good >= {"ram.x", "ram.y", "ram.room_x", "ram.tile_x", "repeats", "sound"}


def test_an_address_where_nothing_happens_is_told(keyrooms: Game, cart: Cartridge) -> None:
    values = {**keyrooms.values, "y": replace(keyrooms.values["y"], at=0xC0F0)}
    (finding,) = [
        each for each in check_game(replace(keyrooms, values=values), cart, steps=STEPS) if each.what == "ram.y"
    ]
    assert finding.verdict is Verdict.NOTE
    assert "is 0 all the time, for 300 steps: the address 0xc0f0 is wrong" in finding.words


@pytest.mark.long
def test_a_value_that_is_too_large_is_wrong(keyrooms: Game, cart: Cartridge) -> None:
    values = {**keyrooms.values, "y": replace(keyrooms.values["y"], below=70)}
    first, *_ = check_game(replace(keyrooms, values=values), cart, steps=STEPS)
    assert (first.what, first.verdict) == ("ram.y", Verdict.WRONG)
    assert "is to be below 70" in first.words


@pytest.mark.long
def test_a_game_that_waits_for_sound_needs_it(keyrooms: Game) -> None:
    waits = insert(cartridge(busy=0, sound_wait=True))
    assert verdicts(keyrooms, waits, steps=STEPS)["sound"] is Verdict.WRONG
    assert verdicts(replace(keyrooms, sound=True), waits, steps=STEPS)["sound"] is Verdict.GOOD


def test_sound_that_nothing_waits_for_is_worth_a_note(keyrooms: Game, cart: Cartridge) -> None:
    assert verdicts(replace(keyrooms, sound=True), cart, steps=STEPS)["sound"] is Verdict.NOTE


def test_a_game_that_does_not_repeat_itself_is_wrong(
    keyrooms: Game, cart: Cartridge, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, lives = Machine.memory, []

    class Strange(Machine):
        def __init__(self, *asked: object, **more: object) -> None:
            super().__init__(*asked, **more)  # type: ignore[arg-type]
            lives.append(self)

        def memory(self) -> bytes:
            return bytes([len(lives) % 4, *real(self)[1:]])

    monkeypatch.setattr(checks, "Machine", Strange)
    assert verdicts(keyrooms, cart, steps=50)["repeats"] is Verdict.WRONG
