"""Gumbel search: planning with a network, batched over games, with one call of the network per simulation.

The algorithm is that of I. Danihelka, A. Guez, J. Schrittwieser, D. Silver, "Policy improvement by planning with
Gumbel", ICLR 2022, for any number of seats:

- At the root, Gumbel noise `g` plus logits draws `considered` actions without replacement. Sequential halving
  (Z. Karnin, T. Koren, O. Somekh, "Almost optimal exploration in multi-armed bandits", ICML 2013) spends the
  simulations on them in phases. A phase keeps the better half by `g + logits + sigma(Q)`, and visits what it keeps in
  equal rounds.
- Below the root, the action with the greatest `pi'(a) - N(a) / (1 + sum N)` is taken, where
  `pi' = softmax(logits + sigma(completed Q))`: an action that was tried has the mean of its visits as its Q, another
  one the mixture `v_mix` of the evaluator's value and the Qs there are.
- `sigma(q) = (50 + max N) * 1.0 * q`, the paper's form with its constants for board games. Values lie in -1..1 here and
  are brought to 0..1 by that range, which is known; they are not stretched to those met in the tree (min-max), for that
  would turn the noise among equally good actions into certainty.
- With more seats than two this is max^n (C. Luckhardt, K. Irani, "An algorithmic solution of n-person games", AAAI
  1986): values are vectors, and whoever is to move looks at their own component.

The action is the best of the most visited; the policy to learn is `pi'` of the root, the value that of `pi'`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero import chance, tree
from hostler.workloads.alphazero.game import Game, States, values_of
from hostler.workloads.alphazero.tree import Trees

if TYPE_CHECKING:  # players that need no network must not need torch
    from hostler.workloads.alphazero.inference import Evaluator


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search found, a row for each position.

    `action` `(batch,)` is the move it would make, `policy` `(batch, actions)` the improved policy, 0 where illegal;
    `value` and `network_value` `(batch, players)` are each seat's in -1..1, after the search and by the evaluator.
    """

    action: NDArray[np.int32]
    policy: NDArray[np.float32]
    value: NDArray[np.float32]
    network_value: NDArray[np.float32]


class GumbelSearch:
    """Searches many positions at once, each with `simulations` simulations, in memory that is kept between calls.

    `considered` is the number of actions at the root to begin with. `gumbel_scale` multiplies the noise there: with 1
    the actions considered are a draw from the network's policy, as self-play needs it, with 0 the likeliest ones.
    `seconds` is the time spent so far in `search`, the evaluator's included.
    """

    def __init__(
        self,
        game: Game,
        evaluator: Evaluator,
        simulations: int,
        considered: int = 16,
        gumbel_scale: float = 1.0,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        if simulations < 1 or considered < 1:
            raise ValueError(f"{simulations} simulations of {considered} actions: a search needs at least one of both")
        self.seconds = 0.0
        self._game, self._evaluator, self._clock = game, evaluator, clock
        self._simulations, self._gumbel_scale = simulations, gumbel_scale
        self._considered = min(considered, simulations)
        self._schedules = np.array(
            [[0] * simulations] + [schedule(each + 1, simulations) for each in range(self._considered)], np.int32
        )
        self.trees = Trees.allocate(0, 0, 0, 0, 0)

    def search(self, states: States, seeds: NDArray[np.uint64]) -> Searched:
        """Search from each position, none of which is over; a row's chance comes from its seed alone."""
        began = self._clock()
        if bool(self._game.terminal(states).any()):
            raise ValueError("there is nothing to search in a game that is over: leave such rows out")
        trees = self._room(states)
        scores = self._plant(trees, states, seeds)
        considered = np.minimum(self._game.legal(states).sum(axis=1), self._considered)
        counts = np.ascontiguousarray(self._schedules[considered].T)
        for simulation in range(self._simulations):
            self._simulate(trees, simulation + 1, scores, counts[simulation])
        found = self._conclude(trees, scores)
        self.seconds += self._clock() - began
        return found

    def _room(self, states: States) -> Trees:
        games, width = states.shape
        if games > len(self.trees.links) or width != self.trees.states.shape[2]:
            nodes = self._simulations + 1
            self.trees = Trees.allocate(games, nodes, self._game.actions, self._game.players, width)
        return self.trees.first(games)

    def _plant(self, trees: Trees, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.float64]:
        """The roots; returns the noise plus the logits of their actions."""
        logits, own = self._evaluator.evaluate(states)
        nowhere = np.full((len(states), 2), tree.NONE, np.int32)
        over = np.zeros(len(states), np.bool_)
        trees.states[:, 0] = states
        self._grow(trees, 0, np.arange(len(states)), nowhere, states, over, own, logits)
        return self._gumbel_scale * chance.gumbel(seeds, self._game.actions) + logits

    def _simulate(self, trees: Trees, node: int, scores: NDArray[np.float64], counts: NDArray[np.int32]) -> None:
        leaves = np.empty((len(scores), 2), np.int32)
        tree.descend(trees.links, trees.values, trees.priors, scores, counts, leaves)
        games = np.flatnonzero(leaves[:, 1] != tree.NONE)
        if len(games):
            self._expand(trees, node, games, leaves[games])
        ends = np.where(leaves[:, 1] == tree.NONE, leaves[:, 0], np.int32(node))
        tree.back_up(trees.links, trees.values, ends)

    def _expand(self, trees: Trees, node: int, games: NDArray[np.int64], leaves: NDArray[np.int32]) -> None:
        states = self._game.apply(trees.states[games, leaves[:, 0]], leaves[:, 1])
        trees.states[games, node] = states
        over = self._game.terminal(states)
        own = np.empty((len(games), self._game.players), np.float32)
        logits = np.empty((0, self._game.actions), np.float32)
        if bool(over.any()):
            own[over] = values_of(self._game.ranking(states[over]))
        if not bool(over.all()):
            logits, own[~over] = self._evaluator.evaluate(states[~over])
        self._grow(trees, node, games, leaves, states, over, own, logits)

    def _grow(
        self, trees: Trees, node: int, games: NDArray[np.int64], leaves: NDArray[np.int32], states: States,
        over: NDArray[np.bool_], own: NDArray[np.float32], logits: NDArray[np.float32],
    ) -> None:  # fmt: skip
        movers = np.ascontiguousarray(self._game.to_move(states), np.int8)
        logits = np.ascontiguousarray(logits, np.float32)
        own = np.ascontiguousarray(own, np.float32)
        tree.grow(trees.links, trees.values, trees.priors, node, games, leaves, movers, over, own, logits)

    def _conclude(self, trees: Trees, scores: NDArray[np.float64]) -> Searched:
        games, players = len(scores), self._game.players
        found = Searched(
            np.empty(games, np.int32),
            np.empty(scores.shape, np.float32),
            np.empty((games, players), np.float32),
            trees.values[:, 0, players : 2 * players].astype(np.float32),
        )
        arrays = (found.action, found.policy, found.value)
        tree.conclude(trees.links, trees.values, trees.priors, scores, *arrays)
        return found


def schedule(actions: int, simulations: int) -> list[int]:
    """For each simulation, how often the root's action that it visits was visited before: sequential halving.

    Every phase is due the same share of the simulations, of which what is left after the last one goes on with the last
    two actions. With fewer simulations than that takes, later phases are cut short or left out.
    """
    phases = max(1, math.ceil(math.log2(actions)))
    counts: list[int] = []
    visits, kept = 0, actions
    while len(counts) < simulations:
        rounds = max(1, simulations // (phases * kept))
        counts += [visits + each for each in range(rounds) for _ in range(kept)]
        visits, kept = visits + rounds, min(kept, max(2, kept // 2))
    return counts[:simulations]
