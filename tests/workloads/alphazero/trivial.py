"""A second game, which proves that nothing but the protocol is known of a game: Spacing, on a path.

In turn order each seat puts a stone on an empty cell with no stone beside it; one pass is allowed in the whole game, by
whoever takes it first. The game is over when no cell is left to take. Who put the last stone is the best, the seat
before that one the second, and so on round the table. So games differ in length, no two seats are equal, an action
belongs to no cell, the board has a symmetry, and a small board can be solved exactly.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero.game import States, values_of

FACTORY = {"factory": "tests.workloads.alphazero.trivial:make"}


class Spacing:
    """A state is one row: a byte for each cell (1 with a stone), the seat to move, whether the pass was taken."""

    rules_version = 1
    planes = 3

    def __init__(self, cells: int, players: int) -> None:
        self.cells, self.players = cells, players
        self.name = f"spacing {cells} {players}p"
        self.actions = cells + 1
        self.max_plies = (cells + 1) // 2 + 1
        path = np.arange(cells, dtype=np.int32)
        self.graph = np.stack([path - 1, np.where(path + 1 < cells, path + 1, -1)], axis=1).astype(np.int32)
        self.symmetries = np.stack([path, path[::-1]])

    def initial(self, count: int) -> States:
        return np.zeros((count, self.cells + 2), np.int8)

    def to_move(self, states: States) -> NDArray[np.int8]:
        return states[:, self.cells]

    def legal(self, states: States) -> NDArray[np.bool_]:
        free = self._free(states)
        may_pass = free.any(axis=1) & (states[:, self.cells + 1] == 0)
        return np.concatenate([free, may_pass[:, None]], axis=1)

    def apply(self, states: States, actions: NDArray[np.int32]) -> States:
        after = states.copy()
        places = actions < self.cells
        after[places, actions[places]] = 1
        after[~places, self.cells + 1] = 1
        after[:, self.cells] = (states[:, self.cells] + 1) % self.players
        return after

    def terminal(self, states: States) -> NDArray[np.bool_]:
        return ~self._free(states).any(axis=1)

    def ranking(self, states: States) -> NDArray[np.int8]:
        last = states[:, self.cells, None].astype(np.int64) - 1
        return ((last - np.arange(self.players)) % self.players).astype(np.int8)

    def encode(self, states: States) -> NDArray[np.float32]:
        may_pass = np.repeat(states[:, self.cells + 1, None] == 0, self.cells, axis=1)
        return np.stack([states[:, : self.cells] != 0, self._free(states), may_pass], axis=1).astype(np.float32)

    def heuristic(self, states: States) -> NDArray[np.float32]:
        """A nat for every cell that a stone takes away besides its own."""
        free = self._free(states)
        padded = np.pad(free, ((0, 0), (1, 1))).astype(np.float32)
        scores = np.concatenate([padded[:, :-2] + padded[:, 2:], np.zeros((len(states), 1), np.float32)], axis=1)
        return np.where(self.legal(states), scores, -np.inf).astype(np.float32)

    def _free(self, states: States) -> NDArray[np.bool_]:
        stones = np.pad(states[:, : self.cells] != 0, ((0, 0), (1, 1)))
        return np.asarray(~(stones[:, :-2] | stones[:, 1:-1] | stones[:, 2:]))


def make(cells: int = 7, players: int = 2) -> Spacing:
    return Spacing(cells, players)


def order_of(game: Spacing) -> dict[str, Any]:
    """The game as an order of a stage names it."""
    return {**FACTORY, "params": {"cells": game.cells, "players": game.players}}


def solve(game: Spacing, state: States) -> tuple[set[int], NDArray[np.float32]]:
    """The best actions of one state `(1, width)` and the value of every seat, when all play for their own place.

    A seat's place settles everybody's, so that no seat is ever indifferent between different outcomes.
    """

    @cache
    def values(row: bytes) -> tuple[float, ...]:
        state = np.frombuffer(row, np.int8)[None]
        if game.terminal(state)[0]:
            return tuple(values_of(game.ranking(state))[0])
        return max(after(state).values(), key=lambda outcome: outcome[game.to_move(state)[0]])

    def after(state: States) -> dict[int, tuple[float, ...]]:
        actions = np.flatnonzero(game.legal(state)[0])
        return {int(each): values(game.apply(state, np.array([each], np.int32)).tobytes()) for each in actions}

    best = values(state.tobytes())
    return {action for action, outcome in after(state).items() if outcome == best}, np.array(best, np.float32)
