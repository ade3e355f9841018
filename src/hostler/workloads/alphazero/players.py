"""Players: whoever chooses an action in many positions at once, and the names by which they are rated."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero import chance
from hostler.workloads.alphazero.game import Game, PlaysOut, States, values_of
from hostler.workloads.alphazero.search import GumbelSearch

if TYPE_CHECKING:  # weak nodes play without torch, which also takes seconds to load
    from hostler.workloads.alphazero.inference import Evaluator

ANCHORS = ("random", "greedy", "mc")
NAME = re.compile(r"(?P<engine>[a-z]+)(?:-(?P<budget>[1-9][0-9]{0,8}))?(?:@(?P<model>[0-9a-f]{64}))?")
TAKES_BUDGET = frozenset({"mc", "gumbel"})
TAKES_MODEL = frozenset({"policy", "gumbel"})
ENGINES = ("random", "greedy", "mc", "heuristic", "policy", "gumbel")


class Player(Protocol):
    """Plays any seat of any number of games."""

    def choose(self, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
        """`(batch,)`: a legal action in each position. No game may be over. A row's chance is its seed's."""


@dataclass(frozen=True, slots=True)
class PlayerName:
    """What a player is: `budget` counts playouts or simulations, `model` is the SHA-256 of its network; or `None`."""

    engine: str
    budget: int | None = None
    model: str | None = None

    def __str__(self) -> str:
        budget = "" if self.budget is None else f"-{self.budget}"
        return self.engine + budget + ("" if self.model is None else f"@{self.model}")

    @property
    def is_anchor(self) -> bool:
        """Whether the player's rating is fixed, so that others can be rated by it."""
        return self.engine in ANCHORS


def parse(text: str) -> PlayerName:
    """The player that is written so; raises `ValueError` saying what is wrong with it."""
    found = NAME.fullmatch(text)
    if found is None or found["engine"] not in ENGINES:
        raise ValueError(f"player {text!r}: write random, greedy, heuristic, mc-<playouts>, policy@<sha256> or "
                         "gumbel-<simulations>@<sha256>")  # fmt: skip
    engine, budget, model = found["engine"], found["budget"], found["model"]
    _check(text, "a budget, as in mc-200", engine in TAKES_BUDGET, budget)
    _check(text, "a model, as in policy@<sha256>", engine in TAKES_MODEL, model)
    return PlayerName(engine, None if budget is None else int(budget), model)


def make_player(text: str, game: Game, evaluator_of: Callable[[str], Evaluator], *, considered: int = 16) -> Player:
    """The player of that name, for evaluation; `evaluator_of` is asked for the evaluator of the model in the name.

    Searching players play without Gumbel noise: the noise is there to explore, and a rated player is to do its best.
    Raises `ValueError` for a name that `parse` refuses.
    """
    name = parse(text)
    if name.model is not None:
        evaluator = evaluator_of(name.model)
        if name.budget is None:
            return PolicyPlayer(evaluator)
        return SearchPlayer(GumbelSearch(game, evaluator, name.budget, considered, gumbel_scale=0.0))
    if name.budget is not None:
        return MonteCarloPlayer(game, name.budget)
    simple: dict[str, Callable[[Game], Player]] = {
        "random": RandomPlayer,
        "greedy": GreedyPlayer,
        "heuristic": HeuristicPlayer,
    }
    return simple[name.engine](game)


class RandomPlayer:
    """Any legal action, all with the same probability."""

    def __init__(self, game: Game) -> None:
        self._game = game

    def choose(self, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Player`."""
        return uniform_actions(self._game.legal(states), seeds)


class GreedyPlayer:
    """What the heuristic likes best; chance decides among equals."""

    def __init__(self, game: Game) -> None:
        self._game = game

    def choose(self, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Player`."""
        scores = self._game.heuristic(states)
        return uniform_actions(scores == scores.max(axis=1, keepdims=True), seeds)


class HeuristicPlayer:
    """A draw from the softmax of the heuristic: good games that differ."""

    def __init__(self, game: Game) -> None:
        self._game = game

    def choose(self, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Player`."""
        return sampled_actions(self._game.heuristic(states), seeds)


class PolicyPlayer:
    """The most probable action by the network, without search."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def choose(self, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Player`; the seeds make no difference."""
        return _best(self._evaluator.evaluate(states)[0])


class SearchPlayer:
    """The action that a search finds best."""

    def __init__(self, search: GumbelSearch) -> None:
        self._search = search

    def choose(self, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Player`; the seeds make no difference where the search has no noise."""
        return self._search.search(states, seeds).action


class MonteCarloPlayer:
    """Flat Monte Carlo: random games from every legal action, chosen by UCB1 (Auer, Cesa-Bianchi, Fischer, 2002).

    Each of the `playouts` random games starts with the action of the greatest upper bound, untried ones first; the
    action tried most often is played, the better one of equals. A game is worth 0..1 to the seat to move, by its place.
    """

    def __init__(self, game: Game, playouts: int) -> None:
        self._game, self._playouts = game, playouts
        self._finish = game.playouts if isinstance(game, PlaysOut) else self._playout

    def choose(self, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
        """See `Player`."""
        rows, movers = np.arange(len(states)), self._game.to_move(states)
        order = np.where(self._game.legal(states), chance.uniform(seeds, self._game.actions), -np.inf)
        tried = np.zeros(order.shape, np.float64)
        worth = np.zeros(order.shape, np.float64)
        for playout in range(self._playouts):
            actions = _upper_bound(order, tried, worth, playout)
            ranking = self._finish(self._game.apply(states, actions), chance.derive(seeds, playout + 1))
            tried[rows, actions] += 1.0
            worth[rows, actions] += (1.0 + values_of(ranking)[rows, movers]) / 2.0
        # The mean is at most 1: it only decides among actions tried equally often, and the order among equals.
        return _best(tried + 0.5 * _mean(worth, tried) + 1e-6 * order)

    def _playout(self, states: States, seeds: NDArray[np.uint64]) -> NDArray[np.int8]:
        """The same as `PlaysOut.playouts`, for a game that does not offer it."""
        states, ply = states.copy(), 0
        running = np.flatnonzero(~self._game.terminal(states))
        while len(running):
            legal = self._game.legal(states[running])
            actions = uniform_actions(legal, chance.derive(seeds[running], ply))
            states[running] = self._game.apply(states[running], actions)
            running, ply = running[~self._game.terminal(states[running])], ply + 1
        return self._game.ranking(states)


def uniform_actions(allowed: NDArray[np.bool_], seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
    """`(batch,)`: one of the allowed actions of each row, all with the same probability."""
    order = np.cumsum(allowed, axis=1)
    wanted = (chance.uniform(seeds, 1)[:, 0] * order[:, -1]).astype(np.int64)
    return _best(order > wanted[:, None])


def sampled_actions(logits: NDArray[np.floating], seeds: NDArray[np.uint64]) -> NDArray[np.int32]:
    """`(batch,)`: a draw from the softmax of each row."""
    return _best(logits + chance.gumbel(seeds, logits.shape[1]))


def _upper_bound(
    order: NDArray[np.float64], tried: NDArray[np.float64], worth: NDArray[np.float64], playouts: int
) -> NDArray[np.int32]:
    """The next action of each row to try; `order` `(batch, actions)` settles ties, and is `-inf` where illegal."""
    bonus = np.sqrt(2.0 * np.log(max(playouts, 1)) / np.maximum(tried, 1.0))
    bounds = np.where(tried == 0, 1e6, _mean(worth, tried) + bonus)
    return _best(bounds + 1e-6 * order)


def _best(scores: NDArray[np.generic]) -> NDArray[np.int32]:
    """The greatest score of each row, the first one of equals."""
    return np.asarray(np.argmax(scores, axis=1), np.int32)


def _mean(worth: NDArray[np.float64], tried: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(worth / np.maximum(tried, 1.0))


def _check(text: str, what: str, takes: bool, given: str | None) -> None:
    if takes and given is None:
        raise ValueError(f"player {text!r} lacks {what}")
    if not takes and given is not None:
        raise ValueError(f"player {text!r} takes no such thing as {what}: leave it out")
