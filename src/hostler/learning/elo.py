"""The scale of ratings: what a difference in Elo says about the next game, and how much a game says about it.

Strength follows Thurstone and Mosteller: in every game a player performs as its strength plus a normal error, and who
performed better is placed better. The unit is chosen so that near equality a small difference means the same odds as
on the logistic Elo scale, 400 log10(odds): the slope of the normal curve at zero, 1 / (sd sqrt(2 pi)), equals that of
the logistic curve, ln(10) / 1600. Far from equality the two scales part: 400 points are a share of 0.925 here, and of
0.909 there.
"""

from __future__ import annotations

import math

DIFFERENCE_SD = 1600 / (math.log(10) * math.sqrt(2 * math.pi))
"""Elo; standard deviation of the difference between two players' performances in one game: 277.2."""
PRIOR_SD = 1000.0
"""Elo; what is believed of a player's strength before its first game, about that of its opponents: hardly anything.

It keeps the rating of a player who never lost finite, and where it does so the interval tells that little is known.
It is about the opponents and not about one centre, or a long chain of players would be pulled there by all of them.
"""

_SQRT2 = math.sqrt(2)
_LOG_SQRT_2PI = math.log(2 * math.pi) / 2
_ASYMPTOTIC = -30.0


def expected_share(gap: float) -> float:
    """Probability that a player `gap` Elo stronger than another is placed before it."""
    return math.erfc(-gap / DIFFERENCE_SD / _SQRT2) / 2


def log_share(gap: float) -> float:
    """Natural logarithm of `expected_share`, finite and exact to 1e-6 for any finite gap."""
    deviations = gap / DIFFERENCE_SD
    if deviations > _ASYMPTOTIC:
        return math.log(math.erfc(-deviations / _SQRT2) / 2)
    return -deviations * deviations / 2 - _LOG_SQRT_2PI - math.log(-deviations) - 1 / (deviations * deviations)


def slope(gap: float) -> float:
    """Derivative of `log_share`, per Elo: the normal density over the normal distribution function."""
    deviations = gap / DIFFERENCE_SD
    if deviations > _ASYMPTOTIC:
        density = math.exp(-deviations * deviations / 2 - _LOG_SQRT_2PI)
        return density / (math.erfc(-deviations / _SQRT2) / 2) / DIFFERENCE_SD
    return (-deviations - 1 / deviations + 2 / deviations**3) / DIFFERENCE_SD


def curvature(gap: float) -> float:
    """Information (per Elo squared) in having seen a player placed before one who is `gap` Elo weaker.

    Minus the second derivative of `log_share`: near 0 for what was to be expected, at most 1 / DIFFERENCE_SD² for an
    upset.
    """
    unit = slope(gap) * DIFFERENCE_SD
    return min(max(unit * (unit + gap / DIFFERENCE_SD), 0.0), 1.0) / DIFFERENCE_SD**2


def information(gap: float) -> float:
    """Fisher information (per Elo squared) about the gap between two players in one placing of one before the other.

    The expectation of `curvature` over both outcomes: 1 / 347² at equality, a quarter of that at 520 Elo.
    """
    return slope(gap) * slope(-gap)


def dispersion(players: int) -> float:
    """How much more a group's score varies than if all placings in it were independent: 1, 4/3 and 5/3 for 2, 3 and 4.

    In a game of more than two, one performance of `a` is compared with all its opponents': two such comparisons of
    normal differences correlate by a half, and their outcomes at equality by a third (Sheppard, 1899).
    """
    return 1 + (players - 2) / 3


def pairings(players: int) -> int:
    """Comparisons between `a` and `b` in one group: in each of its games, `a` with all others."""
    return players * (players - 1)
