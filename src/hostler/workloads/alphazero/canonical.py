"""Games that are the same but for a symmetry of the board: one form for all of them.

The form of a game is the lexicographically least of its sequences of actions under the symmetries. The beginning of the
least sequence is the least beginning, so the openings of games in this form are in it, too.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero.game import Game
from hostler.workloads.alphazero.segments import Segment, entries_of

_MANY = 100
_NOTHING = -1


def canonical(game: Game, sequences: NDArray[np.int32]) -> NDArray[np.int32]:
    """Sequences of actions `(games, plies)`, filled up with -1 where a game is over, in their canonical form."""
    least, rows = sequences, np.arange(len(sequences))
    for action_map in _action_maps(game)[1:]:
        image = action_map[sequences]
        first = np.argmax(image != least, axis=1)
        less = image[rows, first] < least[rows, first]
        least = np.where(less[:, None], image, least)
    return least


def sequences_of(segment: Segment, games: NDArray[np.int64]) -> NDArray[np.int32]:
    """The actions of these games, `(games, plies of the longest)`, filled up with -1."""
    lengths = segment.lengths()[games]
    sequences = np.full((len(games), int(lengths.max(initial=1))), _NOTHING, np.int32)
    sequences[np.arange(sequences.shape[1]) < lengths[:, None]] = segment.action[
        entries_of(segment.game_offsets, games)
    ]
    return sequences


def keys_of(sequences: NDArray[np.int32]) -> list[bytes]:
    """A short name of each sequence, however it is filled up."""
    lengths = (sequences != _NOTHING).sum(axis=1)
    return [_hash(row[:length]) for row, length in zip(sequences, lengths, strict=True)]


def openings_possible(game: Game, plies: int) -> float:
    """How many openings of so many plies there are, symmetric ones counted once; infinite if more than a hundred."""
    states, sequences = game.initial(1), np.empty((1, 0), np.int32)
    for _ in range(plies):
        over = game.terminal(states)
        rows, actions = np.nonzero(game.legal(states))
        rows, actions = np.append(rows, np.flatnonzero(over)), np.append(actions, np.full(over.sum(), _NOTHING))
        extended = np.column_stack([sequences[rows], actions.astype(np.int32)])
        _, chosen = np.unique(canonical(game, extended), axis=0, return_index=True)
        # A line that goes on stays so, and every ply has at least one continuation: their number never falls.
        if len(chosen) > _MANY:
            return float("inf")
        states, sequences = _played(game, states[rows[chosen]], extended[chosen]), extended[chosen]
    return float(len(sequences))


def _action_maps(game: Game) -> NDArray[np.int32]:
    """`(symmetries, actions + 1)`: where each action goes; those off the board stay, and -1, the last, does so, too."""
    maps = np.tile(np.append(np.arange(game.actions), _NOTHING), (len(game.symmetries), 1))
    maps[:, : game.symmetries.shape[1]] = game.symmetries
    return maps.astype(np.int32)


def _played(game: Game, states: NDArray[np.int8], sequences: NDArray[np.int32]) -> NDArray[np.int8]:
    last = sequences[:, -1]
    going = last != _NOTHING
    after = states.copy()
    after[going] = game.apply(states[going], last[going])
    return after


def _hash(row: NDArray[np.int32]) -> bytes:
    return hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=16).digest()
