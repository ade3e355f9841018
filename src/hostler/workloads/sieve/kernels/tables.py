"""From a checked question to the tables of the generic search: its rules, parts, tests, alignments and scalars."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hostler.workloads.sieve import statistics
from hostler.workloads.sieve.generators.base import Output
from hostler.workloads.sieve.generators.rules import Above, LowProduct, Part, Residue, Rule, Span, Want
from hostler.workloads.sieve.kernels import layout
from hostler.workloads.sieve.kernels.layout import I64, U64
from hostler.workloads.sieve.spec import Spec

MASK64 = (1 << 64) - 1
RARE = -10.0
"""Binary logarithm of how many items by chance are left by the first stage: then the second one costs nothing."""
SURE = -120.0
"""The same of the second stage: what passes by so many draws is a case for the judge."""
SELDOM = 2.0**-6
"""Up to this part of the items may meet a word that is drawn again, and the first stage takes it that none does."""
MOST_PICKS = 1 << 16
MOST_ALIGNMENTS = 1 << 20
MOST_DROPPED = 1 << 12


@dataclass(frozen=True, slots=True)
class Pick:
    """One pick with at most 64 bits: its rule, and the modulus that its value counts by (0: none)."""

    rule: Rule
    modulus: int = 0

    @property
    def values(self) -> int:
        """How many values it can have, as far as it counts."""
        return self.modulus or self.kept

    @property
    def kept(self) -> int:
        """How many of its values are not drawn again."""
        again, size = self.rule.again, 1 << self.rule.bits
        if isinstance(again, Above):
            return min(again.limit + 1, size)
        return size

    @property
    def redraw(self) -> float:
        """The probability that a value is drawn again."""
        if isinstance(self.rule.again, LowProduct):
            return self.rule.again.threshold / (1 << self.rule.again.bits)
        return 1 - self.kept / (1 << self.rule.bits)


@dataclass(frozen=True, slots=True)
class Test:
    """What pick ``place + gap * stride`` after an alignment's first must be, for draw number ``draw``.

    Where outputs may be missing all draws are counted, else only the known ones.
    """

    place: int
    stride: int
    draw: int
    low: int
    high: int
    log_odds: float


@dataclass(frozen=True)
class Tables:
    """Everything that the generic search is given but its fill and its working memory; laid out as ``layout`` says.

    ``picks`` is how many picks a lane may need, ``dropped`` how many outputs may be dropped altogether. ``missed`` is
    the probability that the true item is given up. ``words`` and ``tested`` are what an item costs on average, and
    ``apart`` says whether each lane goes on by itself from the first; if not, the part ``doubtful`` of the items meets
    a word that is drawn again, and costs the same once more in the second stage.
    """

    scalars: I64
    rules: U64
    parts: U64
    tests: I64
    spans: U64
    least: I64
    alignments: I64
    picks: int
    dropped: int
    missed: float
    words: float
    tested: float
    apart: bool
    doubtful: float


def make_tables(spec: Spec, seldom: float = SELDOM) -> Tables | str:
    """The tables of a question, or for people why it cannot be asked here; see :data:`SELDOM`."""
    halves = {_halves(output) for output in spec.calls}
    if len(halves) > 1 or None in halves:
        return "its calls split words in different ways, and what is left of a word between them is not known"
    if any(_too_wide(rule) for output in spec.calls for rule in output.rules()):
        return "numbers of more than 64 bits that are drawn again, or made of wider words, have no lanes"
    if spec.missing and len(spec.calls) > 1:
        return "missing outputs among several calls have no lanes"
    alignments = list(dict.fromkeys(spec.alignments()))
    if len(alignments) > MOST_ALIGNMENTS:
        return f"{len(alignments)} alignments are more than {MOST_ALIGNMENTS}; give narrower skips and gaps"
    order = _order(spec)
    calls = [_picks(output, backwards=spec.items == "ends") for output in order]
    tests = list(_tests(spec, order, calls))
    return _assemble(spec, [pick for call in calls for pick in call], tests, alignments, bool(halves == {True}), seldom)


def _halves(output: Output) -> bool | None:
    """Whether an output's words are halves of the engine's, the lower first; ``None``: something else."""
    whole = 0x0123456789ABCDEF
    fed = tuple(output.feed(iter([whole])))
    return {(whole,): False, (whole & 0xFFFFFFFF, whole >> 32): True}.get(fed)


def _too_wide(rule: Rule) -> bool:
    return any(part.bits > 64 or part.shift >= 64 for part in rule.parts) or (rule.bits > 64 and rule.rejects)


# ---- picks and tests ----------------------------------------------------------------------------------------------


def _order(spec: Spec) -> list[Output]:
    """The outputs of a round in the order of the search: as they come, or backwards from the last draw's."""
    if spec.items != "ends":
        return list(spec.calls)
    last = len(spec.draws) - 1
    return [spec.calls[(last - i) % len(spec.calls)] for i in range(len(spec.calls))]


def _picks(output: Output, *, backwards: bool) -> list[Pick]:
    """The picks of an output that take words, none of them wider than 64 bits; the last first if ``backwards``."""
    picks = []
    for rule, want in zip(output.rules(), output.wants(output.lowest), strict=True):
        modulus = want.modulus if isinstance(want, Residue) and 1 < want.modulus < 1 << rule.bits else 0
        picks += [Pick(narrow, modulus) for narrow in _narrowed(rule)]
    return [Pick(_turned(pick.rule), pick.modulus) for pick in reversed(picks)] if backwards else picks


def _narrowed(rule: Rule) -> list[Rule]:
    """The rule itself, or where it is too wide one for each of its words."""
    if rule.bits <= 64:
        return [rule] if rule.words else []
    return [
        Rule(rule.width, tuple(replace(part, word=0) for part in rule.parts if part.word == word))
        for word in range(rule.words)
    ]


def _turned(rule: Rule) -> Rule:
    """The rule for words that come in the opposite order."""
    return replace(rule, parts=tuple(replace(part, word=rule.words - 1 - part.word) for part in rule.parts))


def _spans(output: Output, draw: int, *, backwards: bool) -> list[tuple[int, int]]:
    """What each pick of :func:`_picks` must lie in for this draw; of a pick with a modulus, what is left by it."""
    spans = []
    for rule, want in zip(output.rules(), output.wants(draw), strict=True):
        if rule.bits > 64:
            spans += _narrowed_span(rule, want)
        elif rule.words:
            spans.append(_span(rule, want))
    return spans[::-1] if backwards else spans


def _span(rule: Rule, want: Want) -> tuple[int, int]:
    if isinstance(want, Span):
        return max(want.low, 0), min(want.high, (1 << rule.bits) - 1)
    if want.modulus == 1:
        return 0, (1 << rule.bits) - 1
    return want.target, want.target


def _narrowed_span(rule: Rule, want: Want) -> list[tuple[int, int]]:
    if not isinstance(want, Span) or want.low != want.high:
        raise NotImplementedError(f"{want} of more than 64 bits: no output wants that so far")
    of_word, below = [0] * rule.words, rule.bits
    for part in rule.parts:
        below -= part.bits
        of_word[part.word] = of_word[part.word] << part.bits | want.low >> below & (1 << part.bits) - 1
    return [(v, v) for v in of_word]


def _tests(spec: Spec, order: list[Output], calls: list[list[Pick]]) -> Iterator[Test]:
    """The tests of all known draws in the order of the search, but those that nothing fails."""
    backwards, known = spec.items == "ends", -1
    round_picks = sum(map(len, calls))
    for i, draw in enumerate(reversed(spec.draws) if backwards else spec.draws):
        if draw is None:
            continue
        known += 1
        turn, call = divmod(i, len(calls))
        place = turn * round_picks + sum(map(len, calls[:call]))
        stride = i * round_picks if len(calls) == 1 else 0
        for pick, (low, high) in zip(calls[call], _spans(order[call], draw, backwards=backwards), strict=True):
            odds = _log_odds(pick, low, high)
            # A draw that nothing fails still counts as one that fits.
            if odds < 0 or spec.need < spec.known:
                yield Test(place, stride, i if spec.missing else known, low, high, odds)
            place += 1


def _log_odds(pick: Pick, low: int, high: int) -> float:
    if high < low:
        return -math.inf
    return min(0.0, math.log2(high - low + 1) - math.log2(pick.values))


# ---- tables -------------------------------------------------------------------------------------------------------


def _assemble(
    spec: Spec, picks: list[Pick], tests: list[Test], alignments: list[tuple[int, int]], halves: bool, seldom: float
) -> Tables | str:
    backwards, all_fit = spec.items == "ends", spec.need == spec.known
    origins = list(dict.fromkeys((0 if backwards else (skip + gap) * len(picks), gap) for skip, gap in alignments))
    first, used = _stages(spec, tests, len(origins)) if all_fit else (len(tests), len(tests))
    tests = tests[:used]
    dropped = spec.missing * _draws(spec, tests)
    last = _reach(tests, origins) + dropped * len(picks) + 1
    rejects = any(pick.rule.rejects for pick in picks)
    redraw = max(pick.redraw for pick in picks)
    near = _reach(tests[:first], origins) + spec.missing * _draws(spec, tests[:first]) * len(picks) + 1
    # In one alignment only what is drawn again before an item is excluded counts, and most are so by the first test.
    once = all_fit and not spec.missing and len(origins) == 1
    doubtful = redraw * (_reach(tests[:1], origins) + 1.1 if once else near)
    apart = rejects and (near > MOST_PICKS or doubtful > seldom)
    # A word that is drawn again must not go unnoticed before the first pick that is kept.
    base = 0 if rejects and not apart else min(origin + _at(tests[0], gap) for origin, gap in origins)
    if last - base > MOST_PICKS:
        return f"its draws lie up to {last - base} numbers apart, and no more than {MOST_PICKS} are kept for each item"
    sure = 0 if spec.missing else max(origin + _at(tests[0], gap) for origin, gap in origins) + 1 - base
    before = sum(picks[i % len(picks)].rule.words for i in range(base % len(picks)))
    skipped = before + base // len(picks) * sum(pick.rule.words for pick in picks)
    scalars = np.zeros(layout.SCALARS, np.int64)
    for at, value in (
        (layout.MODE, {"seeds": layout.SEEDS, "states": layout.STATES, "ends": layout.ENDS}[spec.items]),
        (layout.HALVES, int(halves)),
        (layout.BASE, base),
        (layout.SKIPPED, skipped),
        (layout.SURE, sure),
        (layout.FIRST_TESTS, first),
        (layout.FIRST_DRAWS, _draws(spec, tests[:first])),
        (layout.FIRST_EXACT, int(apart)),
        (layout.ALL_TESTS, used),
        (layout.DRAWS, _draws(spec, tests)),
        (layout.REJECTS, int(rejects)),
        (layout.UNIFORM, int(len(set(picks)) == 1 and picks[0].rule.words == 1)),
        (layout.AMBIGUOUS, int(backwards and rejects and len(set(picks)) > 1)),
        (layout.NEED, 0 if all_fit else spec.need),
        (layout.MISSING, spec.missing),
    ):
        scalars[at] = value
    rules, parts = _rule_tables(picks)
    least, missed = _least(spec)
    tested = _tested(tests[:first], all_fit)
    ahead = near - base if not all_fit or spec.missing else sure + tested - 1
    words = (skipped + ahead * max(pick.rule.words for pick in picks)) / (1 - redraw if apart else 1)
    return Tables(
        scalars,
        rules,
        parts,
        np.array([(test.place, test.stride, test.draw) for test in tests], np.int64),
        np.array([_bounds(test) for test in tests], np.uint64),
        least,
        np.array([(origin - base, gap) for origin, gap in origins], np.int64),
        picks=last - base,
        dropped=dropped,
        missed=missed,
        words=words,
        tested=len(origins) * tested * (2 * spec.missing + 1),
        apart=apart,
        doubtful=0.0 if apart else doubtful,
    )


def _at(test: Test, gap: int) -> int:
    return test.place + gap * test.stride


def _reach(tests: list[Test], origins: list[tuple[int, int]]) -> int:
    """The last pick that these tests look at, in any alignment."""
    return max(origin + _at(test, gap) for test in tests[-1:] for origin, gap in origins)


def _draws(spec: Spec, tests: list[Test]) -> int:
    """How many draws these tests, the first ones, go over, unknown ones among them included."""
    return tests[-1].draw + 1 if tests else 0


def _stages(spec: Spec, tests: list[Test], alignments: int) -> tuple[int, int]:
    """How many tests the first stage and the second take, where all have to fit."""
    chance, first, per_draw = math.log2(alignments), 0, math.log2(spec.missing + 1)
    for i, test in enumerate(tests):
        before = tests[i - 1].draw if i else -1
        chance += test.log_odds + (test.draw - before) * per_draw
        if not first and chance <= RARE:
            first = i + 1
        most = spec.missing * (test.draw + 1) >= MOST_DROPPED
        if chance <= SURE or most or test.place + test.stride > MOST_PICKS // 2 > tests[0].place:
            return first or i + 1, i + 1
    return first or len(tests), len(tests)


def _tested(tests: list[Test], all_fit: bool) -> float:
    """How many tests a block of lanes takes until none is left, in one alignment."""
    if not all_fit:
        return len(tests)
    count, left = 0.0, float(layout.LANES)
    for test in tests:
        count += min(1.0, left)
        left *= 2.0**test.log_odds
    return count


def _least(spec: Spec) -> tuple[I64, float]:
    """How many draws have to fit by when, and the probability that the true item does not make it."""
    if spec.need == spec.known or not spec.miss:
        hopeless = [max(0, spec.need - (spec.known - j - 1)) for j in range(spec.known)]
        return np.array(hopeless, np.int64), 0.0
    exits = statistics.exits(spec.known, spec.need, rate=spec.rate, miss=spec.miss)
    return np.array(exits.least, np.int64), exits.missed


def _bounds(test: Test) -> tuple[int, int]:
    return (test.low, test.high - test.low) if test.low <= test.high else (MASK64, 0)


def _rule_tables(picks: list[Pick]) -> tuple[U64, U64]:
    rules = np.zeros((len(picks), layout.RULE_FIELDS), np.uint64)
    parts: list[tuple[int, int, int, int]] = []
    for row, pick in zip(rules, picks, strict=True):
        row[layout.RULE_WORDS], row[layout.RULE_FIRST] = pick.rule.words, len(parts)
        parts += _part_rows(pick.rule.parts)
        row[layout.RULE_LAST] = len(parts)
        if pick.modulus:
            row[layout.RULE_MODULUS] = pick.modulus
            row[layout.RULE_WIDE] = int(pick.rule.bits > 32)
            row[layout.RULE_MAGIC] = (1 << 64) // pick.modulus if pick.rule.bits > 32 else MASK64 // pick.modulus + 1
        if pick.rule.rejects and isinstance(pick.rule.again, Above):
            row[layout.RULE_AGAIN], row[layout.RULE_LIMIT] = layout.ABOVE, pick.rule.again.limit
        elif pick.rule.rejects and isinstance(pick.rule.again, LowProduct):
            row[layout.RULE_AGAIN], row[layout.RULE_LIMIT] = layout.LOW_PRODUCT, pick.rule.again.threshold
            row[layout.RULE_FACTOR], row[layout.RULE_LOW] = pick.rule.again.factor, (1 << pick.rule.again.bits) - 1
    return rules, np.array(parts, np.uint64).reshape(-1, layout.PART_FIELDS)


def _part_rows(parts: tuple[Part, ...]) -> list[tuple[int, int, int, int]]:
    rows, up = [], sum(part.bits for part in parts)
    for part in parts:
        up -= part.bits
        rows.append((part.word, part.shift, (1 << part.bits) - 1, up if part.bits else 0))
    return rows
