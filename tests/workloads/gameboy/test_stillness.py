"""Who stands still for ever is told from who only stood there when somebody looked."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest

from hostler.workloads.gameboy import stillness
from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.machine import Machine
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.stillness import LOOKS, Stand, Watch

PATIENCE_S = 60.0
HERE, THERE = Stand(0x150, 0xD3), Stand(0x200, 0xFD)


class Looked:
    """A machine that was found standing like that, look after look; it goes on in the end."""

    def __init__(self, *stands: Stand | None) -> None:
        self._stands: Iterator[Stand | None] = iter(stands)
        self.through = Event()

    def stands(self) -> Stand | None:
        try:
            return next(self._stands)
        except StopIteration:
            self.through.set()
            return None


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stillness, "BETWEEN_S", 0.001)


def test_what_goes_on_is_left_alone() -> None:
    told: list[Stand] = []
    machine = Looked(HERE, HERE, None, HERE, *[HERE] * (LOOKS - 2), THERE, None)
    watch = Watch([Looked(), machine], told.append, 0.001)
    assert machine.through.wait(PATIENCE_S)
    watch.close()
    assert told == []


def test_what_stands_still_is_told_once() -> None:
    told, is_told = list[Stand](), Event()
    watch = Watch([Looked(), Looked(*[THERE] * 1000)], lambda stand: (told.append(stand), is_told.set())[0], 0.001)
    assert is_told.wait(PATIENCE_S)
    watch.close()
    assert told == [THERE]


def test_a_machine_that_plays_stands_nowhere(keyrooms: Game, cart: Cartridge) -> None:
    machine = Machine(keyrooms, cart)
    machine.reset()
    for _ in range(50):
        machine.step(4)
        assert machine.stands() is None
    machine.close()
