"""Accepted games of many segments, put together to a dataset."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero.dataset import SCHEMA, Dataset
from hostler.workloads.alphazero.game import Game
from hostler.workloads.alphazero.replay import replay
from hostler.workloads.alphazero.segments import Segment, entries_of


class Gathering:
    """Takes in games segment by segment."""

    def __init__(self, game: Game) -> None:
        self._game = game
        self._games = 0
        self._segments: list[str] = []
        self._models: set[str] = set()
        self._parts: dict[str, list[NDArray[Any]]] = {}

    def add(self, sha256: str, segment: Segment, games: NDArray[np.int64]) -> None:
        """These games of a segment, all of which replay. A position without a policy has nothing to teach."""
        rows = entries_of(segment.game_offsets, games)
        number = np.repeat(np.arange(len(games), dtype=np.int32), segment.lengths()[games])
        told = np.diff(segment.policy_offsets)[rows] > 0
        rows, number = rows[told], number[told]
        entries = entries_of(segment.policy_offsets, rows)
        self._take(
            states=replay(self._game, segment).states[rows],
            policy_counts=np.diff(segment.policy_offsets)[rows],
            policy_action=segment.policy_action[entries],
            policy_probability=segment.policy_probability[entries],
            places=segment.ranking[games][number],
            root_value=segment.root_value[rows],
            game=self._games + number,
            ply=(rows - segment.game_offsets[games][number]).astype(np.int16),
        )
        self._games += len(games)
        self._segments.append(sha256)
        if segment.header.model is not None:
            self._models.add(segment.header.model)

    def dataset(self, config: str, quality: dict[str, float | None]) -> Dataset:
        """All games taken in so far, of which there must be one at least."""
        arrays = {name: np.concatenate(parts) for name, parts in self._parts.items()}
        offsets = np.cumsum(np.append(0, arrays.pop("policy_counts")), dtype=np.int64)
        header = {
            "schema": SCHEMA, "config": config, "game": self._game.name, "rules_version": self._game.rules_version,
            "players": self._game.players, "actions": self._game.actions, "games": self._games,
            "positions": len(arrays["states"]), "segments": self._segments, "models": sorted(self._models),
            "quality": quality,
        }  # fmt: skip
        return Dataset(header, policy_offsets=offsets, **arrays)

    def _take(self, **arrays: NDArray[Any]) -> None:
        for name, array in arrays.items():
            self._parts.setdefault(name, []).append(array)
