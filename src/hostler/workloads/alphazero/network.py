"""The network: a policy and everybody's places from the cells of a graph, by the same code on every board."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hostler.workloads.alphazero.game import Game


class Network(nn.Module):
    """A small residual network on the cells of a graph, whose weights belong to directions and not to cells.

    `graph` is `(cells, directions)`: the neighbour of each cell in each direction, -1 where there is none. Cells are
    told apart by their planes and neighbours alone. Every block also sees mean and maximum over the board, after the
    global pooling of D. J. Wu, "Accelerating self-play learning in Go", 2019: who is connected, and who is ahead, are
    questions about the board and not about a neighbourhood.
    """

    neighbours: Tensor

    def __init__(
        self, graph: NDArray[np.int32], planes: int, actions: int, players: int, channels: int = 32, blocks: int = 3
    ) -> None:
        super().__init__()
        self.players, directions = players, graph.shape[1]
        self.register_buffer("neighbours", _gathered(graph), persistent=False)
        self.stem = Directional(planes, channels, directions)
        self.blocks = nn.ModuleList(Block(channels, directions) for _ in range(blocks))
        self.policy = PolicyHead(channels, actions - len(graph))
        self.places = PlacesHead(channels, players)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        """Planes `(batch, planes, cells)` to logits: actions' `(batch, actions)`, places' `(batch, players, players)`.

        Entry `[b, r, k]` of the latter is the log-odds that the `r`-th seat, counted from the seat to move, ends in
        place `k`; the softmax over `k` makes it a probability.
        """
        x: Tensor = self.stem(planes.transpose(1, 2), self.neighbours)
        for block in self.blocks:
            x = block(x, self.neighbours)
        x = x.relu()
        board = pool(x)
        return self.policy(x, board), self.places(board)


class Directional(nn.Module):
    """A linear map of each cell and its neighbours with weights for every direction: a convolution on the graph."""

    def __init__(self, inputs: int, outputs: int, directions: int) -> None:
        super().__init__()
        self.linear = nn.Linear((1 + directions) * inputs, outputs)

    def forward(self, x: Tensor, neighbours: Tensor) -> Tensor:
        """`(batch, cells, inputs)` to `(batch, cells, outputs)`."""
        batch, cells, _ = x.shape
        padded = nn.functional.pad(x, (0, 0, 0, 1))  # one more cell, of zeros: where there is no neighbour
        around: Tensor = self.linear(padded.index_select(1, neighbours).view(batch, cells, -1))
        return around


class Block(nn.Module):
    """Adds to each cell what it makes of its neighbourhood and of the whole board."""

    def __init__(self, channels: int, directions: int) -> None:
        super().__init__()
        self.around = Directional(channels, channels, directions)
        self.board = nn.Linear(2 * channels, channels)
        self.within = nn.Linear(channels, channels)

    def forward(self, x: Tensor, neighbours: Tensor) -> Tensor:
        """`(batch, cells, channels)` to the same."""
        seen: Tensor = self.around(x.relu(), neighbours).relu()
        seen = (seen + self.board(pool(seen)).unsqueeze(1)).relu()
        return torch.add(x, self.within(seen))


class PolicyHead(nn.Module):
    """Logits of the actions: those of cells from the cell and the board, the `others` from the board alone."""

    def __init__(self, channels: int, others: int) -> None:
        super().__init__()
        self.within = nn.Linear(channels, channels)
        self.board = nn.Linear(2 * channels, channels)
        self.cell = nn.Linear(channels, 1)
        self.others = nn.Linear(channels, others) if others else None

    def forward(self, x: Tensor, board: Tensor) -> Tensor:
        """`(batch, cells, channels)` and `(batch, 2 * channels)` to `(batch, cells + others)`."""
        board = self.board(board)
        cells: Tensor = self.cell((self.within(x) + board.unsqueeze(1)).relu()).squeeze(2)
        return cells if self.others is None else torch.cat([cells, self.others(board.relu())], dim=1)


class PlacesHead(nn.Module):
    """Log-odds of the places of every seat, from the board."""

    def __init__(self, channels: int, players: int) -> None:
        super().__init__()
        self.players = players
        self.hidden = nn.Linear(2 * channels, 2 * channels)
        self.output = nn.Linear(2 * channels, players * players)

    def forward(self, board: Tensor) -> Tensor:
        """`(batch, 2 * channels)` to `(batch, players, players)`."""
        places: Tensor = self.output(self.hidden(board).relu())
        return places.view(-1, self.players, self.players)


def build(game: Game, *, channels: int, blocks: int, seed: int) -> Network:
    """An untrained network for `game`, from the seed alone; torch's own chance goes on as if nothing had happened."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % 2**63)
        return Network(game.graph, game.planes, game.actions, game.players, channels, blocks)


def skeleton(game: Game, *, channels: int, blocks: int) -> Network:
    """The network without its weights, which takes no memory: for the names, shapes and dtypes of its tensors."""
    with torch.device("meta"):
        return Network(game.graph, game.planes, game.actions, game.players, channels, blocks)


def pool(x: Tensor) -> Tensor:
    """Mean and maximum over the cells: `(batch, cells, channels)` to `(batch, 2 * channels)`."""
    return torch.cat([x.mean(dim=1), x.amax(dim=1)], dim=1)


def relative_to_absolute(values: NDArray[np.float32], to_move: NDArray[np.int8]) -> NDArray[np.float32]:
    """`(batch, players)`: what is given in the order of moving, from the seat to move on, in the order of the seats."""
    return np.take_along_axis(values, _turned(values, -to_move.astype(np.int64)), axis=1)


def absolute_to_relative(values: NDArray[np.float32], to_move: NDArray[np.int8]) -> NDArray[np.float32]:
    """`(batch, players)`: what is given in the order of the seats in the order of moving, from the seat to move on."""
    return np.take_along_axis(values, _turned(values, to_move.astype(np.int64)), axis=1)


def _turned(values: NDArray[np.float32], by: NDArray[np.int64]) -> NDArray[np.int64]:
    players = values.shape[1]
    return np.asarray((np.arange(players) + by[:, None]) % players)


def _gathered(graph: NDArray[np.int32]) -> Tensor:
    """`(cells * (1 + directions),)`: for every cell itself and its neighbours, the number of cells for none."""
    cells = len(graph)
    itself = np.arange(cells)[:, None]
    return torch.from_numpy(np.hstack([itself, np.where(graph < 0, cells, graph)]).astype(np.int64).reshape(-1))
