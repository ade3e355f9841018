"""What the loop knows of a game. Everything is vectorised: a row of an array is one position."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

States: TypeAlias = NDArray[np.int8]
"""Positions, `(batch, width)`: what a game must remember, in a form of its own. Equal rows are equal positions."""


@runtime_checkable
class Game(Protocol):
    """A turn-based game of perfect information for `players` seats, without draws, played on the cells of a graph.

    Actions `0 .. cells - 1` belong to the cells, those from `cells` on to nothing on the board (a swap, a pass).
    No method changes its arguments; all of them are deterministic.
    """

    @property
    def name(self) -> str:
        """What artifacts name, such as `beacons hex8 2p`; games of other rules have other names."""

    @property
    def rules_version(self) -> int:
        """Raised whenever a recorded game could replay differently."""

    @property
    def players(self) -> int:
        """Seats, 2 or more."""

    @property
    def actions(self) -> int:
        """Size of the action space, at least the number of cells."""

    @property
    def max_plies(self) -> int:
        """No game is longer."""

    @property
    def graph(self) -> NDArray[np.int32]:
        """`(cells, directions)`: the neighbour of each cell in each direction, -1 where there is none."""

    @property
    def planes(self) -> int:
        """Features of a cell in `encode`."""

    @property
    def symmetries(self) -> NDArray[np.int32]:
        """`(symmetries, cells)`: under each, cell `c` goes to cell `symmetries[s, c]`; the first is the identity."""

    def initial(self, count: int) -> States:
        """`count` games that have just begun."""

    def to_move(self, states: States) -> NDArray[np.int8]:
        """`(batch,)`: the seat whose turn it is; any seat where the game is over."""

    def legal(self, states: States) -> NDArray[np.bool_]:
        """`(batch, actions)`: what may be played; nothing where the game is over."""

    def apply(self, states: States, actions: NDArray[np.int32]) -> States:
        """The positions after one legal action each, which is not checked again."""

    def terminal(self, states: States) -> NDArray[np.bool_]:
        """`(batch,)`: whether the game is over."""

    def ranking(self, states: States) -> NDArray[np.int8]:
        """`(batch, players)`: the place of each seat, 0 the best, all different, in games that are over."""

    def encode(self, states: States) -> NDArray[np.float32]:
        """`(batch, planes, cells)`: features for a network, as the seat to move sees them."""

    def heuristic(self, states: States) -> NDArray[np.float32]:
        """`(batch, actions)`: how good an action looks to the fast engine, in nats; `-inf` where it is illegal."""


@runtime_checkable
class PlaysOut(Protocol):
    """A game that plays random games to their end faster than `apply` would."""

    def playouts(self, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.int8]:
        """`(batch, players)`: the ranking after one uniformly random game from each position, from its seed alone."""


@runtime_checkable
class Shows(Protocol):
    """A game that people can read and play."""

    def text(self, state: NDArray[np.int8]) -> str:
        """One position `(width,)` in lines of text."""

    def action_name(self, action: int) -> str:
        """What people call an action."""

    def action_of(self, name: str) -> int:
        """The action of that name, legal or not; raises `ValueError` saying what names there are."""


def load(reference: Mapping[str, Any]) -> Game:
    """The game of an order, `{"factory": "module:function", "params": {...}}`. `ValueError` says what is wrong."""
    module, _, function = str(reference.get("factory")).partition(":")
    try:
        make = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the game {reference.get('factory')!r} cannot be loaded: {error}") from error
    game = make(**reference.get("params", {}))
    if not isinstance(game, Game):
        raise ValueError(f"{reference['factory']} makes a {type(game).__name__}, which is no game: see {__name__}.Game")
    return game


def values_of(ranking: NDArray[np.int8]) -> NDArray[np.float32]:
    """`(..., players)`: what places are worth, evenly spaced from 1 for the best to -1 for the last."""
    players = ranking.shape[-1]
    return np.asarray(1.0 - 2.0 * ranking.astype(np.float32) / (players - 1), np.float32)
