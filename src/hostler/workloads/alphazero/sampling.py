"""From a dataset to batches of training examples: what is held out, in which order the rest is visited, symmetries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero.dataset import Dataset
from hostler.workloads.alphazero.game import Game, States
from hostler.workloads.alphazero.network import absolute_to_relative
from hostler.workloads.alphazero.segments import entries_of

HASH_BYTES = 8
ORDER, SYMMETRY = range(2)  # separate streams of chance of the same seed


@dataclass(frozen=True, slots=True)
class Batch:
    """Training examples. Seats are counted from the seat to move: 0 is that seat, 1 the next in turn.

    `planes` is `(batch, planes, cells)`; `legal` `(batch, actions)`; `policy` `(batch, actions)`, as it was recorded;
    `places` `(batch, players)`, the final place of each seat; `root_value` `(batch, players)`, what each seat is worth
    to the search, -1..1, NaN where that is unknown.
    """

    planes: NDArray[np.float32]
    legal: NDArray[np.bool_]
    policy: NDArray[np.float32]
    places: NDArray[np.int64]
    root_value: NDArray[np.float32]


class Examples:
    """The positions of a dataset as training examples."""

    def __init__(self, game: Game, dataset: Dataset) -> None:
        self._game, self._dataset = game, dataset
        self._from = inverse_action_maps(game)

    def batch(self, rows: NDArray[np.int64], symmetries: NDArray[np.int64] | None = None) -> Batch:
        """These rows of the dataset, each under one of the game's symmetries (as they are, if none are given)."""
        data, game = self._dataset, self._game
        states = data.states[rows]
        mover = game.to_move(states)
        batch = Batch(
            game.encode(states),
            game.legal(states),
            dense_policy(data, rows, game.actions),
            absolute_to_relative(data.places[rows].astype(np.float32), mover).astype(np.int64),
            absolute_to_relative(data.root_value[rows], mover),
        )
        return batch if symmetries is None else self._turned(batch, symmetries)

    def _turned(self, batch: Batch, symmetries: NDArray[np.int64]) -> Batch:
        source = self._from[symmetries]
        cells = source[:, None, : batch.planes.shape[2]]
        planes = np.take_along_axis(batch.planes, cells, axis=2)
        legal = np.take_along_axis(batch.legal, source, axis=1)
        policy = np.take_along_axis(batch.policy, source, axis=1)
        return Batch(planes, legal, policy, batch.places, batch.root_value)


class Visits:
    """The order in which positions are visited: each once per epoch, in an order drawn anew for every epoch.

    Visit number `n` is a function of the seed and `n` alone, so that nothing need be remembered to go on.
    """

    def __init__(self, rows: NDArray[np.int64], seed: int) -> None:
        self._rows, self._seed = rows, seed
        self._epoch, self._order = -1, rows

    def rows(self, first: int, count: int) -> NDArray[np.int64]:
        """The rows of visits `first .. first + count - 1`."""
        return np.concatenate([self._part(epoch, start, stop) for epoch, start, stop in self._spans(first, count)])

    def _spans(self, first: int, count: int) -> Iterator[tuple[int, int, int]]:
        size, stop = len(self._rows), first + count
        while first < stop:
            epoch, start = divmod(first, size)
            end = min(size, start + stop - first)
            yield epoch, start, end
            first += end - start

    def _part(self, epoch: int, start: int, stop: int) -> NDArray[np.int64]:
        if epoch != self._epoch:
            self._epoch, self._order = epoch, _chance(self._seed, ORDER, epoch).permutation(self._rows)
        return self._order[start:stop]


def drawn_symmetries(seed: int, step: int, count: int, symmetries: int) -> NDArray[np.int64]:
    """`(count,)`: a symmetry for each example of a step, from the seed and the step alone."""
    return _chance(seed, SYMMETRY, step).integers(symmetries, size=count)


def held_out(dataset: Dataset, share: float) -> NDArray[np.bool_]:
    """`(positions,)`: what validation is made with, about this share of the games, at least one and not all.

    A game is held out by the hash of its positions: the same game is held out in every dataset that it enters, so that
    no model of the line has been trained with it, and copies of a game are on the same side.
    """
    games, number = np.unique(dataset.game, return_inverse=True)
    by_game = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number, minlength=len(games)))
    hashes = np.array([_hash(dataset.states[part]) for part in np.split(by_game, ends[:-1])])
    chosen = hashes < share
    if not chosen.any() or chosen.all():
        chosen = hashes == hashes.min()
    return np.asarray(chosen[number], dtype=np.bool_)


def inverse_action_maps(game: Game) -> NDArray[np.int64]:
    """`(symmetries, actions)`: which action becomes action `a` under a symmetry; those off the board stay."""
    cells = game.symmetries.shape[1]
    maps = np.tile(np.arange(game.actions, dtype=np.int64), (len(game.symmetries), 1))
    maps[:, :cells] = np.argsort(game.symmetries, axis=1)
    return maps


def dense_policy(dataset: Dataset, rows: NDArray[np.int64], actions: int) -> NDArray[np.float32]:
    """`(rows, actions)`: the recorded distributions."""
    offsets = dataset.policy_offsets
    row = np.repeat(np.arange(len(rows)), offsets[rows + 1] - offsets[rows])
    entry = entries_of(offsets, rows)
    dense = np.zeros((len(rows), actions), dtype=np.float32)
    dense[row, dataset.policy_action[entry]] = dataset.policy_probability[entry]
    return dense


def _hash(states: States) -> float:
    """A number in 0..1 that depends on nothing but the positions."""
    digest = blake2b(np.ascontiguousarray(states).tobytes(), digest_size=HASH_BYTES).digest()
    return float(int.from_bytes(digest) / 256**HASH_BYTES)


def _chance(seed: int, stream: int, number: int) -> np.random.Generator:
    return np.random.default_rng([seed, stream, number])
