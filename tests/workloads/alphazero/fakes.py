"""Evaluators whose judgement is known."""

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero import chance
from hostler.workloads.alphazero.game import Game, States


class HashEvaluator:
    """Opinions as good as random, which depend on nothing but the position and a seed; `asked` counts positions."""

    def __init__(self, game: Game, seed: int = 0, spread: float = 2.0) -> None:
        self.game, self.seed, self.spread = game, np.uint64(seed), spread
        self.asked = 0

    def evaluate(self, states: States) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        self.asked += len(states)
        seeds = self._digests(states)
        logits = self.spread * (2.0 * chance.uniform(seeds, self.game.actions) - 1.0)
        values = 2.0 * chance.uniform(chance.derive(seeds, 1), self.game.players) - 1.0
        legal = self.game.legal(states)
        return np.where(legal, logits, -np.inf).astype(np.float32), values.astype(np.float32)

    def _digests(self, states: States) -> NDArray[np.uint64]:
        digests = np.full(len(states), self.seed)
        for column in states.astype(np.uint64).T:
            digests = chance.derive(digests ^ column, 0)
        return digests


class IgnorantEvaluator:
    """All positions even; the policy is uniform, or with a `spread` as good as random."""

    def __init__(self, game: Game, spread: float = 0.0) -> None:
        self.hash = HashEvaluator(game, spread=spread)

    def evaluate(self, states: States) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        logits, values = self.hash.evaluate(states)
        return logits, np.zeros_like(values)
