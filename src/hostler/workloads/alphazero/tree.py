"""The search trees of many games side by side, in flat arrays, and the compiled steps of the search on them.

A tree has a node for every position that was judged: node 0 is the root, node `i` came with simulation `i`. Its arrays
are indexed by game and node:

- `links`, int32: how often the node was visited, its parent, the action that led to it from there, its first child,
  the next child of its parent, the seat to move, whether the game is over; -1 is no node.
- `values`, float64: for every seat the sum over all visits, then for every seat the node's own value (what the
  evaluator said, or the outcome), then the prior probability of the action that led to it.
- `priors`, float32: the prior probability of every action not tried yet, -1 of illegal ones and of those with a child.
- `states`, int8: the positions.

So only actions that were tried cost more than their prior: `4 * actions + width + 36 + 16 * players` bytes a node,
which is 1.9 MB for a game of 470 actions and two seats with 800 simulations, and 25 kB for one of 62 with 64.

The formulas are those of I. Danihelka, A. Guez, J. Schrittwieser, D. Silver, "Policy improvement by planning with
Gumbel", ICLR 2022; `search.py` says how they are used. All kernels and their helpers stay in this one file: numba's
cache notices a change of the kernel's own file only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero.compiled import inlined, kernel

I32: TypeAlias = NDArray[np.int32]
F32: TypeAlias = NDArray[np.float32]
F64: TypeAlias = NDArray[np.float64]

VISITS, PARENT, ACTION, CHILD, SIBLING, MOVER, OVER = range(7)
NONE = -1
C_VISIT = 50.0
C_SCALE = 1.0
TREES = "int32[:,:,::1], float64[:,:,::1], float32[:,:,::1]"
TINY = np.float32(np.finfo(np.float32).tiny)


@dataclass(frozen=True, slots=True)
class Trees:
    """Room for the trees of `len(links)` games; see the module for the meaning of the arrays."""

    links: I32
    values: F64
    priors: F32
    states: NDArray[np.int8]

    @classmethod
    def allocate(cls, games: int, nodes: int, actions: int, players: int, width: int) -> Trees:
        """Trees with room for `nodes` nodes each. Nothing is initialised: growing a root empties its tree."""
        return cls(
            np.empty((games, nodes, OVER + 1), np.int32),
            np.empty((games, nodes, 2 * players + 1), np.float64),
            np.empty((games, nodes, actions), np.float32),
            np.empty((games, nodes, width), np.int8),
        )

    def first(self, games: int) -> Trees:
        """The first `games` of them, sharing the memory."""
        return Trees(self.links[:games], self.values[:games], self.priors[:games], self.states[:games])


@inlined
def sigma(most_visits: int, value: float) -> float:
    """The monotone transformation of a value in -1..1 (section 3.4 of the paper), which is first brought to 0..1."""
    return (C_VISIT + most_visits) * C_SCALE * (value + 1.0) / 2.0


@inlined
def _mean(links: I32, values: F64, game: int, node: int, seat: int) -> float:
    return float(values[game, node, seat] / links[game, node, VISITS])


@inlined
def _visits_below(links: I32, game: int, node: int) -> tuple[int, int]:
    """How often the children of a node were visited, in all and the most visited one."""
    total, most = 0, 0
    child = links[game, node, CHILD]
    while child != NONE:
        total += links[game, child, VISITS]
        most = max(most, links[game, child, VISITS])
        child = links[game, child, SIBLING]
    return total, most


@inlined
def _mixed(links: I32, values: F64, game: int, node: int, seat: int, visits: int) -> float:
    """`v_mix`, which stands for the value of every action not tried (equation 33 of the paper)."""
    players = values.shape[2] // 2
    own = values[game, node, players + seat]
    share, weighted = 0.0, 0.0
    child = links[game, node, CHILD]
    while child != NONE:
        prior = values[game, child, 2 * players]
        share += prior
        weighted += prior * _mean(links, values, game, child, seat)
        child = links[game, child, SIBLING]
    if visits == 0:
        return float(own)
    return float((own + visits * weighted / share) / (1.0 + visits))


@inlined
def _untried(priors: F32, game: int, node: int) -> tuple[int, float]:
    """The action most probable by prior of those not tried, or -1; and the probability of all of them."""
    best, most, rest = NONE, -1.0, 0.0
    for action in range(priors.shape[2]):
        prior = priors[game, node, action]
        if prior >= 0.0:
            rest += prior
            if prior > most:
                best, most = action, prior
    return best, rest


@inlined
def _interior(links: I32, values: F64, priors: F32, game: int, node: int) -> tuple[int, int]:
    """Action and child (or -1) for which `pi'(a) - N(a) / (1 + sum N)` is greatest; the lowest action if several.

    `pi' = softmax(logits + sigma(completed Q))` is computed without the logits: all actions not tried have the same Q,
    so that `pi'` is the prior times one factor for all of them and another one for each child.
    """
    players = values.shape[2] // 2
    seat = links[game, node, MOVER]
    visits, most = _visits_below(links, game, node)
    base = sigma(most, _mixed(links, values, game, node, seat, visits))
    action, rest = _untried(priors, game, node)
    top = base if action != NONE else -math.inf
    child = links[game, node, CHILD]
    while child != NONE:
        top = max(top, sigma(most, _mean(links, values, game, child, seat)))
        child = links[game, child, SIBLING]
    norm = rest * math.exp(base - top)
    child = links[game, node, CHILD]
    while child != NONE:
        lift = math.exp(sigma(most, _mean(links, values, game, child, seat)) - top)
        norm += values[game, child, 2 * players] * lift
        child = links[game, child, SIBLING]
    chosen, best = NONE, -math.inf
    if action != NONE:
        best = priors[game, node, action] * math.exp(base - top) / norm
    child = links[game, node, CHILD]
    while child != NONE:
        lift = math.exp(sigma(most, _mean(links, values, game, child, seat)) - top)
        score = values[game, child, 2 * players] * lift / norm - links[game, child, VISITS] / (1.0 + visits)
        if score > best or (score == best and links[game, child, ACTION] < action):
            chosen, best, action = child, score, links[game, child, ACTION]
        child = links[game, child, SIBLING]
    return action, chosen


@inlined
def _halving(links: I32, values: F64, priors: F32, game: int, scores: F64, count: int) -> tuple[int, int]:
    """Action and child (or -1) at the root: the best of those visited `count` times so far, which comes next."""
    action, chosen, best = NONE, NONE, -math.inf
    if count == 0:
        for each in range(priors.shape[2]):
            if priors[game, 0, each] >= 0.0 and scores[each] > best:
                action, best = each, scores[each]
        return action, chosen
    seat = links[game, 0, MOVER]
    child = links[game, 0, CHILD]
    while child != NONE:
        each = links[game, child, ACTION]
        score = scores[each] + sigma(count, _mean(links, values, game, child, seat))
        if links[game, child, VISITS] == count and (score > best or (score == best and each < action)):
            action, chosen, best = each, child, score
        child = links[game, child, SIBLING]
    return action, chosen


@kernel(f"void({TREES}, float64[:,::1], int32[::1], int32[:,::1])")
def descend(links: I32, values: F64, priors: F32, scores: F64, counts: I32, leaves: I32) -> None:
    """From every root down to where a simulation ends.

    `scores` `(games, actions)` are the root's Gumbel noise plus logits, `counts` `(games,)` the visits so far of the
    action that sequential halving has next. `leaves` `(games, 2)` gets a node and the action to try there, or a
    node in which the game is over and -1.
    """
    for game in range(len(counts)):
        node = 0
        action, child = _halving(links, values, priors, game, scores[game], counts[game])
        while child != NONE and not links[game, child, OVER]:
            node = child
            action, child = _interior(links, values, priors, game, node)
        leaves[game, 0] = node if child == NONE else child
        leaves[game, 1] = action if child == NONE else NONE


@inlined
def _attach(links: I32, values: F64, priors: F32, game: int, node: int, parent: int, action: int) -> None:
    """Make the node the first child of its parent, and the action one that was tried."""
    links[game, node, VISITS] = 0
    links[game, node, PARENT] = parent
    links[game, node, ACTION] = action
    links[game, node, CHILD] = NONE
    links[game, node, SIBLING] = NONE
    if parent != NONE:
        links[game, node, SIBLING] = links[game, parent, CHILD]
        links[game, parent, CHILD] = node
        values[game, node, -1] = priors[game, parent, action]
        priors[game, parent, action] = -1.0


@inlined
def _softmax(logits: F32, priors: F32) -> None:
    """Probabilities, no legal one of which is 0; -1 where the logit is `-inf`."""
    top, norm = np.float64(logits.max()), 0.0
    for action in range(len(logits)):
        norm += math.exp(logits[action] - top)
    for action in range(len(logits)):
        prior = np.float32(math.exp(logits[action] - top) / norm)
        priors[action] = max(prior, TINY) if logits[action] > -math.inf else -1.0


@kernel(f"void({TREES}, int64, int64[::1], int32[:,::1], int8[::1], boolean[::1], float32[:,::1], float32[:,::1])")
def grow(
    links: I32, values: F64, priors: F32, node: int, games: NDArray[np.int64], leaves: I32,
    movers: NDArray[np.int8], over: NDArray[np.bool_], own: F32, logits: F32,
) -> None:  # fmt: skip
    """Give each game of `games` the node number `node`, below the node and by the action of its row of `leaves`.

    `movers`, `over` and `own` `(len(games), players)` describe the new positions; `logits` has rows for those
    that are not over only.
    """
    players = own.shape[1]
    judged = 0
    for row in range(len(games)):
        game = games[row]
        _attach(links, values, priors, game, node, leaves[row, 0], leaves[row, 1])
        links[game, node, MOVER] = movers[row]
        links[game, node, OVER] = over[row]
        for seat in range(players):
            values[game, node, seat] = 0.0
            values[game, node, players + seat] = own[row, seat]
        if not over[row]:
            _softmax(logits[judged], priors[game, node])
            judged += 1


@kernel("void(int32[:,:,::1], float64[:,:,::1], int32[::1])")
def back_up(links: I32, values: F64, nodes: I32) -> None:
    """Count a visit, with the own value of the node of each game, for it and all nodes above."""
    players = values.shape[2] // 2
    for game in range(len(nodes)):
        node = leaf = nodes[game]
        while node != NONE:
            links[game, node, VISITS] += 1
            for seat in range(players):
                values[game, node, seat] += values[game, leaf, players + seat]
            node = links[game, node, PARENT]


@inlined
def _improved(links: I32, values: F64, priors: F32, game: int, policy: F32) -> None:
    """`pi' = softmax(logits + sigma(completed Q))` of the root."""
    players = values.shape[2] // 2
    seat = links[game, 0, MOVER]
    visits, most = _visits_below(links, game, 0)
    base = sigma(most, _mixed(links, values, game, 0, seat, visits))
    weights = np.empty(len(policy), np.float64)
    for action in range(len(policy)):
        prior = priors[game, 0, action]
        weights[action] = math.log(prior) + base if prior >= 0.0 else -math.inf
    child = links[game, 0, CHILD]
    while child != NONE:
        q = _mean(links, values, game, child, seat)
        weights[links[game, child, ACTION]] = math.log(values[game, child, 2 * players]) + sigma(most, q)
        child = links[game, child, SIBLING]
    weights = np.exp(weights - weights.max())
    policy[:] = weights / weights.sum()


@inlined
def _expected(links: I32, values: F64, game: int, seat: int, policy: F32) -> float:
    """The completed Q of a seat at the root, expected under the policy."""
    visits, _ = _visits_below(links, game, 0)
    rest, expected = 1.0, 0.0
    child = links[game, 0, CHILD]
    while child != NONE:
        probability = np.float64(policy[links[game, child, ACTION]])
        rest -= probability
        expected += probability * _mean(links, values, game, child, seat)
        child = links[game, child, SIBLING]
    return expected + max(rest, 0.0) * _mixed(links, values, game, 0, seat, visits)


@kernel(f"void({TREES}, float64[:,::1], int32[::1], float32[:,::1], float32[:,::1])")
def conclude(links: I32, values: F64, priors: F32, scores: F64, actions: I32, policies: F32, outcomes: F32) -> None:
    """What the search says of every root: the best action, the improved policy, and its value for every seat."""
    players = values.shape[2] // 2
    for game in range(len(actions)):
        _, most = _visits_below(links, game, 0)
        actions[game], _ = _halving(links, values, priors, game, scores[game], most)
        _improved(links, values, priors, game, policies[game])
        for seat in range(players):
            outcomes[game, seat] = _expected(links, values, game, seat, policies[game])
