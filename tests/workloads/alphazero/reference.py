"""The Gumbel search once more, slowly: one game, dictionaries, recursion, every formula as the paper writes it.

Nothing here is shared with the search under test but the game, the evaluator, the noise and the two constants of sigma.
"""

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero.game import Game, States, values_of
from hostler.workloads.alphazero.inference import Evaluator

C_VISIT, C_SCALE = 50.0, 1.0


@dataclass
class Node:
    mover: int
    over: bool
    value: list[float]
    prior: dict[int, float]
    state: States
    visits: int = 0
    total: list[float] = field(default_factory=list)
    children: dict[int, "Node"] = field(default_factory=dict)

    def q(self, action: int, seat: int) -> float:
        child = self.children[action]
        return child.total[seat] / child.visits

    def count(self, action: int) -> int:
        return self.children[action].visits if action in self.children else 0

    def most_visits(self) -> int:
        return max(self.count(action) for action in self.prior)

    def v_mix(self, seat: int) -> float:
        visits = sum(self.count(action) for action in self.prior)
        if visits == 0:
            return self.value[seat]
        mass = sum(self.prior[action] for action in self.children)
        mean = sum(self.prior[action] * self.q(action, seat) for action in self.children) / mass
        return (self.value[seat] + visits * mean) / (1 + visits)

    def completed_q(self, seat: int) -> dict[int, float]:
        mixed = self.v_mix(seat)
        return {action: self.q(action, seat) if action in self.children else mixed for action in self.prior}

    def improved_policy(self) -> dict[int, float]:
        completed = self.completed_q(self.mover)
        logits = {
            action: math.log(self.prior[action]) + sigma(completed[action], self.most_visits()) for action in self.prior
        }
        return softmax(logits)


@dataclass
class Found:
    action: int
    visits: dict[int, int]
    completed_q: list[dict[int, float]]
    policy: dict[int, float]
    value: list[float]


class Reference:
    def __init__(self, game: Game, evaluator: Evaluator) -> None:
        self.game, self.evaluator = game, evaluator

    def search(self, state: States, noise: NDArray[np.float64], simulations: int, considered: int) -> Found:
        root = self._node(state)
        logits = self.evaluator.evaluate(state)[0][0].astype(np.float64)
        noisy = {action: noise[action] + logits[action] for action in root.prior}
        self._sequential_halving(root, noisy, simulations, considered)
        policy = root.improved_policy()
        completed = [root.completed_q(seat) for seat in range(self.game.players)]
        most = root.most_visits()
        return Found(
            action=best_of([a for a in root.prior if root.count(a) == most], root, noisy),
            visits={action: root.count(action) for action in root.prior},
            completed_q=completed,
            policy=policy,
            value=[sum(policy[action] * each[action] for action in policy) for each in completed],
        )

    def _sequential_halving(self, root: Node, noisy: dict[int, float], simulations: int, considered: int) -> None:
        first = min(considered, len(root.prior), simulations)
        left, phases = simulations, max(1, math.ceil(math.log2(first)))
        kept = sorted(root.prior, key=lambda action: -noisy[action])[:first]
        while True:
            for _ in range(max(1, simulations // (phases * len(kept)))):
                order = sorted(kept, key=lambda action: -score(root, action, noisy))
                for action in order:
                    if left == 0:
                        return
                    self._visit(root, action)
                    left -= 1
            if len(kept) > 1:
                size = max(2, len(kept) // 2)
                kept = sorted(kept, key=lambda action: -score(root, action, noisy))[:size]

    def _visit(self, node: Node, action: int) -> list[float]:
        """One simulation through this action; the value that is backed up."""
        if action not in node.children:
            child = node.children[action] = self._node(self.game.apply(node.state, np.array([action], np.int32)))
            value = child.value
        else:
            child = node.children[action]
            value = child.value if child.over else self._visit(child, self._select(child))
        child.visits += 1
        child.total = [sum(pair) for pair in zip(child.total, value, strict=True)]
        return value

    def _select(self, node: Node) -> int:
        policy, visits = node.improved_policy(), sum(node.count(action) for action in node.prior)
        return max(sorted(policy), key=lambda action: policy[action] - node.count(action) / (1 + visits))

    def _node(self, state: States) -> Node:
        mover, nothing = int(self.game.to_move(state)[0]), [0.0] * self.game.players
        if self.game.terminal(state)[0]:
            value = values_of(self.game.ranking(state))[0].astype(float).tolist()
            return Node(mover, True, value, {}, state, total=nothing)
        logits, values = self.evaluator.evaluate(state)
        legal = {action: float(logit) for action, logit in enumerate(logits[0]) if logit > -np.inf}
        # The search keeps priors in 32 bits.
        prior = {action: float(np.float32(share)) for action, share in softmax(legal).items()}
        return Node(mover, False, values[0].astype(float).tolist(), prior, state, total=nothing)


def sigma(q: float, most_visits: int) -> float:
    return (C_VISIT + most_visits) * C_SCALE * (q + 1) / 2


def score(root: Node, action: int, noisy: dict[int, float]) -> float:
    """`g + logits + sigma(Q)`; before the first visits, when all Qs are alike, just `g + logits`."""
    if root.most_visits() == 0:
        return noisy[action]
    return noisy[action] + sigma(root.q(action, root.mover), root.most_visits())


def best_of(actions: list[int], root: Node, noisy: dict[int, float]) -> int:
    return max(actions, key=lambda action: score(root, action, noisy))


def softmax(logits: dict[int, float]) -> dict[int, float]:
    top = max(logits.values())
    weights = {action: math.exp(logit - top) for action, logit in logits.items()}
    return {action: weight / sum(weights.values()) for action, weight in weights.items()}
