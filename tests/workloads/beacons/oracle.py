"""Beacons as plainly as it can be said: sets, flood fill, sorted lists; neighbours are the cells one step away."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cache
from math import dist, sqrt

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.beacons.boards import board

ROWS = {
    "hex4": [3, 4, 5, 4, 3],
    "hex6": [4, 5, 6, 7, 6, 5, 4],
    "hex8": [5, 6, 7, 8, 9, 8, 7, 6, 5],
    "hexagonal": [*range(13, 25), *range(25, 12, -1)],
    "square5": [5] * 5,
    "square8": [8] * 8,
    "square19": [19] * 19,
}


@cache
def places(name: str) -> list[tuple[float, float]]:
    """Where the middle of each cell lies: rows are centred, one unit between the cells of a row."""
    height = sqrt(3) / 2 if name.startswith("hex") else 1.0
    return [(x - (n - 1) / 2, y * height) for y, n in enumerate(ROWS[name]) for x in range(n)]


@cache
def neighbours(name: str) -> list[set[int]]:
    """The cells one unit away from each cell."""
    at = places(name)
    return [{j for j, there in enumerate(at) if abs(dist(here, there) - 1) < 1e-6} for here in at]


@dataclass(frozen=True)
class Position:
    """`sides` holds the cells of each side, in turn order; the first plays first."""

    name: str
    sides: tuple[frozenset[int], ...]
    swapped: bool = False
    beacons: frozenset[int] = field(default=frozenset(), compare=False)

    @property
    def players(self) -> int:
        return len(self.sides)

    @property
    def stones(self) -> int:
        return sum(map(len, self.sides))

    @property
    def empty(self) -> set[int]:
        return set(range(len(places(self.name)))) - {cell for side in self.sides for cell in side}

    @property
    def side_to_move(self) -> int:
        return self.stones % self.players

    def seat_of(self, side: int) -> int:
        return 1 - side if self.swapped else side

    def legal(self) -> set[int]:
        swap = {len(places(self.name))} if self.players == 2 and self.stones == 1 and not self.swapped else set()
        return self.empty | swap

    def play(self, action: int) -> Position:
        assert action in self.legal()
        if action == len(places(self.name)):
            return replace(self, swapped=True)
        sides = list(self.sides)
        sides[self.side_to_move] |= {action}
        return replace(self, sides=tuple(sides))

    def groups(self, side: int) -> list[set[int]]:
        left, found = set(self.sides[side]), []
        while left:
            group = flood(self.name, left, left.pop())
            left -= group
            found.append(group)
        return found

    def measure(self, group: set[int]) -> tuple[int, int]:
        return len(group & self.beacons), len(group)

    def value(self, side: int) -> list[tuple[int, int]]:
        return sorted(map(self.measure, self.groups(side)), reverse=True)

    def ranking(self) -> list[int]:
        """The place of each seat."""
        order = sorted(range(self.players), key=lambda side: (self.value(side), side), reverse=True)
        place = {self.seat_of(side): at for at, side in enumerate(order)}
        return [place[seat] for seat in range(self.players)]

    def group_with(self, cell: int, side: int) -> tuple[int, int]:
        """What the group of `cell` would be if `side` had a stone there."""
        return self.measure(flood(self.name, set(self.sides[side]), cell))


def flood(name: str, within: set[int], start: int) -> set[int]:
    """The cells of `within` that are connected to `start`, and `start`."""
    group, todo = {start}, [start]
    while todo:
        new = neighbours(name)[todo.pop()] & within - group
        group |= new
        todo += new
    return group


def start(name: str, players: int) -> Position:
    """The empty board."""
    beacons = frozenset(np.flatnonzero(board(name).beacons).tolist())
    return Position(name, (frozenset(),) * players, beacons=beacons)


def from_state(name: str, players: int, state: NDArray[np.int8]) -> Position:
    """A state read by its documentation: 1 + side per cell, and whether the sides were swapped."""
    sides = tuple(frozenset(np.flatnonzero(state[:-1] == side + 1).tolist()) for side in range(players))
    return replace(start(name, players), sides=sides, swapped=bool(state[-1]))
