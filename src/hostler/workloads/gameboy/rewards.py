"""What steps are worth: components, for many machines at once, in whole millionths that add up exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.gameboy.game import MICRO, Component, Game, Pays, combinations

Numbers: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Paid: TypeAlias = Callable[[Numbers, Numbers], Numbers]


class Rewards:
    """The reward of each step of each machine, and what of an episode's came from where."""

    def __init__(self, game: Game, machines: int, others: Sequence[str] = ()) -> None:
        """`others`: components that are not the game's, paid by `add`."""
        self.names = (*(each.name for each in game.reward.components), *others)
        self.totals: Numbers = np.zeros((machines, len(self.names)), np.int64)
        """What each component has paid in this episode, in millionths."""
        self._parts = [_Part(game, each, machines) for each in game.reward.components]

    def begin(self, machine: int, values: Numbers) -> None:
        """An episode of a machine begins with these values: what is there already earns nothing."""
        self.totals[machine] = 0
        for part in self._parts:
            part.begin(machine, values)

    def step(self, before: Numbers, after: Numbers) -> Numbers:
        """Millionths per machine for getting from values, `[machines, values]`, to others."""
        reward = np.zeros(len(before), np.int64)
        moved = (before != after).any(axis=0).tolist()
        for index, part in enumerate(self._parts):
            if part.can_pay(moved):
                paid = part.step(before, after, self.totals[:, index])
                self.totals[:, index] += paid
                reward += paid
        return reward

    def add(self, name: str, paid: Numbers) -> None:
        """Another component has paid so much, in millionths, for the same step."""
        self.totals[:, self.names.index(name)] += paid


def numbering(game: Game, of: Sequence[str]) -> Numbers:
    """What all values of a game are multiplied with so that their sum is another number for each combination of these.

    The last of them counts by ones.
    """
    order, factors, factor = list(game.values), np.zeros(len(game.values), np.int64), 1
    for name in reversed(of):
        factors[order.index(name)] += factor
        factor *= game.values[name].below
    return factors


def as_floats(millionths: Numbers) -> npt.NDArray[np.float32]:
    """As learners want them."""
    return (millionths / MICRO).astype(np.float32)


@dataclass(slots=True)
class Shares:
    """How much of all that was paid, and taken, came from each component."""

    names: tuple[str, ...]
    alarm_share: float
    paid: list[int] = field(default_factory=list)

    def add(self, totals: Sequence[int]) -> None:
        """The totals of an episode that is over."""
        if not self.paid:
            self.paid = [0] * len(self.names)
        self.paid = [old + abs(int(new)) for old, new in zip(self.paid, totals, strict=True)]

    @property
    def shares(self) -> dict[str, float]:
        """By component, of the sum of their amounts; empty where nothing was paid yet."""
        whole = sum(self.paid)
        return {name: part / whole for name, part in zip(self.names, self.paid, strict=True)} if whole else {}

    @property
    def alarms(self) -> tuple[str, ...]:
        """Components that make up more than they should: the policy may have learnt those and nothing else."""
        return tuple(name for name, share in self.shares.items() if share > self.alarm_share)


class _Part:
    """One component."""

    def __init__(self, game: Game, component: Component, machines: int) -> None:
        order = list(game.values)
        self._columns = [order.index(each) for each in component.of]
        self._component = component
        self._amount = _AMOUNTS[component.pays]
        self._numbering = numbering(game, component.of)
        is_first = component.pays is Pays.FIRST
        self._seen: Flags = np.zeros((machines, combinations(game, component.of) if is_first else 0), np.bool_)
        self._rows = np.arange(machines)

    def begin(self, machine: int, values: Numbers) -> None:
        if self._component.pays is Pays.FIRST:
            self._seen[machine] = False
            self._seen[machine, values @ self._numbering] = True

    def can_pay(self, moved: Sequence[bool]) -> bool:
        """Whether any machine may have something coming, by which values are others now: mostly none are."""
        return self._component.pays is Pays.STEP or any(moved[column] for column in self._columns)

    def step(self, before: Numbers, after: Numbers, total: Numbers) -> Numbers:
        component = self._component
        paid = self._amount(self, before, after) * component.worth
        if component.once:
            paid = np.where(total == 0, paid, 0)
        if component.cap is not None:
            paid = np.clip(total + paid, -component.cap, component.cap) - total
        return paid

    def first(self, before: Numbers, after: Numbers) -> Numbers:
        places = after @ self._numbering
        fresh: Flags = ~self._seen[self._rows, places]
        self._seen[self._rows, places] = True
        return fresh.astype(np.int64)

    def rise(self, before: Numbers, after: Numbers) -> Numbers:
        (column,) = self._columns
        gained: Numbers = np.maximum(after[:, column] - before[:, column], 0)
        return gained

    def fall(self, before: Numbers, after: Numbers) -> Numbers:
        (column,) = self._columns
        lost: Numbers = np.maximum(before[:, column] - after[:, column], 0)
        return lost

    def reach(self, before: Numbers, after: Numbers) -> Numbers:
        (column,) = self._columns
        wanted = self._component.value
        reached: Numbers = ((after[:, column] == wanted) & (before[:, column] != wanted)).astype(np.int64)
        return reached

    def every(self, before: Numbers, after: Numbers) -> Numbers:
        return np.ones(len(after), np.int64)


_AMOUNTS: dict[Pays, Callable[[_Part, Numbers, Numbers], Numbers]] = {
    Pays.FIRST: _Part.first,
    Pays.RISE: _Part.rise,
    Pays.FALL: _Part.fall,
    Pays.REACH: _Part.reach,
    Pays.STEP: _Part.every,
}
