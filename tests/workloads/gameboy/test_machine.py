"""Machines with cartridges as people have them: with batteries, and with states that were kept at any moment."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hostler.workloads.gameboy.game import Game, Value
from hostler.workloads.gameboy.homebrew.cartridge import cartridge
from hostler.workloads.gameboy.machine import Layout, Machine
from hostler.workloads.gameboy.rom import Cartridge, insert
from hostler.workloads.gameboy.strict import SpecError

KIND, RAM = 0x147, 0x149
NOOP, RIGHT = 0, 4


def of_kind(cart: Cartridge, kind: int, ram: int = 0) -> Cartridge:
    """Our cartridge, whose header tells another board."""
    rom = bytearray(cart.rom)
    rom[0x14D] = (rom[0x14D] + rom[KIND] + rom[RAM] - kind - ram) & 0xFF
    rom[KIND], rom[RAM] = kind, ram
    return insert(bytes(rom))


@pytest.mark.parametrize(("kind", "ram"), [(0x03, 2), (0x06, 0), (0x10, 3), (0x13, 3), (0x1B, 2)])
def test_cartridges_with_a_battery_are_played(keyrooms: Game, cart: Cartridge, kind: int, ram: int) -> None:
    """Nearly every game that keeps anything has one; there is nothing in its memory yet."""
    machine = Machine(keyrooms, of_kind(cart, kind, ram))
    machine.reset()
    before = machine.memory()
    machine.step(RIGHT)
    assert machine.memory() != before
    machine.close()


@pytest.mark.parametrize(("kind", "ram"), [(0xFC, 0), (0x03, 9)])
def test_a_board_that_nobody_can_play_is_said(keyrooms: Game, cart: Cartridge, kind: int, ram: int) -> None:
    with pytest.raises(SpecError, match="PyBoy cannot take the ROM"):
        Machine(keyrooms, of_kind(cart, kind, ram))


def test_values_in_banks_are_read_whatever_bank_is_there(keyrooms: Game) -> None:
    banked = {
        "here": Value("here", 0xD010, 1, 256),
        "two": Value("two", 0xD010, 2, 65_536, bank=2),
        "near": Value("near", 0xD014, 1, 256, bank=2),
        "seven": Value("seven", 0xDFFE, 1, 256, bank=7),
    }
    game = replace(keyrooms, values={**keyrooms.values, **banked})
    machine, layout = Machine(game, insert(cartridge(busy=0, cgb=True))), Layout(tuple(game.values.values()))
    machine.reset()
    inside = machine._pyboy.memory
    for bank, at, byte in (
        (1, 0xD010, 5),
        (2, 0xD010, 7),
        (2, 0xD011, 1),
        (2, 0xD014, 9),
        (7, 0xDFFE, 11),
        (3, 0xD010, 6),
    ):
        inside[bank, at] = byte
    assert len(layout.pieces) == 4, "one for each bank, and one for what lies elsewhere"
    for there, wanted in ((1, 5), (3, 6)):
        inside[0xFF70] = there
        numbers = layout.numbers(np.frombuffer(machine.memory(), np.uint8)[None])[0].tolist()
        assert numbers[-4:] == [wanted, 7 + 256, 9, 11]
    machine.close()


def test_banks_are_of_a_game_boy_color(keyrooms: Game, cart: Cartridge) -> None:
    game = replace(keyrooms, values={**keyrooms.values, "x": Value("x", 0xD010, 1, 256, bank=2)})
    with pytest.raises(SpecError, match=r"ram.x.bank: there are banks on a Game Boy Color only.*`mode: cgb`"):
        Machine(game, cart)


def test_a_button_that_was_down_when_a_state_was_kept_is_let_go(keyrooms: Game, cart: Cartridge) -> None:
    machine = Machine(keyrooms, cart)
    machine.reset()
    machine.step(RIGHT)
    state = machine.state()
    machine.close()
    again = Machine(keyrooms, insert(cart.rom, state))
    for _ in range(2):
        again.reset()
        before = again.memory()
        again.step(NOOP)
        again.step(NOOP)
        assert again.memory()[:4] == before[:4], "where the player is"
    again.step(RIGHT)
    assert again.memory()[:4] != before[:4]
    again.close()


def test_a_state_that_is_none_is_said(keyrooms: Game, cart: Cartridge) -> None:
    machine = Machine(keyrooms, cart)
    state = machine.state()
    machine.close()
    for wrong in (state[: len(state) // 2], state[:6] + b"\x77" * len(state), b"\xfa" + state[1:]):
        with pytest.raises(SpecError, match="PyBoy cannot load the state"):
            Machine(keyrooms, insert(cart.rom, wrong))
