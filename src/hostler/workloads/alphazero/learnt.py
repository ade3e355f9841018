"""What counts as having learnt: judged by the positions held out, with the error that chance makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hostler.workloads.alphazero.learner import Losses
from hostler.workloads.alphazero.stage import StageError

POLICY_ERRORS = 3.0  # standard errors that a gain over the uniform policy must exceed: chance does 1 time in 700
PLACES_ERRORS = 2.0  # and one in the places, of far fewer games than there are positions: 1 time in 40
SILENT = 0.3  # nats: recorded policies that are closer to uniform on the average teach next to nothing
TOLERANCE = 0.01  # nats that a policy may lose where there is nothing for it to learn


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better one loss is than another over the same sample: mean, in nats, and its standard error."""

    mean: float
    standard_error: float

    def exceeds(self, errors: float) -> bool:
        """Whether the mean is more than so many standard errors above zero."""
        return self.mean > errors * self.standard_error

    def __str__(self) -> str:
        return f"{self.mean:.4f} (standard error {self.standard_error:.4f})"


def check_learnt(before: Losses, after: Losses, games: NDArray[np.int32], facts: Mapping[str, Any]) -> None:
    """Raise `StageError`, which carries `facts`, unless the new model has learnt something.

    Its policy must be better than the base's and, beyond chance, than the uniform one. Where the recorded policies are
    nearly uniform there is nothing in them to learn: the search of an untrained network knows no better. There the
    prediction of places must be better than the base's, beyond chance. `games` has the game of each position.
    """
    over_base, over_uniform = gain(before.policy, after.policy), gain(after.uniform_policy, after.policy)
    if over_base.mean > 0 and over_uniform.exceeds(POLICY_ERRORS):
        return
    told = float((after.uniform_policy - after.least_policy).mean())
    value = gain(by_game(before.value, games), by_game(after.value, games))
    if told < SILENT and over_base.mean > -TOLERANCE and value.exceeds(PLACES_ERRORS):
        return
    raise StageError(
        f"nothing was learnt: on the {len(after.policy)} positions held out the policy loss is "
        f"{after.policy.mean():.4f}, better than the base's by {over_base}, than that of the uniform policy by "
        f"{over_uniform}; the recorded policies are {told:.4f} from uniform; the loss of the places is better than the "
        f"base's by {value}. Too few positions, too few steps, or policies that do not belong to their positions",
        **facts,
    )


def gain(reference: NDArray[np.float64], loss: NDArray[np.float64]) -> Gain:
    """That of `loss` over `reference`, both `(sample,)`, paired; of a single one the error is infinite."""
    difference = reference - loss
    if len(difference) < 2:
        return Gain(float(difference.mean()), float("inf"))
    return Gain(float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(len(difference))))


def by_game(losses: NDArray[np.float64], games: NDArray[np.int32]) -> NDArray[np.float64]:
    """`(games,)`: the mean over each game, all of whose positions share one outcome."""
    _, which = np.unique(games, return_inverse=True)
    return np.asarray(np.bincount(which, losses) / np.bincount(which))
