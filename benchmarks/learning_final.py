"""The last word on a learnt model: matches against fixed opponents, and how likely chance alone is; for learning.py."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

from hostler.learning.matches import group_score
from stages import Order, Ran, run_together


@dataclass(frozen=True, slots=True)
class Final:
    """A match in groups: one opening played once from every seat. A group is won with more than half its points."""

    a: str
    b: str
    won: int
    even: int
    lost: int
    score: float
    """The share of opponents that `a` outranked, 0..1."""

    @property
    def p(self) -> float:
        """See `sign_test`."""
        return sign_test(self.won, self.lost)


def sign_test(won: int, lost: int) -> float:
    """Probability that one who is no better wins this many of the groups that were decided, or more.

    Exact: if nobody is better, a group that is decided is a fair coin, whatever seats and openings are worth.
    """
    decided = won + lost
    return float(sum(comb(decided, wins) for wins in range(won, decided + 1)) / 2**decided)


def play(
    history: Mapping[str, Any], opponents: Sequence[str], groups: int, artifacts: Path, folder: Path
) -> list[Final]:
    """`groups` groups of the current model against each opponent, by the evaluation stage, side by side."""
    orders = [_order(history, opponent, groups, seed) for seed, opponent in enumerate(opponents, 1)]
    return [_final(ran) for ran in run_together(orders, artifacts, folder)]


def untrained_player(history: Mapping[str, Any]) -> str | None:
    """The model that the loop began with, searching as the current one does; `None` while it is the current one."""
    player, current = history["config"]["player"], history["config"]["current"]
    first = next(model["sha256"] for model in history["models"] if model["number"] == 0)
    return None if first == current else str(player).replace(current, first)


def _order(history: Mapping[str, Any], opponent: str, groups: int, seed: int) -> Order:
    config = history["config"]
    game = {"factory": config["game"]["factory"], "params": config["game"]["params"]}
    match = {"a": config["player"], "b": opponent, "groups": groups}
    return {"schema": 1, "stage": "evaluation", "config": config["name"], "seed": seed, "game": game,
            "matches": [match], "options": {}, "record": False}  # fmt: skip


def _final(ran: Ran) -> Final:
    (match,) = ran.result["matches"]
    scores = [group_score(group) for group in match["groups"]]
    won, lost = sum(score > 0.5 for score in scores), sum(score < 0.5 for score in scores)
    return Final(match["a"], match["b"], won, len(scores) - won - lost, lost, sum(scores) / len(scores))
