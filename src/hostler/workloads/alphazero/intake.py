"""Whether a dataset is what a training was ordered to learn from: counts, game, and every position of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero.dataset import Dataset
from hostler.workloads.alphazero.game import Game
from hostler.workloads.alphazero.sampling import dense_policy
from hostler.workloads.alphazero.stage import StageError

AT_ONCE = 8192  # positions
SUM_TOLERANCE = 1e-3
VALUE_ROUNDING = 1e-3  # by which the values of a search may stray beyond -1..1


class IntakeError(StageError):
    """The dataset is not what was ordered or cannot be learnt from; the text has the numbers of both sides."""


def check(dataset: Dataset, game: Game, config: str, games: int, positions: int) -> None:
    """Raise `IntakeError` unless the dataset is of this config and game, has these counts, and sound examples."""
    _check_identity(dataset, game, config)
    _check_counts(dataset, games, positions)
    if positions == 0:
        raise IntakeError("the dataset holds no positions: there is nothing to learn from")
    _check_places(dataset, game)
    _check_games(dataset)
    _check_entries(dataset, game)
    for start in range(0, positions, AT_ONCE):
        _check_positions(dataset, game, np.arange(start, min(start + AT_ONCE, positions)))


def _check_identity(dataset: Dataset, game: Game, config: str) -> None:
    expected = {"config": config, "game": game.name, "rules_version": game.rules_version,
                "players": game.players, "actions": game.actions}  # fmt: skip
    for name, wanted in expected.items():
        if dataset.header.get(name) != wanted:
            raise IntakeError(f"the dataset's {name} is {dataset.header.get(name)!r}, that of the order is {wanted!r}")
    width = game.initial(1).shape[1]
    if dataset.states.shape[1] != width:
        raise IntakeError(
            f"the dataset's positions are {dataset.states.shape[1]} bytes wide, those of the game {width}"
        )


def _check_counts(dataset: Dataset, games: int, positions: int) -> None:
    held = {"games": len(np.unique(dataset.game)), "positions": len(dataset.states)}
    for name, ordered in (("games", games), ("positions", positions)):
        told = dataset.header.get(name)
        if not told == held[name] == ordered:
            raise IntakeError(
                f"{ordered} {name} were ordered, the dataset's header tells of {told}, its arrays hold {held[name]}"
            )


def _check_places(dataset: Dataset, game: Game) -> None:
    due = np.arange(game.players)
    wrong = (np.sort(dataset.places, axis=1) != due).any(axis=1)
    _none(np.array(wrong), "places are no ranking of the seats")


def _check_games(dataset: Dataset) -> None:
    numbers = dataset.game.astype(np.int64)
    steps = np.diff(numbers, prepend=numbers[0])
    if numbers[0] != 0 or not np.isin(steps, (0, 1)).all():
        raise IntakeError("the dataset's games are not numbered from 0 on without gaps, one after the other")
    changing = np.append(False, (dataset.places[1:] != dataset.places[:-1]).any(axis=1) & (steps[1:] == 0))
    _none(changing, "places are others than in the position before, of the same game")
    # NaN stands for unknown.
    wild = np.abs(dataset.root_value) > 1 + VALUE_ROUNDING
    _none(np.asarray(wild.any(axis=1)), "values of the search lie outside -1..1")


def _check_entries(dataset: Dataset, game: Game) -> None:
    outside = (dataset.policy_action < 0) | (dataset.policy_action >= game.actions)
    if outside.any():
        raise IntakeError(f"{int(outside.sum())} of {len(outside)} policy entries are for actions that do not exist")
    unsound = ~((dataset.policy_probability >= 0) & (dataset.policy_probability <= 1 + SUM_TOLERANCE))  # NaN, too
    if unsound.any():
        raise IntakeError(f"{int(unsound.sum())} of {len(unsound)} policy entries are no probabilities")


def _check_positions(dataset: Dataset, game: Game, rows: NDArray[np.int64]) -> None:
    movers = _movers(dataset, game, rows)
    _none((movers < 0) | (movers >= game.players), "seat to move is none of the game", len(dataset.states))
    policy = dense_policy(dataset, rows, game.actions)
    illegal = policy * ~game.legal(dataset.states[rows])
    _none(np.array(illegal.any(axis=1)), "recorded policies give probability to illegal actions", len(dataset.states))
    _none(np.abs(policy.sum(axis=1) - 1.0) > SUM_TOLERANCE, "recorded policies do not sum to 1", len(dataset.states))


def _movers(dataset: Dataset, game: Game, rows: NDArray[np.int64]) -> NDArray[np.int8]:
    """The seats to move; with it the game shows whether it knows such bytes as positions at all."""
    states = dataset.states[rows]
    try:
        game.legal(states)
        game.encode(states)
        return game.to_move(states)
    except (IndexError, ValueError, OverflowError, ZeroDivisionError) as error:
        raise IntakeError(
            f"among the positions {rows[0]}..{rows[-1]} are bytes that {game.name} does not know as a position: {error}"
        ) from error


def _none(wrong: NDArray[np.bool_], what: str, of: int | None = None) -> None:
    if wrong.any():
        seen = "" if of in (None, len(wrong)) else f" of the {of} in the dataset"
        raise IntakeError(
            f"in {int(wrong.sum())} of {len(wrong)} positions{seen} the {what}: export the games again and look "
            "into the stage that recorded them"
        )
