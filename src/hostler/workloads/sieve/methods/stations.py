"""The words that decide whether draws fit, in their order, those that the runtime may throw away among them.

Positions are those of :mod:`picks`: words from the first of the pattern of a gap, where nothing was drawn again.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log, log1p

from hostler.workloads.sieve.generators.base import Output
from hostler.workloads.sieve.generators.rules import Above, Part, Rule, Want
from hostler.workloads.sieve.methods.picks import NEVER, Aim, singles
from hostler.workloads.sieve.spec import Spec


@dataclass(frozen=True, slots=True)
class Station:
    """Part ``part`` of the word at ``at``: drawn again above ``limit``, if there is one; else it meets ``want``.

    ``want`` is ``None`` where the draw is unknown.
    """

    at: int
    part: Part
    limit: int | None
    want: Want | None

    @property
    def again(self) -> float:
        """The probability that the word is thrown away."""
        return 0.0 if self.limit is None else ((1 << self.part.bits) - 1 - self.limit) / (1 << self.part.bits)


def stations(spec: Spec, gap: int) -> Iterator[Station]:
    """All stations in the pattern of ``gap``, to the last draw; for calls that :func:`followed` allows."""
    at = 0
    for output in range(len(spec.draws) * (gap + 1)):
        call = spec.calls[output % len(spec.calls)]
        number, place = divmod(output, gap + 1)
        draw = spec.draws[number] if place == gap else None
        wants = [None] * len(call.rules()) if draw is None else call.wants(draw)
        for rule, want in zip(call.rules(), wants, strict=True):
            yield from _stations(number, at, rule, want)
            at += rule.words


def followed(spec: Spec) -> bool:
    """Whether all that may be drawn again is one part of one word, above a limit."""
    rules = [rule for call in spec.calls for rule in call.rules() if rule.rejects]
    return all(isinstance(rule.again, Above) and len(rule.parts) == 1 and rule.words == 1 for rule in rules)


def rejections(call: Output) -> list[float]:
    """The probabilities with which the picks of an output are drawn again, of those that may be."""
    made = [station for rule in call.rules() for station in _stations(0, 0, rule, None)]
    return [station.again for station in made]


def most_again(picks: int, chance: float) -> int:
    """How often something may be drawn again in so many picks, where more often is less probable than ``NEVER``.

    ``chance`` is the largest of theirs. The number is then negative binomial, or smaller; what is left of its sum is
    below a geometric series, as the ratio of its terms falls.
    """
    if not picks or not chance:
        return 0
    count, term = 0, picks * log1p(-chance)
    while True:
        ratio = chance * (picks + count) / (count + 1)
        if ratio < 1 and term + log(ratio / (1 - ratio)) < log(NEVER):
            return count
        term, count = term + log(ratio), count + 1


def _stations(draw: int, at: int, rule: Rule, want: Want | None) -> Iterator[Station]:
    limit = _limit(rule)
    if limit is not None:
        yield Station(at, rule.parts[0], limit, want)
    elif want is not None and rule.bits:
        for single in singles(Aim(draw, at, rule, want)):
            yield Station(single.at, single.part, None, single.want)


def _limit(rule: Rule) -> int | None:
    return rule.again.limit if isinstance(rule.again, Above) and rule.rejects else None
