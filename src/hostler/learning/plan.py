"""Which matches next? Those after which the subject's interval is narrowest.

What a group against an opponent tells about the subject is the Fisher information in its placings at the predicted
odds: most against equals, hardly any where the winner is known beforehand. The gap is itself uncertain, so the
information is averaged over what it may be. A group measures the difference between the two, so that however many
there are, the subject is never known better through an opponent than the opponent is: of `n` groups with information
`f` each, against an opponent of variance `v`, the subject gets 1 / (1 / (n f) + v). Every further group with the same
opponent adds less than the one before; so giving each group to whom it tells most is the best plan there is.

Taken as independent: what is believed of the subject and of its opponents. Where the subject's rating rests on an
opponent's already, the plan is a little too hopeful; the next fit tells the truth.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist, fmean

from hostler.learning.elo import (
    PRIOR_SD,
    dispersion,
    expected_share,
    information,
    pairings,
)
from hostler.model.learning import INTERVAL_SD, Rating
from hostler.model.record import record

SPREAD_MAX = 4
"""Anchors that an unrated subject meets first."""
_DEVIATES = tuple(NormalDist().inv_cdf((number + 0.5) / 32) for number in range(32))


@record
class Planned:
    """Groups to play against one opponent, and why.

    `gap` is how much stronger (Elo) the subject is believed to be, `share` its expected score; `half_width` is half
    the subject's expected 95 % interval (Elo) after this and all matches before it in the plan.
    """

    opponent: str
    groups: int
    gap: float | None
    share: float | None
    half_width: float
    why: str


@record
class _Opponent:
    """A candidate: information of one group about the gap, and the variance of its own rating (Elo squared)."""

    name: str
    rating: Rating
    each: float

    def precision(self, groups: int) -> float:
        """What so many groups tell about the subject's Elo."""
        told = groups * self.each
        return told / (1 + told * self.rating.sd**2)

    def gain(self, groups: int) -> float:
        """What one group more tells."""
        return self.precision(groups + 1) - self.precision(groups)


def best_opponents(
    subject: str,
    ratings: Mapping[str, Rating | None],
    candidates: Iterable[str],
    groups_left: int,
    *,
    players: int = 2,
) -> tuple[Planned, ...]:
    """The plan for `groups_left` groups of the subject, of a game for `players`; the most telling match first.

    Candidates without a rating, and the subject itself, are left out: against them nothing can be learnt of the
    subject's Elo. An unrated subject starts with equal shares against anchors (against whom there is, if no candidate
    is an anchor), spread over the range of their strength. The plan is empty if there is nobody to play,
    and for an anchor, whose Elo no game changes.
    """
    rated = {name: rating for name in sorted(set(candidates) - {subject}) if (rating := ratings.get(name)) is not None}
    if not rated or groups_left < 1:
        return ()
    known = ratings.get(subject)
    if known is None:
        return _first(rated, groups_left, players)
    if known.fixed:
        return ()
    believed = NormalDist(known.elo, known.sd)
    return _listed(believed, known.elo, _allotted(_opponents(believed, rated, players), groups_left))


def _first(rated: Mapping[str, Rating], groups: int, players: int) -> tuple[Planned, ...]:
    anchors = {name: rating for name, rating in rated.items() if rating.fixed} or rated
    chosen = _spread(sorted(anchors, key=lambda name: (anchors[name].elo, name)), min(SPREAD_MAX, groups))
    believed = NormalDist(fmean(anchors[name].elo for name in chosen), PRIOR_SD)
    share, more = divmod(groups, len(chosen))
    allotted = [
        (opponent, share + (number < more))
        for number, opponent in enumerate(_opponents(believed, {name: anchors[name] for name in chosen}, players))
    ]
    return _listed(believed, None, allotted)


def _spread(ordered: Sequence[str], count: int) -> Sequence[str]:
    """So many of the ordered, evenly spaced, the ends included; the middle one if it is to be one."""
    if count >= len(ordered):
        return ordered
    if count == 1:
        return [ordered[len(ordered) // 2]]
    return [ordered[round(number * (len(ordered) - 1) / (count - 1))] for number in range(count)]


def _opponents(believed: NormalDist, rated: Mapping[str, Rating], players: int) -> list[_Opponent]:
    return [
        _Opponent(name=name, rating=rating, each=_told(believed, rating, players)) for name, rating in rated.items()
    ]


def _told(believed: NormalDist, rating: Rating, players: int) -> float:
    """Information of one group about the gap, averaged over what the gap may be."""
    sd = math.hypot(believed.stdev, rating.sd)
    mean = fmean(information(believed.mean - rating.elo + sd * deviate) for deviate in _DEVIATES)
    return mean * pairings(players) / dispersion(players)


def _allotted(opponents: Sequence[_Opponent], groups: int) -> list[tuple[_Opponent, int]]:
    """Each group to whom it tells most (of equals, to an anchor), and the most telling match first."""
    allotted = [0] * len(opponents)
    queue = [(-opponent.gain(0), not opponent.rating.fixed, number) for number, opponent in enumerate(opponents)]
    heapq.heapify(queue)
    for _ in range(groups):
        _, uncertain, number = queue[0]
        allotted[number] += 1
        heapq.heapreplace(queue, (-opponents[number].gain(allotted[number]), uncertain, number))
    matches = [(opponent, count) for opponent, count in zip(opponents, allotted, strict=True) if count]
    return sorted(matches, key=lambda match: -match[0].precision(match[1]))


def _listed(believed: NormalDist, elo: float | None, allotted: Iterable[tuple[_Opponent, int]]) -> tuple[Planned, ...]:
    listed = []
    precision = 1 / believed.variance
    for opponent, groups in allotted:
        precision += opponent.precision(groups)
        listed.append(_planned(opponent, groups, elo, INTERVAL_SD / math.sqrt(precision)))
    return tuple(listed)


def _planned(opponent: _Opponent, groups: int, elo: float | None, half_width: float) -> Planned:
    what = "anchor" if opponent.rating.fixed else f"rated to ±{INTERVAL_SD * opponent.rating.sd:.0f}"
    if elo is None:
        why = f"{what} at {opponent.rating.elo:.0f}: the subject is unrated, first against a spread of strengths"
        return Planned(opponent=opponent.name, groups=groups, gap=None, share=None, half_width=half_width, why=why)
    gap = elo - opponent.rating.elo
    why = f"{what}, gap {gap:+.0f}: a group alone tells ±{INTERVAL_SD / math.sqrt(opponent.precision(1)):.0f}"
    return Planned(
        opponent=opponent.name, groups=groups, gap=gap, share=expected_share(gap), half_width=half_width, why=why
    )
