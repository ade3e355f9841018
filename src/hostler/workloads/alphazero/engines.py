"""Engines: who decides the moves of self-play, and records what is to be learnt from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero import chance
from hostler.workloads.alphazero.artifacts import Artifacts
from hostler.workloads.alphazero.fields import Common
from hostler.workloads.alphazero.game import Game, States

if TYPE_CHECKING:
    from hostler.workloads.alphazero.inference import NetworkEvaluator
    from hostler.workloads.alphazero.players import PlayerName
    from hostler.workloads.alphazero.search import GumbelSearch

_DRAW = 1  # the stream of chance of the draw from the policy; the search has the seed itself


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """Decisions in many positions, a row each; values are NaN where the engine knows none."""

    action: NDArray[np.int32]
    policy: NDArray[np.float32]
    """`(batch, actions)`, 0 where illegal."""
    root_value: NDArray[np.float32]
    """`(batch, players)`, as `network_value`."""
    network_value: NDArray[np.float32]


class Engine(Protocol):
    """Decides. `search_s` and `network_s` are the seconds spent so far in the search, network apart, and in that."""

    @property
    def search_s(self) -> float: ...

    @property
    def network_s(self) -> float: ...

    def decide(self, states: States, seeds: NDArray[np.uint64], plies: NDArray[np.int64]) -> Decided:
        """Decide in positions that are not over, after `plies` moves each; a row's chance comes from its seed alone."""


class HeuristicEngine:
    """Draws from the softmax of the game's heuristic, in every ply."""

    search_s = 0.0
    network_s = 0.0

    def __init__(self, game: Game) -> None:
        self._game = game

    def decide(self, states: States, seeds: NDArray[np.uint64], plies: NDArray[np.int64]) -> Decided:
        """See `Engine`."""
        scores = self._game.heuristic(states).astype(np.float64)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        unknown = np.full((len(states), self._game.players), np.nan, np.float32)
        policy = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
        return Decided(drawn(policy, seeds), policy, unknown, unknown)


class SearchEngine:
    """Gumbel search; in the first plies the move is drawn from the policy that the search has improved."""

    def __init__(self, search: GumbelSearch, evaluator: NetworkEvaluator, sampled_plies: int) -> None:
        self._search, self._evaluator, self._sampled_plies = search, evaluator, sampled_plies

    @property
    def search_s(self) -> float:
        """See `Engine`."""
        return self._search.seconds - self._evaluator.seconds

    @property
    def network_s(self) -> float:
        """See `Engine`."""
        return self._evaluator.seconds

    def decide(self, states: States, seeds: NDArray[np.uint64], plies: NDArray[np.int64]) -> Decided:
        """See `Engine`."""
        found = self._search.search(states, seeds)
        sampled = drawn(found.policy, chance.derive(seeds, _DRAW))
        action = np.where(plies < self._sampled_plies, sampled, found.action).astype(np.int32)
        return Decided(action, found.policy, found.value, found.network_value)


def make_engine(
    player: PlayerName, shared: Common, artifacts: Artifacts, considered: int, sampled_plies: int
) -> Engine:
    """The engine of a player. Raises `ArtifactError` or `StageError` if its model cannot be had."""
    if player.model is None or player.budget is None:
        return HeuristicEngine(shared.game)
    # Here, because torch takes seconds to load and weak nodes need not have it.
    from hostler.workloads.alphazero.inference import NetworkEvaluator
    from hostler.workloads.alphazero.model import load_network
    from hostler.workloads.alphazero.search import GumbelSearch

    evaluator = NetworkEvaluator(shared.game, load_network(artifacts, player.model, shared.game, shared.config))
    search = GumbelSearch(shared.game, evaluator, player.budget, considered)
    return SearchEngine(search, evaluator, sampled_plies)


def drawn(policy: NDArray[np.float32], seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
    """`(batch,)`: an action of each row of `policy`, by its probability."""
    reached = np.cumsum(policy, axis=1, dtype=np.float64)
    wanted = chance.uniform(seeds, 1) * reached[:, -1:]
    return np.asarray(np.argmax(reached > wanted, axis=1), np.int32)
