"""How strong is every player of a config? One fit of all its games at once, with honest intervals.

The model is openskill's `ThurstoneMostellerFull` (algorithm 3 of Weng and Lin, JMLR 12, 2011): every game is all its
pairings, and in a pairing the stronger player is placed better with probability Phi(difference / c),
c² = 2 (sigma² + beta²). openskill rates game by game, so what it answers depends on the order of games, and its sigma
shrinks with every pass over the same games. Here its update is used as what it is, the gradient of the model's
likelihood: of every pairing, starting from the same ratings, and summed. The fit is where this sum, together with a
weak prior, moves nobody. It is a function of the numbers of wins alone, which are added as integers: the order of
matches and games, and who of a pair was called `a`, cannot change a bit of it.

Elo per unit of openskill's mu is `DIFFERENCE_SD` / c. Anchors have exactly their given Elo, and no interval.

The interval of the others is none of openskill's: it is where the likelihood, along the line on which all others
follow as they best can, falls by half of 1.96² (the profile likelihood to first order, in which every uncertainty of
the opponents counts). It is asymmetric where the games are: a player that never lost has a wide upper side. The
pairings of a group are not independent, so their likelihood is divided by their dispersion, measured over all groups
of the config: the scatter of the groups' scores about the fit, over that of independent pairings; a value from theory
(`elo.dispersion`) counts as much as `DISPERSION_GROUPS` groups. Openings that favour a seat make scores scatter less
than independent pairings would; that gain is left out, because in lopsided matches there is none.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from openskill.models import ThurstoneMostellerFull

from hostler.learning import linear
from hostler.learning.elo import (
    DIFFERENCE_SD,
    PRIOR_SD,
    curvature,
    dispersion,
    expected_share,
    log_share,
    pairings,
    slope,
)
from hostler.learning.linear import Vector
from hostler.learning.matches import doubled_wins
from hostler.model.learning import INTERVAL_SD, Match, Rating
from hostler.model.record import record

DISPERSION_GROUPS = 10
STEP_MAX = 400.0
"""Elo; no player is moved further in one step of the fit."""
CONVERGED = 1e-5
"""Elo; the fit ends when no player moves further than this."""
STEPS_MAX = 200
CROSSED = 1e-3
"""Standard deviations; how exact the ends of intervals are."""
EXACT_TO = 5 * DIFFERENCE_SD
"""Elo; beyond this gap openskill's normal distribution function has too few digits, and ours takes over."""
ROUNDS = 2
"""The dispersion is measured about a fit, and the fit (by its prior) depends, very little, on the dispersion."""


@record
class _Pair:
    """All groups between two players, as integers: twice the placings won by `a`, and the sum of their squares.

    `prior` is the precision, per Elo squared, with which the two are believed to be equally strong.
    """

    a: str
    b: str
    groups: int
    wins: int
    squares: int
    prior: float = 0.0


@record
class _Problem:
    """What is to be fitted: `free` players, by number, and the pairs of which at least one is free."""

    free: Mapping[str, int]
    anchors: Mapping[str, float]
    pairs: tuple[_Pair, ...]
    players: int
    start: float

    def gap(self, pair: _Pair, elo: Sequence[float]) -> float:
        """How much stronger `a` is, with the free players at `elo`."""
        return self.of(pair.a, elo) - self.of(pair.b, elo)

    def of(self, name: str, elo: Sequence[float]) -> float:
        """Elo of a player, free or anchor."""
        number = self.free.get(name)
        return self.anchors[name] if number is None else elo[number]


def fit_live(
    matches: Iterable[Match], anchors: Mapping[str, float], frozen: Mapping[str, float]
) -> dict[str, Rating | None]:
    """Rate everybody who is an anchor or played but those `frozen`: they are opponents whose Elo is taken as known.

    So a ladder of many models costs no more than its newest rungs, and stays on its scale. What is uncertain about the
    frozen is left out of the intervals of the others.
    """
    rated = fit(matches, {**frozen, **anchors}, anchors)
    return {name: rating for name, rating in rated.items() if name not in frozen}


def fit(matches: Iterable[Match], anchors: Mapping[str, float], players: Iterable[str]) -> dict[str, Rating | None]:
    """Rate `players`, and everybody else who is an anchor or played, by all matches of ONE config.

    `anchors` have the Elo they are given. A player whom no chain of games connects to an anchor is `None`: nothing is
    known of its Elo. The answer is sorted by name. Raises `ValueError` if the matches are not all for one number of
    players, and `ArithmeticError` if the fit does not converge.
    """
    pairs, seats = _pool(matches)
    names = sorted({*players, *anchors, *(name for pair in pairs for name in (pair.a, pair.b))})
    problem = _problem(pairs, anchors, seats)
    elo, inverse, spread = _solve(problem)
    played = Counter({name: groups * seats for name, groups in _groups(pairs).items()})
    rated = dict.fromkeys(names) | {name: _fixed(anchors[name], played[name]) for name in anchors}
    for name, number in problem.free.items():
        low, high = (_bound(problem, elo, inverse[number], number, spread, side) for side in (-1, 1))
        rated[name] = Rating(elo=elo[number], low=low, high=high, games=played[name])
    return rated


def _fixed(elo: float, games: int) -> Rating:
    return Rating(elo=elo, low=elo, high=elo, games=games)


def _pool(matches: Iterable[Match]) -> tuple[list[_Pair], int]:
    """Groups summed by pair, in the order of names; and the number of players of a game (2 if nothing was played)."""
    wins: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    seats: set[int] = set()
    for match in matches:
        if match.players is None:
            continue
        seats.add(match.players)
        won = (doubled_wins(group) for group in match.groups)
        most = 2 * pairings(match.players)
        if match.a < match.b:
            wins[match.a, match.b].extend(won)
        else:
            wins[match.b, match.a].extend(most - each for each in won)
    if len(seats) > 1:
        raise ValueError(f"matches of games for {sorted(seats)} players: one fit is for one config")
    pairs = [
        _Pair(a=a, b=b, groups=len(won), wins=sum(won), squares=sum(each * each for each in won))
        for (a, b), won in sorted(wins.items())
    ]
    return pairs, seats.pop() if seats else 2


def _groups(pairs: Iterable[_Pair]) -> Counter[str]:
    groups: Counter[str] = Counter()
    for pair in pairs:
        groups.update({pair.a: pair.groups, pair.b: pair.groups})
    return groups


def _problem(pairs: Sequence[_Pair], anchors: Mapping[str, float], seats: int) -> _Problem:
    free = {name: number for number, name in enumerate(sorted(_connected(pairs, anchors) - anchors.keys()))}
    played = _groups(pairs)
    return _Problem(
        free=free,
        anchors=anchors,
        pairs=tuple(_with_prior(pair, free, played) for pair in pairs if pair.a in free or pair.b in free),
        players=seats,
        start=math.fsum(anchors.values()) / len(anchors) if anchors else 0.0,
    )


def _with_prior(pair: _Pair, free: Container[str], played: Mapping[str, int]) -> _Pair:
    shares = [pair.groups / played[name] for name in (pair.a, pair.b) if name in free]
    return replace(pair, prior=sum(shares) / PRIOR_SD**2)


def _connected(pairs: Sequence[_Pair], anchors: Iterable[str]) -> set[str]:
    """Everybody whom a chain of games connects to an anchor."""
    opponents: defaultdict[str, set[str]] = defaultdict(set)
    for pair in pairs:
        opponents[pair.a].add(pair.b)
        opponents[pair.b].add(pair.a)
    reached = set(anchors)
    edge = list(reached)
    while edge:
        new = opponents[edge.pop()] - reached
        reached |= new
        edge.extend(new)
    return reached


def _solve(problem: _Problem) -> tuple[Vector, list[Vector], float]:
    """Elo of the free players, the inverse of the information (their covariance), and the dispersion."""
    elo = [problem.start] * len(problem.free)
    spread = dispersion(problem.players)
    for _ in range(ROUNDS):
        elo = _climb(problem, elo, spread)
        spread = _dispersion(problem, elo)
    elo = _climb(problem, elo, spread)
    return elo, linear.inverse(linear.factor(_information(problem, elo, spread))), spread


def _climb(problem: _Problem, elo: Vector, spread: float) -> Vector:
    """Newton's steps from `elo` to where nobody is moved any more; the likelihood is concave."""
    moves = _updates()
    for _ in range(STEPS_MAX):
        step = linear.solution(
            linear.factor(_information(problem, elo, spread)), _gradient(problem, elo, spread, moves)
        )
        longest = max(map(abs, step), default=0.0)
        scale = min(1.0, STEP_MAX / longest) if longest else 1.0
        elo = [value + scale * change for value, change in zip(elo, step, strict=True)]
        if longest < CONVERGED:
            return elo
    raise ArithmeticError(f"the ratings of {len(elo)} players have not settled after {STEPS_MAX} steps ({longest} Elo)")


def _updates() -> Callable[[float], tuple[float, float]]:
    """By openskill's update: gradients, per Elo, of one win and of one loss, for a player who is `gap` Elo stronger.

    No draw margin (a tie is half a win and half a loss) and no growth of sigma between games.
    """
    model = ThurstoneMostellerFull(epsilon=0.0, tau=0.0)
    unit = DIFFERENCE_SD / math.sqrt(2 * (model.sigma**2 + model.beta**2))

    def moves(gap: float) -> tuple[float, float]:
        if abs(gap) > EXACT_TO:
            return slope(gap), -slope(-gap)
        better, worse = model.rating(mu=model.mu + gap / unit), model.rating(mu=model.mu)
        won, lost = (model.rate([[better], [worse]], ranks=ranks)[0][0] for ranks in ([1.0, 2.0], [2.0, 1.0]))
        per_elo = 1 / (model.sigma**2 * unit)
        return (won.mu - better.mu) * per_elo, (lost.mu - better.mu) * per_elo

    return moves


def _gradient(problem: _Problem, elo: Vector, spread: float, moves: Callable[[float], tuple[float, float]]) -> Vector:
    """Where, and how strongly, all games together and the prior pull each free player."""
    pulls: list[list[float]] = [[] for _ in elo]
    for pair in problem.pairs:
        gap = problem.gap(pair, elo)
        win, loss = moves(gap)
        won, lost = _counts(problem, pair)
        pull = (won * win + lost * loss) / spread - gap * pair.prior
        for name, sign in ((pair.a, 1), (pair.b, -1)):
            if name in problem.free:
                pulls[problem.free[name]].append(sign * pull)
    return [math.fsum(pull) for pull in pulls]


def _information(problem: _Problem, elo: Vector, spread: float) -> list[Vector]:
    """Observed information of all games and the prior, free players by free players."""
    matrix = [[0.0] * len(elo) for _ in elo]
    for pair in problem.pairs:
        gap = problem.gap(pair, elo)
        won, lost = _counts(problem, pair)
        known = (won * curvature(gap) + lost * curvature(-gap)) / spread + pair.prior
        a, b = problem.free.get(pair.a), problem.free.get(pair.b)
        for number in (a, b):
            if number is not None:
                matrix[number][number] += known
        if a is not None and b is not None:
            matrix[a][b] -= known
            matrix[b][a] -= known
    return matrix


def _counts(problem: _Problem, pair: _Pair) -> tuple[float, float]:
    """Placings won and lost by `a`; a tie is half of each."""
    won = pair.wins / 2
    return won, pair.groups * pairings(problem.players) - won


def _dispersion(problem: _Problem, elo: Vector) -> float:
    """Variance of the groups' wins about the fit, over that of independent pairings; 1 at least."""
    each = pairings(problem.players)
    weight = DISPERSION_GROUPS * each / 4
    scatter, independent, groups = [weight * dispersion(problem.players)], [], 0
    for pair in problem.pairs:
        share = expected_share(problem.gap(pair, elo))
        expected = 2 * each * share
        scatter.append((pair.squares - 2 * expected * pair.wins + pair.groups * expected**2) / 4)
        independent.append(pair.groups * each * share * (1 - share))
        groups += pair.groups
    fitted = max(groups - len(elo), 0) / groups if groups else 0.0
    return max(math.fsum(scatter) / (weight + fitted * math.fsum(independent)), 1.0)


def _bound(problem: _Problem, elo: Vector, column: Vector, number: int, spread: float, side: int) -> float:
    """The end of the interval on one `side` (-1 or 1) of the player's rating.

    Along the line on which the others follow, the root of the fall in likelihood is nearly straight: its crossing of
    the limit is found by false position.
    """
    direction = [side * value / column[number] for value in column]
    top = _likelihood(problem, elo, spread)

    def excess(distance: float) -> float:
        moved = [value + distance * change for value, change in zip(elo, direction, strict=True)]
        return math.sqrt(2 * max(top - _likelihood(problem, moved, spread), 0.0)) - INTERVAL_SD

    return elo[number] + side * _crossing(excess, INTERVAL_SD * math.sqrt(column[number]))


def _likelihood(problem: _Problem, elo: Vector, spread: float) -> float:
    terms = []
    for pair in problem.pairs:
        gap = problem.gap(pair, elo)
        won, lost = _counts(problem, pair)
        terms.append((won * log_share(gap) + lost * log_share(-gap)) / spread - gap * gap * pair.prior / 2)
    return math.fsum(terms)


def _crossing(function: Callable[[float], float], guess: float) -> float:
    """Where an increasing function, negative at 0, crosses zero; to a thousandth of a unit of the function.

    False position in the Illinois variant: the value at an end that stays twice is halved.
    """
    low, high = 0.0, guess
    at_low, at_high = function(low), function(high)
    while at_high < 0:
        low, at_low, high = high, at_high, 2 * high
        at_high = function(high)
    stayed = 0
    while True:
        middle = high - at_high * (high - low) / (at_high - at_low)
        value = function(middle)
        if abs(value) < CROSSED or not low < middle < high:
            return middle
        if value < 0:
            low, at_low, at_high, stayed = middle, value, at_high / 2 if stayed < 0 else at_high, -1
        else:
            high, at_high, at_low, stayed = middle, value, at_low / 2 if stayed > 0 else at_low, 1
