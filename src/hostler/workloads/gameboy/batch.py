"""Several machines in one process, stepped one after the other, seen and rewarded all at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.gameboy.advice.advised import Advised
from hostler.workloads.gameboy.advice.counts import News
from hostler.workloads.gameboy.advice.settings import COMPONENT
from hostler.workloads.gameboy.game import Game, over_at_once
from hostler.workloads.gameboy.machine import Layout, Machine
from hostler.workloads.gameboy.pictures import Greys
from hostler.workloads.gameboy.rewards import Rewards, as_floats, numbering
from hostler.workloads.gameboy.rom import Cartridge
from hostler.workloads.gameboy.seeing import Eyes
from hostler.workloads.gameboy.spent import Spent, clock

Features: TypeAlias = npt.NDArray[np.float32]
Screens: TypeAlias = npt.NDArray[np.uint8]


class WrongValue(RuntimeError):
    """A value of the memory is one that it cannot have: its address is wrong, or what it is below."""


class OverAtOnce(WrongValue):
    """Episodes would be over where they begin."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One that is over; what components have paid is in millionths."""

    steps: int
    ended: bool
    """`False`: it was cut off at `episode_steps`."""
    parts: tuple[int, ...]
    places: tuple[int, ...]
    """Numbers of the places that it came to."""
    gross: int = 0
    """What advice has paid and what it has taken, together; among the parts is the difference."""

    @property
    def amounts(self) -> tuple[int, ...]:
        """What each component has moved: advice pays and takes back, and its sum alone would tell little of it."""
        return (*self.parts[:-1], self.gross) if self.gross else self.parts

    @property
    def total(self) -> int:
        """The sum of all rewards, in millionths."""
        return sum(self.parts)


@dataclass(frozen=True, slots=True)
class Step:
    """What came of a step, one entry per machine; an episode that is over was begun anew."""

    reward: npt.NDArray[np.float32]
    ended: npt.NDArray[np.bool_]
    """The game is over: nothing comes after it."""
    cut: npt.NDArray[np.bool_]
    """The episode was long enough: something would come after it, from `last`."""
    last: dict[int, tuple[Features, Screens | None]]
    """By machine whose episode is over: what was seen at its end."""
    episodes: Sequence[Episode]
    picture: Greys | None = None


class Batch:
    """Machines with the same game. What is seen of them lies in `features` and `screens`, rewritten by each step."""

    def __init__(self, game: Game, cartridge: Cartridge, machines: int, advised: Advised | None = None) -> None:
        self.game = game
        self.machines = [Machine(game, cartridge) for _ in range(machines)]
        self._layout = Layout(tuple(game.values.values()))
        self._eyes = Eyes(game)
        self._advised = advised
        self._rewards = Rewards(game, machines, () if advised is None else advised.components)
        self._bounds = np.array([each.below for each in game.values.values()], np.int64)
        order = list(game.values)
        self._ends = [(order.index(each.of), each.value) for each in game.ends]
        self._map = numbering(game, game.map)
        self._memory = bytearray(machines * self._layout.bytes)
        self._bytes = np.frombuffer(self._memory, np.uint8).reshape(machines, self._layout.bytes)
        self._values = np.zeros((machines, len(game.values)), np.int64)
        self._places = np.zeros((machines, game.places), np.bool_)
        self._rows = np.arange(machines)
        self._steps = np.zeros(machines, np.int64)
        self.spent = Spent()
        extra = 0 if advised is None else advised.width
        self.features: Features = np.zeros((machines, self._eyes.width + extra), np.float32)
        self._of_values, self._of_advice = np.split(self.features, [self._eyes.width], axis=1)
        shape = game.screen
        self.screens: Screens | None = (
            None if shape is None else np.zeros((machines, shape.height, shape.width), np.uint8)
        )

    def reset(self) -> None:
        """Begin an episode on every machine. Raises `WrongValue`, also where it would be over at once."""
        for index in range(len(self.machines)):
            self._begin(index)
        fault = over_at_once(self.game, self._values[0])
        if fault is not None:
            raise OverAtOnce(fault)

    def parts(self, machine: int) -> dict[str, int]:
        """What each component has paid in the episode of a machine so far, in millionths."""
        return dict(zip(self._rewards.names, map(int, self._rewards.totals[machine]), strict=True))

    def step(
        self, actions: Sequence[int] | npt.NDArray[np.int8], *, restart: bool = True, shown: int | None = None
    ) -> Step:
        """One action for each machine; with `restart`, the next episode begins where one is over.

        Of the machine `shown` there is a picture in what comes of it. Raises `WrongValue`.
        """
        before, begun = self._values, clock()
        self._play(actions, shown)
        picture = None if shown is None else self.machines[shown].screen()
        played = clock()
        self._values = self._checked(self._layout.numbers(self._bytes))
        reward = self._rewards.step(before, self._values)
        self._places[self._rows, self._values @ self._map] = True
        self._steps += 1
        ended = self._over()
        cut = (self._steps >= self.game.episode_steps) & ~ended
        self._eyes.see(self._values, self._of_values)
        if self._advised is not None:
            self._advise(self._advised, reward, ended)
        last: dict[int, tuple[Features, Screens | None]] = {}
        episodes = []
        for index in map(int, np.nonzero(ended | cut)[0]):
            episodes.append(self._episode(index, ended=bool(ended[index])))
            if restart:
                last[index] = self._seen(index)
                self._begin(index)
        self.spent.emulate += played - begun
        self.spent.encode += clock() - played
        return Step(as_floats(reward), ended, cut, last, episodes, picture)

    def learnt(self, updates: int) -> None:
        """The policy that plays from now on was updated so often: advice may be worth less to it."""
        if self._advised is not None:
            self._advised.learnt(updates)

    def news(self) -> News | None:
        """What has become of calls for advice since this was asked last; `None`: there is no advice."""
        return None if self._advised is None else self._advised.news()

    def close(self) -> None:
        """Let go of the machines."""
        if self._advised is not None:
            self._advised.close()
        for each in self.machines:
            each.close()

    def _advise(self, advised: Advised, reward: npt.NDArray[np.int64], ended: npt.NDArray[np.bool_]) -> None:
        paid = advised.step(self._values, ended, self._of_advice)
        if paid is not None:
            self._rewards.add(COMPONENT, paid)
            reward += paid

    def _play(self, actions: Sequence[int] | npt.NDArray[np.int8], shown: int | None) -> None:
        width, screens = self._layout.bytes, self.screens
        for index, (machine, action) in enumerate(zip(self.machines, np.asarray(actions).tolist(), strict=True)):
            machine.step(action, render=screens is not None or index == shown)
            self._memory[index * width : (index + 1) * width] = machine.memory()
            if screens is not None:
                screens[index] = machine.screen()

    def _checked(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        wrong = values >= self._bounds
        if wrong.any():
            machine, column = (int(each[0]) for each in np.nonzero(wrong))
            value = list(self.game.values.values())[column]
            raise WrongValue(
                f"{value.name} at {value.where} is {values[machine, column]}, and is always below {value.below} as "
                "`ram` has it: the address is wrong, or the bound"
            )
        return values

    def _over(self) -> npt.NDArray[np.bool_]:
        ended = np.zeros(len(self.machines), np.bool_)
        for column, value in self._ends:
            ended |= self._values[:, column] == value
        return ended

    def _episode(self, index: int, *, ended: bool) -> Episode:
        return Episode(
            steps=int(self._steps[index]),
            ended=ended,
            parts=tuple(map(int, self._rewards.totals[index])),
            places=tuple(map(int, np.nonzero(self._places[index])[0])),
            gross=0 if self._advised is None else self._advised.spent(index),
        )

    def _seen(self, index: int) -> tuple[Features, Screens | None]:
        return self.features[index].copy(), None if self.screens is None else self.screens[index].copy()

    def _begin(self, index: int) -> None:
        machine, width, row = self.machines[index], self._layout.bytes, slice(index, index + 1)
        machine.reset()
        self._memory[index * width : (index + 1) * width] = machine.memory()
        self._values[row] = self._checked(self._layout.numbers(self._bytes[row]))
        self._steps[index] = 0
        self._rewards.begin(index, self._values[index])
        self._places[index] = False
        self._places[index, self._values[index] @ self._map] = True
        self._eyes.see(self._values[row], self._of_values[row])
        if self._advised is not None:
            self._advised.begin(index, self._values[row], self._of_advice[row])
        if self.screens is not None:
            self.screens[index] = machine.screen()
