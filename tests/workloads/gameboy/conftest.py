"""The game that tests play: ours, with nothing to do between two frames."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files

import pytest
import torch

from hostler.workloads.gameboy.game import Game, read_game
from hostler.workloads.gameboy.homebrew.cartridge import cartridge
from hostler.workloads.gameboy.rom import Cartridge, insert


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for a core that others have wait for each other, and a test for minutes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def keyrooms() -> Game:
    """What its file says."""
    return read_game(files("hostler.workloads.gameboy.homebrew").joinpath("keyrooms.yaml").read_text())


@pytest.fixture(scope="session")
def cart() -> Cartridge:
    """Its cartridge, quick to emulate."""
    return insert(cartridge(busy=0))
