"""From a question to what a special kernel takes: which kernel, its table of words and its constants.

Needs numpy, and numba for the kernels; the specification side (:mod:`spec`) needs neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hostler.workloads.sieve.generators.base import WORD, Generator, Output
from hostler.workloads.sieve.generators.rules import Above, Residue
from hostler.workloads.sieve.kernels.layout import U32
from hostler.workloads.sieve.kernels.special import EARLY, N
from hostler.workloads.sieve.kernels.special_words import KNOWN
from hostler.workloads.sieve.spec import Spec

# A lane kernel that verifies a lane from its seed pays some 700 steps for it: it must be asked rarely.
RARE = 2.0**-20
RARE_REDRAW = 2.0**-12

SEARCHED: dict[str, frozenset[str]] = {
    "php-mt_rand": frozenset({"exact", "range"}),
    "python-random": frozenset({"random", "randrange"}),
    "java-random": frozenset({"int", "bound"}),
    "xorshift32": frozenset({"exact", "mod"}),
}
"""The outputs that special kernels search, by generator."""
MOST_ALIGNMENTS = 256
MOST_DRAWS = 1 << 16

Row = tuple[int, int, int]


@dataclass(frozen=True)
class Plan:
    """A kernel's name and its arguments; ``table`` and ``rule`` are laid out as :mod:`kernels.special_words` says."""

    kernel: str
    table: U32
    rule: U32


@dataclass(frozen=True, slots=True)
class Flat:
    """What the special kernels know of an output: one pick of one word, or of some words that are never drawn again.

    Word ``w`` counts as ``v = w >> shift``. If ``v > limit`` it is drawn again (outputs of one word only). It fits the
    target ``t`` when ``v % modulus == t``; with ``modulus`` 2^32 that is ``v == t``.
    """

    shifts: tuple[int, ...]
    modulus: int
    limit: int

    @property
    def rejects(self) -> bool:
        """Whether some word makes the runtime draw again."""
        return self.limit < (WORD - 1) >> self.shifts[0]


def special_plans(spec: Spec) -> list[Plan]:
    """Plans of special kernels, one for each alignment; none where they do not serve the question."""
    plain = spec.items == "seeds" and len(spec.calls) == 1 and spec.need == spec.known and not spec.missing
    if not plain or spec.calls[0].kind not in SEARCHED.get(spec.generator.name, ()):
        return []
    alignments = list(dict.fromkeys(spec.alignments()))
    if len(alignments) > MOST_ALIGNMENTS or (len(spec.draws) - 1) * max(gap for _, gap in alignments) > MOST_DRAWS:
        return []
    return [plan_for(spec.generator, spec.calls[0], _apart(spec.draws, gap), skip + gap) for skip, gap in alignments]


def _apart(draws: tuple[int | None, ...], gap: int) -> list[int | None]:
    """Draws with ``gap`` unknown ones after each but the last."""
    spread: list[int | None] = []
    for draw in draws:
        spread += [draw, *[None] * gap]
    return spread[: len(spread) - gap]


def plan_for(made_by: Generator, output: Output, draws: Sequence[int | None], skip: int) -> Plan:
    """The plan that searches for these draws of one output, after ``skip`` others: for what :data:`SEARCHED` names."""
    rule = flat(output)
    rows = _rows(output, draws, rule)
    skip *= len(rule.shifts)
    seen = skip + next(i for i, row in enumerate(rows) if row[KNOWN])
    kernel = _kernel(made_by.name, rule, seen)
    last = _last(rows, rule, skip, seen) if kernel == "php-early" else seen
    if rule.rejects:
        # In-place lanes can be walked again from their first word only while no word has been overwritten.
        last = min(last, N - 1) if kernel in ("php-full", "python") else last
    constants = _constants(rule, skip, first=0 if rule.rejects else seen, last=last)
    return Plan(kernel, np.array(rows, np.uint32), np.array(constants, np.uint32))


def flat(output: Output) -> Flat:
    """An output that a kernel searches, in the kernels' terms: its parts reach up to the words' highest bit."""
    (rule,), (want,) = output.rules(), output.wants(output.lowest)
    limit = rule.again.limit if isinstance(rule.again, Above) else WORD - 1
    modulus = want.modulus if isinstance(want, Residue) else WORD
    return Flat(tuple(part.shift for part in rule.parts), modulus, limit)


def _targets(output: Output, draw: int) -> tuple[int, ...]:
    (rule,), (want,) = output.rules(), output.wants(draw)
    if isinstance(want, Residue):
        return (want.target,)
    targets, below = [], rule.bits
    for part in rule.parts:
        below -= part.bits
        targets.append(want.low >> below & (1 << part.bits) - 1)
    return tuple(targets)


def _rows(output: Output, draws: Sequence[int | None], rule: Flat) -> list[Row]:
    rows: list[Row] = []
    for draw in draws:
        targets = (0,) * len(rule.shifts) if draw is None else _targets(output, draw)
        rows += [(int(draw is not None), shift, target) for shift, target in zip(rule.shifts, targets, strict=True)]
    return rows


def _kernel(name: str, rule: Flat, seen: int) -> str:
    if name != "php-mt_rand":
        return {"java-random": "java", "python-random": "python", "xorshift32": "xorshift32"}[name]
    redraw = 1 - (rule.limit + 1) * 2.0 ** (rule.shifts[0] - 32)
    return "php-early" if seen <= EARLY and redraw <= RARE_REDRAW else "php-full"


def _last(rows: list[Row], rule: Flat, skip: int, seen: int) -> int:
    """The last word that the lanes test: as many as make a chance survivor rare, among the words within reach."""
    last, passing = seen, _passing(rows[seen - skip], rule)
    while passing > RARE and last < min(EARLY, skip + len(rows) - 1):
        last += 1
        passing *= _passing(rows[last - skip], rule)
    return last


def _passing(row: Row, rule: Flat) -> float:
    known, shift, _ = row
    return 1.0 / min(rule.modulus, WORD >> shift) if known else 1.0


def _constants(rule: Flat, skip: int, *, first: int, last: int) -> list[int]:
    """The constants of the divisibility test by ``modulus`` and of the words to look at, in the kernels' order."""
    rotate = (rule.modulus & -rule.modulus).bit_length() - 1
    odd = rule.modulus >> rotate
    if rule.modulus == WORD:
        rotate = 0  # with bound 0 only the target itself fits
    inverse = pow(odd, -1, WORD)
    return [skip, rule.limit, inverse, rotate, (WORD - 1) // rule.modulus, first, last, int(rule.rejects)]
