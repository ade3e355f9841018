"""Games of a segment played again by the rules of today: does each record hold?"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero.game import Game, States
from hostler.workloads.alphazero.segments import Segment, entries_of

# Sums of float32 probabilities, and what the values of a search may stray beyond -1..1, by rounding alone.
_ROUNDING = 1e-3


class Verdict(IntEnum):
    """What a replay found of one game."""

    SOUND = 0
    UNDECIDED = 1
    """All its moves are legal, and then it is not over."""
    ILLEGAL = 2
    """A move is not legal, or comes after the end."""
    RANKING = 3
    """It ends, but not as recorded."""
    TARGETS = 4
    """A policy is no distribution over legal actions with the one played among them, or a value is outside -1..1.

    In an evaluation, whose openings nobody chose, a position may have no policy at all, but not all of a game.
    """


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """The games of a segment, played again."""

    verdicts: NDArray[np.int8]
    """`(games,)`: a `Verdict` each."""
    states: States
    """`(positions, width)`: the position before each action; zeros from an illegal one on."""


def replay(game: Game, segment: Segment) -> Replay:
    """Play all games of a segment again, side by side."""
    lengths, starts = segment.lengths(), segment.game_offsets[:-1]
    verdicts = _targets(segment)
    states = game.initial(len(lengths))
    seen = np.zeros((segment.header.positions, states.shape[1]), np.int8)
    for ply in range(int(lengths.max(initial=0))):
        running = np.flatnonzero((lengths > ply) & (verdicts != Verdict.ILLEGAL))
        rows = starts[running] + ply
        legal = game.legal(states[running])
        foul = ~_allowed(legal, segment.action[rows])
        foreign = ~_policies_legal(segment, rows, legal)
        verdicts[running[foreign & (verdicts[running] == Verdict.SOUND)]] = Verdict.TARGETS
        verdicts[running[foul]] = Verdict.ILLEGAL
        running, rows = running[~foul], rows[~foul]
        seen[rows] = states[running]
        states[running] = game.apply(states[running], segment.action[rows])
    return Replay(_judged_by_end(game, segment, states, verdicts), seen)


def _targets(segment: Segment) -> NDArray[np.int8]:
    """`TARGETS` for the games with a policy or a value that cannot be in any position; `SOUND` for the others."""
    bad = _no_distribution(segment) | _repeating(segment) | _denying(segment)
    none = np.diff(segment.policy_offsets) == 0
    if segment.header.purpose == "evaluation":
        bad &= ~none
    for values in (segment.root_value, segment.network_value):
        bad |= (np.abs(values) > 1 + _ROUNDING).any(axis=1)
    game = np.repeat(np.arange(segment.header.games), segment.lengths())
    verdicts = np.full(segment.header.games, Verdict.SOUND, np.int8)
    verdicts[game[bad]] = Verdict.TARGETS
    verdicts[np.bincount(game[~none], minlength=len(verdicts)) == 0] = Verdict.TARGETS
    return verdicts


def _no_distribution(segment: Segment) -> NDArray[np.bool_]:
    """`(positions,)`: whether the probabilities are negative, not finite, or do not sum to 1."""
    probability = segment.policy_probability.astype(np.float64)
    bad = ~((probability >= 0) & np.isfinite(probability))
    # What is no number must not spread to the sums of other positions.
    sums = _sums(np.where(bad, 0.0, probability), segment.policy_offsets)
    return np.asarray((_sums(bad, segment.policy_offsets) > 0) | (np.abs(sums - 1) > _ROUNDING))


def _repeating(segment: Segment) -> NDArray[np.bool_]:
    """`(positions,)`: whether an action has two entries in the policy."""
    position = np.repeat(np.arange(segment.header.positions), np.diff(segment.policy_offsets))
    keys = np.sort(position * np.int64(2**32) + segment.policy_action)
    again = keys[1:][keys[1:] == keys[:-1]]
    repeating = np.zeros(segment.header.positions, np.bool_)
    repeating[(again + 2**31) >> 32] = True
    return repeating


def _denying(segment: Segment) -> NDArray[np.bool_]:
    """`(positions,)`: whether the action that was played has no probability in the policy."""
    position = np.repeat(np.arange(segment.header.positions), np.diff(segment.policy_offsets))
    tells = (segment.policy_action == segment.action[position]) & (segment.policy_probability > 0)
    return np.asarray(np.bincount(position[tells], minlength=segment.header.positions) == 0)


def _sums(values: NDArray[Any], offsets: NDArray[np.int64]) -> NDArray[Any]:
    totals = np.concatenate([np.zeros(1, np.float64), np.cumsum(values, dtype=np.float64)])
    return np.asarray(totals[offsets[1:]] - totals[offsets[:-1]])


def _allowed(legal: NDArray[np.bool_], actions: NDArray[np.int32]) -> NDArray[np.bool_]:
    exists = (actions >= 0) & (actions < legal.shape[1])
    return np.asarray(exists & legal[np.arange(len(actions)), np.where(exists, actions, 0)])


def _policies_legal(segment: Segment, rows: NDArray[np.int64], legal: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """`(rows,)`: whether all actions of the recorded policies are legal."""
    entries = entries_of(segment.policy_offsets, rows)
    number = np.repeat(np.arange(len(rows)), segment.policy_offsets[rows + 1] - segment.policy_offsets[rows])
    foul = ~_allowed(legal[number], segment.policy_action[entries])
    return np.asarray(np.bincount(number[foul], minlength=len(rows)) == 0)


def _judged_by_end(game: Game, segment: Segment, states: States, verdicts: NDArray[np.int8]) -> NDArray[np.int8]:
    over = game.terminal(states)
    verdicts[~over & (verdicts != Verdict.ILLEGAL)] = Verdict.UNDECIDED
    ended = np.flatnonzero(over & (verdicts != Verdict.ILLEGAL))
    differs = (game.ranking(states[ended]) != segment.ranking[ended]).any(axis=1)
    verdicts[ended[differs]] = Verdict.RANKING
    return verdicts
