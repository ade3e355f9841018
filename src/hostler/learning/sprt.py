"""Is the candidate better than the current best? A sequential test with stated error rates.

Generalised sequential probability ratio test (X. Li, J. Liu and Z. Ying, "Generalized Sequential Probability Ratio
Test for Separate Families of Hypotheses", Sequential Analysis 33, 2014), in the normal approximation that Michel Van
den Bergh's notes derive for the testing of chess engines (fishtest): the scores of groups are taken for normal, their
variance is not known, and under each hypothesis it is given the value most favourable to it. With N groups of mean m
and variance v that is

    LLR = N/2 log((v + (m - s0)²) / (v + (m - s1)²))

where s0 and s1 are the expected scores at elo0 and elo1. This grows with the logarithm of the distance: a candidate
that wins everything has an LLR of N/2 log(...), where the simpler quotient by v would be infinite. The bounds are
Wald's, log((1 - beta) / alpha) and log(beta / (1 - alpha)).

Two things make it safe with few groups, when v is hardly known: v is averaged with `PRIOR_VARIANCE`, taken to have
been seen in `PRIOR_GROUPS` groups; and there is no decision before `min_groups`. The real error rates, by simulation,
are in README.md: at alpha = beta = 0.05, false promotions are at most 0.05 and false rejections 0.06, for 2, 3 and 4
players, with and without openings that favour a seat or a player, as long as `max_groups` is not what ends the test.
"""

from __future__ import annotations

import math
from typing import Literal

from hostler.model.record import record

MIN_GROUPS = 8
"""Groups before which nothing is decided."""
PRIOR_GROUPS = 4
PRIOR_VARIANCE = 1 / 8
"""Variance of the score of two fair, independent games: more than for any number of players beyond two."""


@record
class Evidence:
    """What the groups played so far amount to: how many, the sum of their scores, and that of their squares."""

    groups: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, score: float) -> Evidence:
        """The evidence with one group more, whose score (0..1) this is. Raises `ValueError` for another number."""
        if not 0 <= score <= 1:
            raise ValueError(f"score of a group: {score} is not in 0..1")
        return Evidence(groups=self.groups + 1, total=self.total + score, squares=self.squares + score * score)


@record
class Hypotheses:
    """H0: the candidate is `elo0` better, or less; H1: `elo1`, or more (logistic Elo per pairing).

    `alpha` is the probability of promoting at elo0, `beta` that of rejecting at elo1. Raises `ValueError` for
    hypotheses that cannot be told apart.
    """

    elo0: float
    elo1: float
    alpha: float
    beta: float

    def __post_init__(self) -> None:
        if not self.elo0 < self.elo1:
            raise ValueError(f"elo0 = {self.elo0} and elo1 = {self.elo1}: choose elo0 < elo1")
        if not (0 < self.alpha < 0.5 and 0 < self.beta < 0.5):
            raise ValueError(f"alpha = {self.alpha} and beta = {self.beta}: choose both between 0 and 0.5")


@record
class Verdict:
    """Where the test stands: `llr` between `lower` and `upper` is undecided. `llr` is `None` without any group."""

    llr: float | None
    lower: float
    upper: float
    decision: Literal["promote", "reject"] | None
    why: str


def verdict(evidence: Evidence, hypotheses: Hypotheses, *, min_groups: int = MIN_GROUPS, max_groups: int) -> Verdict:
    """Judge the candidate by all its groups so far: promote it, reject it, or play on (`decision` is `None`).

    Call it after every new group or batch of groups: batches only delay the decision. A candidate about whom nothing
    is decided within `max_groups` is rejected: choose it three times the groups expected, or more of those at elo1 will
    be rejected than `beta`. Raises `ValueError` if `max_groups` is less than `min_groups`.
    """
    if not 1 <= min_groups <= max_groups:
        raise ValueError(
            f"min_groups = {min_groups} and max_groups = {max_groups}: choose 1 <= min_groups <= max_groups"
        )
    lower = math.log(hypotheses.beta / (1 - hypotheses.alpha))
    upper = math.log((1 - hypotheses.beta) / hypotheses.alpha)
    llr = log_likelihood_ratio(evidence, hypotheses)
    decision, why = _decide(evidence, hypotheses, llr, (lower, upper), (min_groups, max_groups))
    return Verdict(llr=llr, lower=lower, upper=upper, decision=decision, why=why)


def log_likelihood_ratio(evidence: Evidence, hypotheses: Hypotheses) -> float | None:
    """How much better H1 explains the evidence than H0, in nats; `None` without any group."""
    if evidence.groups == 0:
        return None
    mean = evidence.total / evidence.groups
    seen = max(evidence.squares - evidence.groups * mean * mean, 0.0)
    variance = (seen + PRIOR_GROUPS * PRIOR_VARIANCE) / (evidence.groups + PRIOR_GROUPS)
    from0, from1 = (mean - score_at(elo) for elo in (hypotheses.elo0, hypotheses.elo1))
    return evidence.groups / 2 * math.log((variance + from0 * from0) / (variance + from1 * from1))


def score_at(elo: float) -> float:
    """The score expected of a player who is `elo` better, on the logistic Elo scale."""
    return 1 / (1 + 10 ** (-elo / 400))


def _decide(
    evidence: Evidence,
    hypotheses: Hypotheses,
    llr: float | None,
    bounds: tuple[float, float],
    groups: tuple[int, int],
) -> tuple[Literal["promote", "reject"] | None, str]:
    if llr is None:
        return None, "no group was played: nothing is known"
    facts = f"score {evidence.total / evidence.groups:.3f} in {evidence.groups} groups, LLR {llr:.2f}"
    if evidence.groups < groups[0]:
        return None, f"{facts}: {groups[0]} groups are needed before a decision"
    if llr >= bounds[1]:
        return "promote", f"{facts} >= {bounds[1]:.2f}: better by more than {hypotheses.elo0:g} Elo"
    if llr <= bounds[0]:
        return "reject", f"{facts} <= {bounds[0]:.2f}: not better by {hypotheses.elo1:g} Elo"
    if evidence.groups >= groups[1]:
        return "reject", f"{facts}: not shown to be better within {groups[1]} groups"
    return None, f"{facts}, between {bounds[0]:.2f} and {bounds[1]:.2f}: undecided"
