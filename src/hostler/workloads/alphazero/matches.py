"""Matches between players: groups of games from one opening, so that seats are balanced, all played side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero import chance
from hostler.workloads.alphazero.game import Game, States
from hostler.workloads.alphazero.players import Player, uniform_actions

AT_ONCE = 256  # positions that a player is asked about at once, which bounds the memory of searches
TRIES = 8  # openings drawn for each one that is used, to have different ones


@dataclass(frozen=True, slots=True)
class Match:
    """`groups` openings, each played once with `a` in every seat and `b` in all others."""

    a: str
    b: str
    groups: int


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A finished game: `actions` from the empty board on, the place of each seat, the seat of `a`."""

    match: int
    group: int
    seat: int
    seed: int
    actions: tuple[int, ...]
    opening: int
    """How many of the actions are the opening, which no player chose."""
    ranking: NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Games side by side; row `i` of every array is one of them."""

    match: NDArray[np.int64]
    group: NDArray[np.int64]
    seat: NDArray[np.int64]
    seeds: NDArray[np.uint64]
    players: NDArray[np.int64]  # (games, seats): index of who sits there
    states: States
    actions: NDArray[np.int32]  # (games, max_plies), -1 where nothing was played
    opening: NDArray[np.int64]  # plies that are the opening


def play(
    game: Game, matches: Sequence[Match], players: Mapping[str, Player], opening_plies: int, seed: int
) -> list[Record]:
    """All games of all matches, ordered by match, group and the seat of `a`; chance comes from the seed alone.

    In every round each player is asked once about all games in which it is its turn.
    """
    names = list(players)
    tables = _set_up(game, matches, names, opening_plies, seed)
    running = np.flatnonzero(~game.terminal(tables.states))
    while len(running):
        turn = tables.players[running, game.to_move(tables.states[running])]
        for index, name in enumerate(names):
            _move(game, players[name], tables, running[turn == index])
        running = running[~game.terminal(tables.states[running])]
    return _records(game, tables)


def openings(game: Game, count: int, plies: int, seeds: NDArray[np.uint64]) -> tuple[States, NDArray[np.int32]]:
    """`count` openings of random actions: the positions, and the actions `(count, plies)`, -1 after the end of one.

    `seeds` `(tries,)` are of as many candidates, `tries >= count`: those that differ come first, and only where there
    are not enough of them is one used twice. Only cells are chosen where any can be: a swap or a pass is the players'
    decision. An opening stops short of an action that would end its game.
    """
    states = game.initial(len(seeds))
    played = np.full((len(seeds), plies), -1, np.int32)
    going = np.ones(len(seeds), np.bool_)
    for ply in range(plies):
        actions = uniform_actions(_on_board(game, game.legal(states)), chance.derive(seeds, ply))
        after = game.apply(states, actions)
        going &= ~game.terminal(after)
        states[going], played[going, ply] = after[going], actions[going]
    kept = _different_first(states)[:count]
    return states[kept], played[kept]


def _set_up(game: Game, matches: Sequence[Match], names: list[str], opening_plies: int, seed: int) -> Tables:
    parts = [_one_match(game, number, match, names, opening_plies, seed) for number, match in enumerate(matches)]
    return Tables(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _one_match(
    game: Game, number: int, match: Match, names: list[str], opening_plies: int, seed: int
) -> tuple[NDArray[np.generic], ...]:
    own = chance.derive(chance.derive(np.array([seed], np.uint64), number), 0)
    candidates = chance.derive(np.repeat(own, match.groups * TRIES), np.arange(match.groups * TRIES, dtype=np.uint64))
    states, opened = openings(game, match.groups, opening_plies, candidates)
    group = np.repeat(np.arange(match.groups), game.players)
    seat = np.tile(np.arange(game.players), match.groups)
    seeds = chance.derive(np.repeat(~own, len(group)), np.arange(len(group), dtype=np.uint64))
    sits = np.where(np.arange(game.players) == seat[:, None], names.index(match.a), names.index(match.b))
    actions = np.full((len(group), max(game.max_plies, opening_plies)), -1, np.int32)
    actions[:, :opening_plies] = opened[group]
    opening = (opened[group] >= 0).sum(axis=1)
    return np.full(len(group), number), group, seat, seeds, sits, states[group], actions, opening


def _move(game: Game, player: Player, tables: Tables, rows: NDArray[np.int64]) -> None:
    for part in np.split(rows, range(AT_ONCE, len(rows), AT_ONCE)):
        if len(part) == 0:
            continue
        ply = (tables.actions[part] >= 0).sum(axis=1)
        chosen = player.choose(tables.states[part], chance.derive(tables.seeds[part], ply.astype(np.uint64)))
        tables.states[part] = game.apply(tables.states[part], chosen)
        tables.actions[part, ply] = chosen


def _records(game: Game, tables: Tables) -> list[Record]:
    rankings = game.ranking(tables.states)
    return [
        Record(
            int(tables.match[row]),
            int(tables.group[row]),
            int(tables.seat[row]),
            int(tables.seeds[row]),
            tuple(int(action) for action in tables.actions[row] if action >= 0),
            int(tables.opening[row]),
            rankings[row],
        )
        for row in range(len(rankings))
    ]


def _on_board(game: Game, legal: NDArray[np.bool_]) -> NDArray[np.bool_]:
    on_board = legal & (np.arange(game.actions) < len(game.graph))
    return np.where(on_board.any(axis=1, keepdims=True), on_board, legal)


def _different_first(states: States) -> NDArray[np.int64]:
    """All rows: of equal ones the first, in their order; then the second of equal ones, and so on."""
    _, which = np.unique(states, axis=0, return_inverse=True)
    order = np.argsort(which, kind="stable")
    counts = np.bincount(which)
    repeat = np.empty(len(states), np.int64)
    repeat[order] = np.arange(len(states)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.argsort(repeat, kind="stable")
