"""What chance would find, before anything is searched; and how soon a seed may be given up.

The null model: a wrong seed's outputs are independent of the draws and uniform over the output's values. Of ``draws``
compared ones a wrong seed then fits a number that is binomial with probability ``1 / size``, anew for each of the
``alignments`` (skips, positions) that are tried. Nothing here imports numpy.

Chances are natural logarithms where they may be smaller than a float can be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

NEGLIGIBLE = 1e-18
"""Terms of a tail that are smaller, against its sum, are left out."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a seed has to do to survive: fit at least ``need`` of ``draws`` known draws, in one of ``alignments``.

    ``size`` is how many values an output can take, equally likely; or else what fits once in so many times. ``alike``
    are kinds of wrong seeds whose draws fit more often: which share of all, and ``2^bits`` times as often; the first is
    all of them.
    """

    size: float
    draws: int
    need: int
    alignments: int = 1
    alike: tuple[tuple[float, int], ...] = ((1.0, 0),)

    def __post_init__(self) -> None:
        if self.size <= 1 or not 1 <= self.need <= self.draws or self.alignments < 1:
            raise ValueError(
                f"nothing to ask: {self}; two values or more, and 1 to {self.draws} draws that have to fit"
            )


def log_chance(question: Question) -> float:
    """The logarithm of the probability that a wrong seed survives; 0 where all do."""
    fits = ((share, min(1.0, 2.0**bits / question.size)) for share, bits in question.alike)
    logs = [math.log(share) + log_tail(question.draws, question.need, fit) for share, fit in fits]
    return _any_of(question.alignments, log_sum(iter(sorted(logs, reverse=True))))


def expected(question: Question, seeds: int) -> float:
    """How many wrong seeds of so many survive on average; 0.0 where that is less than a float can be."""
    return _exp(math.log(seeds) + log_chance(question)) if seeds else 0.0


def e_value(question: Question, seeds: int, fitting: int) -> float:
    """How many wrong seeds of so many would, on average, fit at least ``fitting`` draws: the E-value of a survivor."""
    return expected(replace(question, need=max(fitting, 1)), seeds)


def draws_needed(
    size: float,
    seeds: int,
    *,
    share: float = 1.0,
    alignments: int = 1,
    below: float = 0.01,
    most: int = 10_000,
    alike: tuple[tuple[float, int], ...] = ((1.0, 0),),
) -> int | None:
    """The least number of known draws with which fewer than ``below`` wrong seeds are expected to survive.

    ``share`` of them, rounded up, have to fit. `None`: ``most`` are not enough, or no number is, since chance alone
    fits as large a share.
    """
    if share <= 1 / size:
        return None
    for need in range(1, needed(most, share) + 1):
        draws = _first_with(need, share)
        if expected(Question(size, draws, need, alignments, alike), seeds) < below:
            return draws
    return None


def needed(draws: int, share: float) -> int:
    """How many of so many draws have to fit where a share of them has to: at least one."""
    return max(1, math.ceil(draws * share - 1e-9))


def log_tail(draws: int, least: int, probability: float) -> float:
    """The logarithm of P[X >= least] for X binomial: of ``draws`` tries each fits with ``probability``."""
    if least <= 0:
        return 0.0
    if least > draws:
        return -math.inf
    if probability >= 1.0:
        return 0.0
    if least <= draws * probability:
        return math.log1p(-_exp(_log_lower(draws, least - 1, probability)))
    return log_sum(_log_terms(range(least, draws + 1), draws, probability))


# ---- giving up early ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exits:
    """When a seed is given up: after ``j + 1`` draws, where fewer than ``least[j]`` of them fit."""

    least: tuple[int, ...]
    missed: float
    """The probability that the true seed is given up, where its draws fit with the rate that was assumed."""


def exits(draws: int, need: int, *, rate: float = 1.0, miss: float = 0.0) -> Exits:
    """The earliest exits that give up the true seed with a probability of at most ``miss``.

    Each draw of the true seed fits with probability ``rate``, by itself: the rest are mistakes of the record. That one
    does not reach ``need`` at all, by too many mistakes, is not counted: it would not be found by full windows either.
    What may be missed is spent evenly over the draws (K. K. G. Lan and D. L. DeMets, Biometrika 70, 1983).
    """
    alive, lost, least = {0: 1.0}, 0.0, []
    for draw in range(1, draws + 1):
        alive = _after_one_more(alive, rate)
        hopeless = need - (draws - draw)
        alive = {fitting: chance for fitting, chance in alive.items() if fitting >= hopeless}
        at_least, gone = _given_up(alive, miss * draw / draws - lost)
        lost += gone
        alive = {fitting: chance for fitting, chance in alive.items() if fitting >= at_least}
        least.append(max(at_least, hopeless, 0))
    return Exits(tuple(least), lost)


def draws_looked_at(plan: Exits, size: int) -> float:
    """How many draws of a wrong seed are compared, on average, until it is given up."""
    alive, looked_at = {0: 1.0}, 0.0
    for least in plan.least:
        looked_at += sum(alive.values())
        alive = {fit: chance for fit, chance in _after_one_more(alive, 1 / size).items() if fit >= least}
    return looked_at


def _after_one_more(alive: dict[int, float], rate: float) -> dict[int, float]:
    after: dict[int, float] = {}
    for fitting, chance in alive.items():
        for more, share in ((0, 1 - rate), (1, rate)):
            if chance * share > NEGLIGIBLE:
                after[fitting + more] = after.get(fitting + more, 0.0) + chance * share
    return after


def _given_up(alive: dict[int, float], budget: float) -> tuple[int, float]:
    """The number below which seeds may be given up for that much of a chance, and the chance that it takes."""
    gone = 0.0
    for fitting in sorted(alive):
        if gone + alive[fitting] > budget:
            return fitting, gone
        gone += alive[fitting]
    return 0, 0.0


# ---- logarithms -----------------------------------------------------------------------------------------------------


def _first_with(need: int, share: float) -> int:
    """The least number of draws of which so many have to fit: with more of them chance only finds more."""
    return max(need, math.floor((need - 1) / share + 1e-9) + 1)


def _any_of(tries: int, log_probability: float) -> float:
    """The logarithm of the probability that at least one of so many independent tries succeeds."""
    if log_probability >= 0.0:
        return 0.0
    none = tries * math.log1p(-_exp(log_probability))
    if none == 0.0:
        return log_probability + math.log(tries)
    return math.log(-math.expm1(none))


def _log_lower(draws: int, most: int, probability: float) -> float:
    return log_sum(_log_terms(range(most, -1, -1), draws, probability))


def _log_terms(counts: Sequence[int], draws: int, probability: float) -> Iterator[float]:
    fits, fails = math.log(probability), math.log1p(-probability)
    for count in counts:
        ways = math.lgamma(draws + 1) - math.lgamma(count + 1) - math.lgamma(draws - count + 1)
        yield ways + count * fits + (draws - count) * fails


def log_sum(terms: Iterator[float]) -> float:
    """The logarithm of a sum whose terms, given by their logarithms, get smaller from the first."""
    first = next(terms)
    if first == -math.inf:
        return first
    total = 1.0
    for term in terms:
        more = _exp(term - first)
        total += more
        if more < NEGLIGIBLE * total:
            break
    return first + math.log(total)


def _exp(logarithm: float) -> float:
    return math.exp(logarithm) if logarithm < 709.0 else math.inf
