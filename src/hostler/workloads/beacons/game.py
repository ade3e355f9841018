"""Beacons, the reference game of the self-improvement loop.

In turn order every side places one stone on any empty cell until the board is full. The value of a side is the list of
its connected groups as (beacons held, size), sorted descending; lists are compared from the front, and where one
ends first it is the lower. Where they are equal the later side in turn order ranks higher, so that there are no draws.

With two players, whoever moves second may swap instead of placing the second stone: the *sides* change hands, the
stones stay. Seats are players: seat 0 places the first stone, and after a swap seat 1 has it as its own, seat 0 places
the second stone, and seat 0 now is the later side. `to_move` and `ranking` always speak of seats.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.beacons import render, rules
from hostler.workloads.beacons.boards import board as board_named
from hostler.workloads.beacons.configs import RULES_VERSION, checked

States: TypeAlias = NDArray[np.int8]

SWAP = "swap"
SHOWN = 8  # groups of a seat that people are told of


def make(board: str, players: int) -> Beacons:
    """The game on the board of that name; raises `ValueError` naming what is wrong."""
    return Beacons(**checked({"board": board, "players": players}))


class Beacons:
    """One board and a number of players, as the protocols `Game` and `PlaysOut` of the learner want it.

    A state is `cells + 1` bytes: 0 for an empty cell, 1 + the side for a stone; last, 1 if the sides were swapped.
    Every method raises `ValueError` for arrays that cannot be positions of this game, such as those of another board.
    """

    rules_version = RULES_VERSION

    def __init__(self, board: str, players: int) -> None:
        self.board = board_named(board)
        self.name = f"beacons {board} {players}p"
        self.players = players
        self.graph = self.board.graph
        self.symmetries = self.board.symmetries
        self.cells = len(self.graph)
        self.actions = self.cells + (players == 2)
        self.max_plies = self.actions
        self.planes = len(self.plane_names)
        self._behind = _lower_neighbours(self.graph)
        self._nearness = _nearness(self.graph, self.board.beacons)

    def initial(self, count: int) -> States:
        """`count` empty boards."""
        return np.zeros((count, self.cells + 1), np.int8)

    def to_move(self, states: States) -> NDArray[np.int8]:
        """`(batch,)`: the seat whose turn it is."""
        seats = np.empty(len(states), np.int8)
        rules.to_move(self._checked(states), self.players, seats)
        return seats

    def legal(self, states: States) -> NDArray[np.bool_]:
        """`(batch, actions)`: the empty cells; the swap, which is action `cells`, as the second ply of two players."""
        actions = np.empty((len(states), self.actions), np.bool_)
        rules.legal(self._checked(states), self.players, actions)
        return actions

    def apply(self, states: States, actions: NDArray[np.int32]) -> States:
        """The positions after one legal action each."""
        after = np.empty((len(states), self.cells + 1), np.int8)
        actions = np.ascontiguousarray(actions, np.int32)
        if actions.shape != (len(states),) or (len(actions) and not 0 <= actions.min() <= actions.max() < self.actions):
            raise ValueError(f"{self.name}: one action of 0 to {self.actions - 1} for each of {len(states)} positions")
        rules.play(self._checked(states), actions, self.players, after)
        return after

    def terminal(self, states: States) -> NDArray[np.bool_]:
        """`(batch,)`: whether the board is full."""
        over = np.empty(len(states), np.bool_)
        rules.full(self._checked(states), over)
        return over

    def ranking(self, states: States) -> NDArray[np.int8]:
        """`(batch, players)`: the place of each seat, 0 the best."""
        ranking = np.empty((len(states), self.players), np.int8)
        rules.rank(self._checked(states), self._behind, self.board.beacons, ranking)
        return ranking

    def playouts(self, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.int8]:
        """`(batch, players)`: the ranking after a game of uniformly random legal actions from each position."""
        ranking = np.empty((len(states), self.players), np.int8)
        seeds = np.ascontiguousarray(seeds, np.uint64)
        if seeds.shape != (len(states),):
            raise ValueError(f"{self.name}: {len(states)} positions, but seeds of shape {seeds.shape}")
        rules.play_out(self._checked(states), seeds, self._behind, self.board.beacons, ranking)
        return ranking

    def encode(self, states: States) -> NDArray[np.float32]:
        """`(batch, planes, cells)`, in the order of `plane_names`, as the seat to move sees the position.

        Seats come in turn order from the seat to move, which is 0. Beacons are counted in halves of all beacons, sizes
        in halves of all cells. What a network of few layers could hardly see for itself is worked out for it: the
        group that each stone belongs to, the group that each seat would have if it played on an empty cell, and,
        the same in all cells, the greatest group of each seat, the share of cells taken and whether a swap is allowed.
        """
        planes = np.empty((len(states), self.planes, self.cells), np.float32)
        rules.encode(self._checked(states), self.graph, self._behind, self.board.beacons, self.players, planes)
        return planes

    def heuristic(self, states: States) -> NDArray[np.float32]:
        """`(batch, actions)`: the fast engine's scores in nats, `-inf` where an action is illegal.

        A stone is worth what the own groups gain by it, nine tenths of what the other side that would gain most there
        loses, and a little for beacons nearby; groups count by the square of their beacons, with more players by
        the cube. A first stone that may be swapped away should lie on the edge and on no beacon, and is swapped if not.
        """
        scores = np.empty((len(states), self.actions), np.float32)
        board = (self.graph, self._behind, self.board.beacons, self._nearness)
        rules.judge(self._checked(states), *board, self.players, scores)
        return scores

    @property
    def plane_names(self) -> list[str]:
        """What each plane of `encode` holds."""
        seats = [f"seat {turn}" for turn in range(self.players)]
        return [
            *(f"stones of {seat}" for seat in seats),
            "empty cells",
            "beacons",
            *(f"{what} of the stone's group" for what in ("beacons", "size")),
            *(f"{what} of the group {seat} would have here" for seat in seats for what in ("beacons", "size")),
            *(f"{what} of the greatest group of {seat}" for seat in seats for what in ("beacons", "size")),
            "share of cells taken",
            "whether the sides may be swapped",
        ]

    def action_name(self, action: int) -> str:
        """Such as `d5`, or `swap`."""
        return SWAP if action == self.cells else self.board.names[action]

    def action_of(self, name: str) -> int:
        """The action of that name; raises `ValueError` if there is none."""
        if self.players == 2 and name.strip().lower() == SWAP:
            return self.cells
        return render.cell_of(self.board, name)

    def text(self, state: NDArray[np.int8]) -> str:
        """A position for people: the board, and each seat's stones and greatest groups, who is to move."""
        moving = int(self.to_move(state[None])[0])
        over = bool(self.terminal(state[None])[0])
        seats = [self._seat_text(state, seat, seat == moving and not over) for seat in range(self.players)]
        heading = "groups of each seat, as beacons:stones" + ("" if over else "; > is to move")
        return "\n".join([render.board_text(self.board, state), "", heading, *seats])

    def _checked(self, states: States) -> States:
        """The states as kernels take them, which trust them: refuses what is no position of this game."""
        states = np.ascontiguousarray(states, np.int8)
        if states.shape[1:] != (self.cells + 1,):
            raise ValueError(f"{self.name}: positions have {self.cells + 1} bytes each, not shape {states.shape}")
        damage = np.zeros(1, np.int64)
        rules.count_damage(states, self.players, damage)
        if damage[0]:
            raise ValueError(f"{self.name}: {damage[0]} bytes of these {len(states)} positions stand for nothing")
        return states

    def _seat_text(self, state: NDArray[np.int8], seat: int, moving: bool) -> str:
        side = seat ^ int(state[self.cells])
        groups = render.groups(self.board, state, side)
        listed = ", ".join(f"{beacons}:{size}" for beacons, size in groups[:SHOWN])
        more = f" and {len(groups) - SHOWN} more" if len(groups) > SHOWN else ""
        return f"{'>' if moving else ' '} seat {seat} ({render.STONES[side]})  {listed or 'no groups yet'}{more}"


def _lower_neighbours(graph: NDArray[np.int32]) -> NDArray[np.int32]:
    """The neighbours of each cell with lower numbers, first in their rows."""
    lower = np.where(graph < np.arange(len(graph))[:, None], graph, -1)
    width = (lower >= 0).sum(axis=1).max()
    return np.ascontiguousarray(-np.sort(-lower, axis=1)[:, :width], np.int32)


def _nearness(graph: NDArray[np.int32], beacons: NDArray[np.bool_]) -> NDArray[np.float32]:
    """How close each cell is to beacons: those beside it, and half of those beside each of its neighbours."""
    padded = np.append(graph, np.full((1, graph.shape[1]), -1, np.int32), axis=0)
    near = np.append(beacons, False)[padded].sum(axis=1)
    near[-1] = 0  # the cell that stands for none has no neighbours either
    return np.asarray(near + near[padded].sum(axis=1) / 2, np.float32)[:-1]
