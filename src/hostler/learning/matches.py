"""Matches as an evaluation reports them, and what they say: the score of a group, the games of a match.

The unit of evidence is the *group*: one opening, played once from every seat. Its games share the opening, so they
are not independent; groups are. A seat that wins by itself, or an opening that does, cancels out within the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hostler.model.learning import Match, Places
from hostler.model.record import record


@record
class Game:
    """One game of a match: `a` had `seat`, `b` all others."""

    a: str
    b: str
    seat: int
    places: Places


def group_score(group: Sequence[Places]) -> float:
    """The share of opponents that `a` outranked, 0..1, over all games of the group; a tie counts one half.

    One half is equality for any number of players. With two players it is the share of games won.
    """
    return doubled_wins(group) / (2 * len(group) * (len(group) - 1))


def doubled_wins(group: Sequence[Places]) -> int:
    """Twice the number of opponents that `a` outranked in all games of the group together, ties counted one half."""
    return sum(_outranked(places, seat) for seat, places in enumerate(group))


def scores(match: Match) -> Iterator[float]:
    """The score of every group of the match, from the point of view of `a`."""
    return (group_score(group) for group in match.groups)


def games(matches: Iterable[Match]) -> Iterator[Game]:
    """Every game of the matches, in their order."""
    for match in matches:
        for group in match.groups:
            for seat, places in enumerate(group):
                yield Game(a=match.a, b=match.b, seat=seat, places=places)


def _outranked(places: Places, seat: int) -> int:
    own = places[seat]
    others = (place for other, place in enumerate(places) if other != seat)
    return sum(2 if own < place else own == place for place in others)
