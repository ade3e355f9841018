"""Many games played side by side by one engine, each with chance of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero import chance
from hostler.workloads.alphazero.engines import Decided, Engine
from hostler.workloads.alphazero.game import Game
from hostler.workloads.alphazero.segments import Played, Ply, sparse
from hostler.workloads.alphazero.stage import StageError, Stopped


def play(
    game: Game, engine: Engine, seed: int, numbers: Iterable[int], parallel: int, stopping: Callable[[], bool]
) -> Iterator[tuple[int, Played]]:
    """Play the games of these numbers, `parallel` at once, and give each with its number when it has ended.

    Raises `Stopped` at the next ply once `stopping()` says so, and `StageError` where a game goes on beyond its longest
    or the engine's decision is no legal action.
    """
    waiting = iter(numbers)
    tables = _Tables(game, engine, seed)
    while tables.fill(list(islice(waiting, parallel - len(tables)))):
        if stopping():
            raise Stopped(f"stopped: {len(tables)} games under way are lost, those that have ended count")
        tables.advance()
        yield from tables.clear()


class _Tables:
    """The games under way; they change places when others end."""

    def __init__(self, game: Game, engine: Engine, seed: int) -> None:
        self._game, self._engine, self._seed = game, engine, np.array([seed], np.uint64)
        self._states = game.initial(0)
        self._numbers = np.empty(0, np.int64)
        self._seeds = np.empty(0, np.uint64)
        self._plies: list[list[Ply]] = []

    def __len__(self) -> int:
        return len(self._plies)

    def fill(self, numbers: list[int]) -> bool:
        """Begin these games; whether any is under way now."""
        seeds = chance.derive(np.repeat(self._seed, len(numbers)), np.array(numbers, np.uint64))
        self._states = np.concatenate([self._states, self._game.initial(len(numbers))])
        self._numbers = np.append(self._numbers, np.array(numbers, np.int64))
        self._seeds = np.append(self._seeds, seeds)
        self._plies += [[] for _ in numbers]
        return len(self) > 0

    def advance(self) -> None:
        """One ply in every game."""
        plies = np.array([len(record) for record in self._plies], np.int64)
        seeds = chance.derive(self._seeds, plies.astype(np.uint64))
        decided = self._engine.decide(self._states, seeds, plies)
        self._check(decided, plies)
        self._record(decided)
        self._states = self._game.apply(self._states, decided.action)

    def clear(self) -> list[tuple[int, Played]]:
        """Take away the games that have ended."""
        over = self._game.terminal(self._states)
        ended = np.flatnonzero(over)
        if not len(ended):
            return []
        rankings = self._game.ranking(self._states[ended])
        taken = [
            (int(self._numbers[i]), Played(int(self._seeds[i]), ranking, self._plies[i]))
            for i, ranking in zip(ended, rankings, strict=True)
        ]
        self._states, self._numbers, self._seeds = self._states[~over], self._numbers[~over], self._seeds[~over]
        self._plies = [record for record, gone in zip(self._plies, over, strict=True) if not gone]
        return taken

    def _check(self, decided: Decided, plies: NDArray[np.int64]) -> None:
        playable = self._game.legal(self._states)[np.arange(len(plies)), decided.action]
        sound = np.isfinite(decided.policy).all(axis=1) & (plies < self._game.max_plies)
        wrong = np.flatnonzero(~(playable & sound))
        if not len(wrong):
            return
        first = wrong[0]
        raise StageError(
            f"{self._game.name}: in {len(wrong)} of {len(plies)} games no move can be made: game "
            f"{self._numbers[first]} is at ply {plies[first]} of at most {self._game.max_plies}, the engine wants "
            f"action {decided.action[first]} by a policy that sums to {decided.policy[first].sum()}; look into the "
            "rules of the game and into the model"
        )

    def _record(self, decided: Decided) -> None:
        policies = sparse(decided.policy, decided.action)
        values = zip(decided.root_value, decided.network_value, strict=True)
        decisions = zip(self._plies, decided.action.tolist(), policies, values, strict=True)
        for record, action, policy, (root_value, network_value) in decisions:
            record.append(Ply(action, *policy, root_value, network_value))
