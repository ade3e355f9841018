"""Datasets for tests, of real games that a game's fast engine plays against itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero.dataset import Dataset
from hostler.workloads.alphazero.game import Game, States
from hostler.workloads.alphazero.segments import sparse

TEMPERATURE = 0.5


def heuristic_dataset(game: Game, config: str, games: int, seed: int, *, opening: int = 0) -> Dataset:
    """Games in which every action is drawn from what the fast engine thinks; those thoughts are the policy targets.

    The first `opening` plies of every game are random.
    """
    chance = np.random.default_rng(seed)
    states, alive = game.initial(games), np.arange(games)
    rows: list[tuple[States, NDArray[np.int64], NDArray[np.float32], int]] = []
    ply = 0
    while len(alive):
        policy = _policy(game, states[alive], flat=ply < opening)
        rows.append((states[alive], alive, policy, ply))
        actions = np.array([chance.choice(game.actions, p=row) for row in policy], np.int32)
        states[alive] = game.apply(states[alive], actions)
        alive, ply = alive[~game.terminal(states[alive])], ply + 1
    return _assemble(game, config, game.ranking(states), rows)


def shuffled_among_legal(game: Game, dataset: Dataset, seed: int) -> Dataset:
    """The same positions, each with its probabilities dealt out anew over its own legal actions."""
    chance = np.random.default_rng(seed)
    legal = game.legal(dataset.states)
    actions = dataset.policy_action.copy()
    for row, (start, stop) in enumerate(zip(dataset.policy_offsets, dataset.policy_offsets[1:], strict=False)):
        actions[start:stop] = chance.permutation(np.flatnonzero(legal[row]))[: stop - start]
    return replace(dataset, policy_action=actions)


def shuffled_among_positions(dataset: Dataset, seed: int) -> Dataset:
    """The same positions with the policies of others."""
    counts = np.diff(dataset.policy_offsets)
    order = np.random.default_rng(seed).permutation(len(counts))
    parts = [np.arange(dataset.policy_offsets[row], dataset.policy_offsets[row + 1]) for row in order]
    entries = np.concatenate(parts)
    return replace(
        dataset,
        policy_offsets=np.cumsum([0, *counts[order]], dtype=np.int64),
        policy_action=dataset.policy_action[entries],
        policy_probability=dataset.policy_probability[entries],
    )


def _policy(game: Game, states: States, flat: bool) -> NDArray[np.float64]:
    legal = game.legal(states)
    logits = np.where(legal, 0.0 if flat else game.heuristic(states).astype(np.float64) / TEMPERATURE, -np.inf)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _assemble(game: Game, config: str, ranking: NDArray[np.int8], rows: list[Any]) -> Dataset:
    states, number, policy, ply = (
        np.concatenate([row[0] for row in rows]),
        np.concatenate([row[1] for row in rows]),
        np.concatenate([row[2] for row in rows]),
        np.concatenate([np.full(len(row[1]), row[3]) for row in rows]),
    )
    order = np.lexsort((ply, number))
    kept = sparse(policy[order])
    header = {"schema": 1, "config": config, "game": game.name, "rules_version": game.rules_version,
              "players": game.players, "actions": game.actions, "games": len(ranking), "positions": len(order),
              "segments": [], "models": [], "quality": {}}  # fmt: skip
    return Dataset(
        header,
        states[order],
        np.cumsum([0, *(len(actions) for actions, _ in kept)], dtype=np.int64),
        np.concatenate([actions for actions, _ in kept]),
        np.concatenate([probabilities for _, probabilities in kept]),
        ranking[number[order]],
        np.full((len(order), game.players), np.nan, np.float32),
        number[order].astype(np.int32),
        ply[order].astype(np.int16),
    )
