"""What the draws ask of which words, where nothing was drawn again: what the algebraic methods start from.

Positions count words from the first word after the item's state, from 0. Draws keep their places relative to each
other whatever the skip, so a :class:`Aim` has its place in the pattern of a gap; ``skip`` outputs (rounds, with
several calls) move the whole pattern by :func:`round_words` words each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import exp, expm1, log2

from hostler.workloads.sieve.generators.base import Output
from hostler.workloads.sieve.generators.rules import Above, LowProduct, Part, Residue, Rule, Span, Want
from hostler.workloads.sieve.spec import Spec

NEVER = 1e-15
"""A probability that counts as none."""


@dataclass(frozen=True, slots=True)
class Aim:
    """One pick of draw number ``draw``: the words from position ``at`` of the pattern must meet ``want``."""

    draw: int
    at: int
    rule: Rule
    want: Want


@dataclass(frozen=True, slots=True)
class Single:
    """A necessary condition on one part of one word: ``part.cut`` of the word at position ``at`` meets ``want``."""

    draw: int
    at: int
    part: Part
    want: Want


def aims(spec: Spec, gap: int, limit: int | None = None) -> list[Aim]:
    """The picks of all known draws in the pattern of ``gap``, in the order they are drawn; the first ``limit``."""
    return list(islice(_aims(spec, gap), limit))


def singles(aim: Aim) -> list[Single]:
    """What a pick asks of its parts one by one: all it asks if it has one part, or if only one value fits."""
    rule, want = aim.rule, aim.want
    if len(rule.parts) == 1:
        return [_single(aim, rule.parts[0], want)]
    if isinstance(want, Residue):
        last = rule.parts[-1]
        modulus = want.modulus & -want.modulus
        modulus = min(modulus, 1 << last.bits)
        return [_single(aim, last, Residue(modulus, want.target % modulus))] if modulus > 1 else []
    return list(_leading(aim, want))


def round_words(spec: Spec) -> int:
    """How many words one more ``skip`` takes."""
    return sum(words_of(call) for call in spec.calls)


def words_of(output: Output) -> int:
    """How many words an output takes where nothing is drawn again."""
    return sum(rule.words for rule in output.rules())


def span(spec: Spec, gap: int) -> int:
    """How many words the pattern of ``gap`` covers, from its beginning to the end of the last draw."""
    call, at = _place(spec, len(spec.draws) - 1, gap)
    return at + words_of(call)


def bits(spec: Spec) -> float:
    """How many bits the known draws say together, at most."""
    return sum(log2(spec.call(i).size) for i, draw in enumerate(spec.draws) if draw is not None)


def again_chance(output: Output) -> float:
    """How many times picks are drawn again per output, to expect."""
    return sum(chance / (1 - chance) for chance in map(_again, output.rules()))


def redraws(spec: Spec, gap: int, draws: int | None = None) -> float:
    """How many times something is drawn again within the pattern of ``gap``, or so many draws of it, to expect."""
    each = [again_chance(call) for call in spec.calls]
    outputs = (len(spec.draws) if draws is None else draws) * (gap + 1)
    return sum(each) / len(each) * outputs


def often(spec: Spec) -> str:
    """Why a method does not apply that takes nothing to be drawn again within the draws; nothing if it does."""
    chance = -expm1(-max(redraws(spec, gap) for gap in spec.gap))
    return f"the runtime draws again within the draws with probability {chance:.2g}" if chance > NEVER else ""


def before(spec: Spec) -> int:
    """How often something may be drawn again before the draws: see :func:`budget`."""
    outputs = spec.skip[1] * len(spec.calls) + spec.gap[1] + 1
    return budget(redraws(spec, 0, outputs))


def budget(expected: float) -> int:
    """How often something may be drawn again, where more often is less probable than :data:`NEVER`.

    The number is taken as Poisson's; what is left of its sum is below its next term times ``e``.
    """
    count, term = 0, exp(-expected)
    while expected and (count < expected or term * expected / (count + 1) * 3 > NEVER):
        count += 1
        term *= expected / count
    return count


def feeds(spec: Spec) -> bool:
    """Whether some call takes other words than the engine's own."""
    return any(type(call).feed is not Output.feed for call in spec.calls)


def simple(spec: Spec) -> str:
    """Why a method that wants every known draw, in the engine's own words, does not apply; nothing if it does."""
    if spec.missing:
        return "unknown numbers of outputs are missing between the draws"
    if spec.need < spec.known:
        return f"only {spec.need} of {spec.known} draws have to fit"
    if feeds(spec):
        return "the runtime splits words between calls"
    return ""


def _aims(spec: Spec, gap: int) -> Iterator[Aim]:
    for number, draw in enumerate(spec.draws):
        if draw is not None:
            call, at = _place(spec, number, gap)
            yield from _aims_of(call, number, draw, at)


def _place(spec: Spec, number: int, gap: int) -> tuple[Output, int]:
    """The call that makes a draw and the position of its first word in the pattern."""
    if len(spec.calls) == 1:
        return spec.calls[0], (gap + number * (gap + 1)) * words_of(spec.calls[0])
    turn, place = divmod(number, len(spec.calls))
    before = sum(words_of(call) for call in spec.calls[:place])
    return spec.calls[place], turn * round_words(spec) + before


def _aims_of(call: Output, number: int, draw: int, at: int) -> Iterator[Aim]:
    for rule, want in zip(call.rules(), call.wants(draw), strict=True):
        if rule.bits:
            yield Aim(number, at, rule, want)
        at += rule.words


def _single(aim: Aim, part: Part, want: Want) -> Single:
    return Single(aim.draw, aim.at + part.word, part, want)


def _leading(aim: Aim, want: Span) -> Iterator[Single]:
    """The parts of a span from the most significant on, up to the first that is not decided."""
    low, high, below = want.low, want.high, aim.rule.bits
    for part in aim.rule.parts:
        below -= part.bits
        first, last = low >> below, high >> below
        yield _single(aim, part, Span(first, last))
        if first != last:
            return
        low, high = low - (first << below), high - (first << below)


def _again(rule: Rule) -> float:
    """The probability that a pick is drawn again."""
    values = 1 << rule.bits
    if isinstance(rule.again, Above):
        return max(0, values - 1 - rule.again.limit) / values
    return rule.again.threshold / values if isinstance(rule.again, LowProduct) else 0.0
