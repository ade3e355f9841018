"""The game that tests play: ours, with nothing to do between two frames."""

from __future__ import annotations

from importlib.resources import files

import pytest

from hostler.workloads.gameboy.game import Game, read_game
from hostler.workloads.gameboy.homebrew.cartridge import cartridge
from hostler.workloads.gameboy.rom import Cartridge, insert


@pytest.fixture(scope="session")
def keyrooms() -> Game:
    """What its file says."""
    return read_game(files("hostler.workloads.gameboy.homebrew").joinpath("keyrooms.yaml").read_text())


@pytest.fixture(scope="session")
def cart() -> Cartridge:
    """Its cartridge, quick to emulate."""
    return insert(cartridge(busy=0))
