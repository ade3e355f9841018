"""From a question to what the OpenCL program reads: a table of picks, and the shape that the program is made for.

The program is compiled for a :class:`Shape`, which many questions share; what they want stands in the table. A row has
the columns :data:`COLUMNS`, four of them again for each further part of ``v``. All are below 2^32, or below 2^64 where
``v`` has more than 32 bits. Nothing here imports numpy or pyopencl.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from hostler.workloads.sieve import statistics
from hostler.workloads.sieve.generators.base import Output
from hostler.workloads.sieve.generators.rules import Above, LowProduct, Part, Residue, Rule, Want
from hostler.workloads.sieve.spec import ENDS, Spec

COLUMNS = (
    "FLAGS", "LEAST", "TARGET", "INVERSE", "TURN", "BOUND", "LIMIT", "FACTOR", "LOW", "THRESHOLD", "TAKES",
    "NUMBER", "SHIFT", "MASK", "UP",
)  # fmt: skip
"""What a row holds: the flags below; the least number of draws that fit after this one; the test of ``v``; when it is
drawn again; how many words it takes; for a part of ``v``: from which word and bit on it comes, which bits, where to."""

PART_COLUMNS = 4
LAST, COUNTS, FIRST = 1, 2, 4
"""Flags: the last pick of a draw; a draw that is known; the first pick of a draw."""

ENOUGH_BITS = 60
"""Draws beyond those that pass by chance with a probability of 2^-60 are left to the judge."""

MASK_BITS = 64
"""How many numbers of missing outputs the program follows side by side."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a program is compiled for.

    ``v_bits`` is 32 or 64; ``parts`` and ``most_words`` are the largest numbers of a pick; ``halves``: words are split
    into two; ``gaps``: outputs may be dropped before each draw; ``alignments``: more than one is tried.
    """

    v_bits: int
    parts: int
    most_words: int
    again: bool
    halves: bool
    gaps: bool
    alignments: bool
    missing: int

    @property
    def columns(self) -> int:
        """How many numbers a row has."""
        return len(COLUMNS) + PART_COLUMNS * (self.parts - 1)


@dataclass(frozen=True, slots=True)
class Pick:
    """A rule, what is wanted of it, and its place within its draw."""

    rule: Rule
    want: Want | None
    first: bool
    last: bool
    known: bool
    least: int


@dataclass(frozen=True, slots=True)
class Table:
    """What one question wants: a shape, the rows for it, and how far the program reads.

    ``words`` is how many words a seed may take, drawn again ones included, before the program gives up counting and
    lets it pass; ``kept`` how many picks it looks at, first to last; ``draws`` how many draws are compared; ``passing``
    the natural logarithm of the probability that a seed passes by chance; ``missed`` the probability that the true one
    does not.
    """

    shape: Shape
    blank: tuple[Pick, ...]
    picks: tuple[Pick, ...]
    words: int
    kept: int
    draws: int
    passing: float
    missed: float

    def rows(self) -> list[list[int]]:
        """The numbers of the table, blank picks first."""
        return [row(self.shape, pick) for pick in (*self.blank, *self.picks)]


def table_of(spec: Spec) -> Table | str:
    """The table of a question, or why the program cannot search for it."""
    if refusal := _refusal(spec):
        return refusal
    round_picks = tuple(pick for call in spec.calls for pick in _blank(call))
    exits = _exits(spec)
    picks, draws, passing = _picks(spec, exits.least)
    if not picks:
        return "every seed passes: the known draws can only be what they are"
    everything = (*round_picks, *picks)
    shape = Shape(
        v_bits=64 if any(_kept_bits(pick.rule) > 32 for pick in everything) else 32,
        parts=max(len(_kept(pick.rule)) for pick in everything),
        most_words=max(pick.rule.words for pick in everything),
        again=any(pick.rule.rejects for pick in everything),
        halves=_halved(spec.calls[0]),
        gaps=spec.gap[1] > 0,
        alignments=spec.alignments_count > 1,
        missing=spec.missing,
    )
    dropped = spec.skip[1] + draws * (spec.gap[1] + spec.missing)
    words = _words(dropped, round_picks, picks)
    kept = dropped * len(round_picks) + len(picks)
    return Table(shape, round_picks, picks, words, kept, draws, passing, exits.missed)


def row(shape: Shape, pick: Pick) -> list[int]:
    """One row."""
    top = (1 << shape.v_bits) - 1
    flags = LAST * pick.last | COUNTS * pick.known | FIRST * pick.first
    test = (0, 1, 0, top) if pick.want is None else _test(pick.rule, pick.want, shape.v_bits)
    numbers = [flags, pick.least, *test, *_again(pick.rule, top), pick.rule.words]
    up = _kept_bits(pick.rule)
    for part in _kept(pick.rule):
        up -= part.bits
        numbers += [part.word, part.shift, (1 << part.bits) - 1, up]
    # Parts that are not there come from a word that no pick takes.
    numbers += [1 << 16, 0, 0, 0] * ((shape.columns - len(numbers)) // PART_COLUMNS)
    return numbers


def passing(rule: Rule, want: Want) -> float:
    """The probability that a pick that is not drawn again meets its want, nearly."""
    if isinstance(want, Residue):
        return 1 / min(want.modulus, 1 << rule.bits)
    return max(0, want.high - want.low + 1) / (1 << rule.bits)


def _refusal(spec: Spec) -> str | None:
    rules = [rule for call in spec.calls for rule in call.rules() if rule.words]
    if spec.items == ENDS:
        return "it searches forward from seeds and states, not back from ends"
    if any(rule.bits > 64 and rule.again is not None for rule in rules):
        return "outputs of more than 64 bits that may be drawn again are not in its programs"
    if spec.missing and not rules:
        return "every seed passes: the output can only be what it is"
    if spec.missing >= MASK_BITS:
        return f"it follows up to {MASK_BITS - 1} missing outputs"
    return None


def _halved(call: Output) -> bool:
    return type(call).feed is not Output.feed


def _blank(call: Output) -> Iterator[Pick]:
    for rule in call.rules():
        if rule.words:
            yield Pick(rule, None, first=False, last=False, known=False, least=0)


def _exits(spec: Spec) -> statistics.Exits:
    known, need = spec.known, spec.need
    if spec.miss:
        return statistics.exits(known, need, rate=spec.rate, miss=spec.miss)
    return statistics.Exits(tuple(max(0, need - left) for left in range(known - 1, -1, -1)), 0.0)


def _picks(spec: Spec, least: Sequence[int]) -> tuple[tuple[Pick, ...], int, float]:
    """The picks of the draws to compare, how many draws that is, and the logarithm of chance's share."""
    all_fit = spec.need == spec.known
    tried = math.log(spec.alignments_count)
    pairs_of = cache(_pairs)  # draws come again and again
    made: list[Pick] = []
    seen = free = draws = 0
    chance = 0.0 if all_fit else _tail(spec)
    for i, draw in enumerate(spec.draws):
        if spec.missing and (i + 1) * spec.missing >= MASK_BITS:
            break
        if all_fit and chance < -ENOUGH_BITS * math.log(2) - tried:
            break
        pairs, draws = pairs_of(spec.call(i), draw), i + 1
        seen += draw is not None
        free += draw is not None and not pairs
        for at, (rule, want) in enumerate(pairs):
            first, last = at == 0, at == len(pairs) - 1
            made.append(Pick(rule, want, first, last, draw is not None, max(0, least[seen - 1] - free) if seen else 0))
        if all_fit:
            chance += sum(_log(passing(rule, want)) for rule, want in pairs if want is not None)
            chance = min(0.0, chance + math.log(1 + spec.missing))
    return tuple(made), draws, min(0.0, chance + tried)


def _pairs(call: Output, draw: int | None) -> tuple[tuple[Rule, Want | None], ...]:
    """The picks of a draw that take words, and what is wanted of them."""
    rules = call.rules()
    wants = (None,) * len(rules) if draw is None else call.wants(draw)
    return tuple((rule, want) for rule, want in zip(rules, wants, strict=True) if rule.words)


def _tail(spec: Spec) -> float:
    return statistics.log_tail(spec.known, spec.need, 1 / spec.calls[0].odds)


def _log(share: float) -> float:
    return math.log(share) if share else -math.inf


def _words(dropped: int, round_picks: Sequence[Pick], picks: Sequence[Pick]) -> int:
    """How many words are taken at most; where words are drawn again, so many that more are hardly ever taken.

    ``dropped`` are the rounds of outputs that nobody wrote down.
    """
    mean = variance = 0.0
    worst = 0.0
    for pick, times in (*((each, dropped) for each in round_picks), *((each, 1) for each in picks)):
        again = _again_share(pick.rule)
        mean += times * pick.rule.words / (1 - again)
        variance += times * again * (pick.rule.words / (1 - again)) ** 2
        worst = max(worst, again)
    if not variance:
        return round(mean)
    tail = -ENOUGH_BITS / 2 * math.log(2) / math.log(worst) * max(pick.rule.words for pick in picks)
    return math.ceil(mean + 6 * math.sqrt(variance) + tail)


def _again_share(rule: Rule) -> float:
    if isinstance(rule.again, Above):
        return max(0.0, 1 - (rule.again.limit + 1) / (1 << rule.bits))
    if isinstance(rule.again, LowProduct):
        return rule.again.threshold / (1 << rule.again.bits)
    return 0.0


def _kept(rule: Rule) -> tuple[Part, ...]:
    """The parts of ``v`` that are compared: as many of the uppermost as 64 bits hold."""
    bits, kept = 0, []
    for part in rule.parts:
        if (bits := bits + part.bits) > 64:
            break
        kept.append(part)
    return tuple(kept)


def _kept_bits(rule: Rule) -> int:
    return sum(part.bits for part in _kept(rule))


def _test(rule: Rule, want: Want, v_bits: int) -> tuple[int, int, int, int]:
    """Target, inverse, turn and bound of the test that ``v`` gives the wanted output."""
    top = (1 << v_bits) - 1
    never = (top, 1, 0, 0)
    if isinstance(want, Residue):
        if want.target >= 1 << rule.bits:
            return never
        if want.modulus >= 1 << rule.bits:
            return want.target, 1, 0, 0
        turn = (want.modulus & -want.modulus).bit_length() - 1
        inverse = pow(want.modulus >> turn, -1, top + 1)
        return want.target, inverse, -turn % v_bits, top // want.modulus
    drop = rule.bits - _kept_bits(rule)
    low, high = want.low >> drop, want.high >> drop
    return (low, 1, 0, high - low) if want.low <= want.high else never


def _again(rule: Rule, top: int) -> tuple[int, int, int, int]:
    """Limit, factor, lower bits and threshold of what is drawn again."""
    if isinstance(rule.again, Above):
        return min(rule.again.limit, top), 0, 0, 0
    if isinstance(rule.again, LowProduct):
        return top, rule.again.factor & top, (1 << rule.again.bits) - 1, rule.again.threshold
    return top, 0, 0, 0
