"""Somebody who plays key rooms on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hostler.workloads.gameboy.game import Game
from hostler.workloads.gameboy.homebrew.cartridge import cartridge
from hostler.workloads.gameboy.machine import Layout, Machine
from hostler.workloads.gameboy.rom import insert

FRAMES_MAX = 400


class Walker:
    """One machine, its buttons by their names, its values by theirs."""

    TOUR: ClassVar = (*["right"] * 3, "down", *["left"] * 3, "down", *["right"] * 3, "down", *["left"] * 3)
    """Through all rooms, to the middle of each; the chest is in the last."""

    def __init__(self, game: Game) -> None:
        self._game = replace(game, skip=1, actions=("noop", "up", "down", "left", "right", "a", "b", "start"))
        self._machine = Machine(self._game, insert(cartridge(busy=0)))
        self._layout = Layout(tuple(game.values.values()))

    def __getitem__(self, name: str) -> int:
        memory = np.frombuffer(self._machine.memory(), np.uint8)[None]
        return int(self._layout.numbers(memory)[0, list(self._game.values).index(name)])

    @property
    def place(self) -> tuple[int, int]:
        """The room."""
        return self["room_x"], self["room_y"]

    def hold(self, button: str, frames: int) -> None:
        """For so many frames, and let go."""
        for _ in range(frames):
            self._machine.step(self._game.actions.index(button))
        for _ in range(2):
            self._machine.step(0)

    def go(self, button: str) -> None:
        """Through the door on that side, from the middle of the room."""
        before = self.place
        for _ in range(FRAMES_MAX):
            if self.place != before:
                break
            self.hold(button, 1)
        assert self.place != before, f"{button} leads nowhere from {before}"
        for _ in range(3):  # the screen was off
            self._machine.step(0)

    def home(self) -> None:
        """To the middle of the room, as near as steps of two pixels come."""
        for name, middle, less, more in (("x", 76, "left", "right"), ("y", 68, "up", "down")):
            for _ in range(FRAMES_MAX):
                if abs(self[name] - middle) < 2:
                    break
                self.hold(less if self[name] > middle else more, 1)

    def state(self) -> bytes:
        """All of the machine."""
        return self._machine.state()

    def picture(self) -> npt.NDArray[np.uint8]:
        """What is to be seen."""
        self._machine.step(0, render=True)
        return self._machine.screen().copy()

    def close(self) -> None:
        """Let go of it."""
        self._machine.close()
