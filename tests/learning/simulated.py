"""Groups of games between players of known strength, of any number of seats, with openings that favour somebody."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from statistics import NormalDist

from hostler.learning.elo import DIFFERENCE_SD
from hostler.model.learning import Group, Match, Places
from hostler.model.record import record

PERFORMANCE_SD = DIFFERENCE_SD / math.sqrt(2)


@record
class Openings:
    """How much, in Elo, openings differ: in what each seat is worth, and in how well they suit `a`."""

    seats: float = 0.0
    suits: float = 0.0


EVEN = Openings()
SEATED = Openings(seats=250.0)
SUITED = Openings(suits=150.0)


def group(random: Random, players: int, gap: float, openings: Openings = EVEN) -> Group:
    """One opening from every seat; over all openings, `a` is placed before `b` as often as `expected_share(gap)`."""
    whole_sd = math.sqrt(DIFFERENCE_SD**2 + 2 * openings.seats**2 + openings.suits**2)
    better = gap * whole_sd / DIFFERENCE_SD + random.gauss(0, openings.suits)
    worth = [random.gauss(0, openings.seats) for _ in range(players)]
    return tuple(_game(random, worth, seat, better) for seat in range(players))


def match(random: Random, players: int, names: tuple[str, str], gap: float, groups: int, of: Openings = EVEN) -> Match:
    """So many groups between two players."""
    a, b = names
    return Match(a=a, b=b, groups=tuple(group(random, players, gap, of) for _ in range(groups)))


def ladder(
    random: Random, players: int, truth: Mapping[str, float], plan: Sequence[tuple[str, str, int]], of: Openings = EVEN
) -> list[Match]:
    """Matches between players of known Elo: (a, b, groups)."""
    return [match(random, players, (a, b), truth[a] - truth[b], groups, of) for a, b, groups in plan]


def gap_of_share(share: float) -> float:
    """The gap at which `a` is placed before `b` with this probability."""
    return DIFFERENCE_SD * NormalDist().inv_cdf(share)


def _game(random: Random, worth: Sequence[float], seat: int, better: float) -> Places:
    performances = [
        value + random.gauss(0, PERFORMANCE_SD) + (better if at == seat else 0.0) for at, value in enumerate(worth)
    ]
    ordered = sorted(performances, reverse=True)
    return tuple(ordered.index(performance) for performance in performances)
