"""``words``: generators whose words can be undone, from draws that tell most of a word.

A draw leaves a few words, each word leaves a few states or seeds (:mod:`unmixing`), and each of them is tested by the
words that follow from it, many at once. So 2^64 seeds cost no more than the bits of a word that a draw does not tell.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from math import exp2, inf, log2
from typing import ClassVar

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.generators.rules import Residue
from hostler.workloads.sieve.methods import picks
from hostler.workloads.sieve.methods.affine import steps_to_items
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.choices import U64, Choices, meets
from hostler.workloads.sieve.methods.picks import Single
from hostler.workloads.sieve.methods.solved import MOST, MOST_S, Solved, too_many
from hostler.workloads.sieve.methods.unmixing import Unmixer, many, unmixer
from hostler.workloads.sieve.spec import SEEDS, Spec

MOST_AIMS = 256
ROOT_BITS = 64
ITEM_S = 1e-5


class Words:
    """The method."""

    name: ClassVar[str] = "words"

    def offer(self, spec: Spec) -> Offer | str:
        """As :class:`~hostler.workloads.sieve.methods.base.Method` says."""
        known = unmixer(spec.generator)
        if known is None:
            return f"nothing here undoes the words of {spec.generator.name}"
        if why := picks.simple(spec) or picks.often(spec):
            return why
        if known.from_seed and spec.items != SEEDS:
            return f"states of {spec.generator.name} are no numbers of a range; it finds seeds"
        search = _Search(spec, known)
        return search.refusal() or Offer(search.why(), search.cpu_s(), inf, lambda: Solved(search.solve))


class _Search:
    def __init__(self, spec: Spec, known: Unmixer) -> None:
        self._spec, self._known = spec, known
        self._width, self._early = spec.generator.engine.width, spec.generator.engine.early
        self._before = picks.before(spec)
        self._gaps = range(spec.gap[0], spec.gap[1] + 1)
        self._asked = self._singles(self._gaps[-1])
        self._jumps: dict[int, Callable[[int], int]] = {}

    def refusal(self) -> str:
        """Why it does not apply, or nothing."""
        if len(self._picked(self._asked)) < self._known.takes:
            return self._too_few()
        if (left := self._left(self._asked)) > log2(MOST):
            return f"some 2^{left:.1f} states reproduce the draws by chance; give more known draws"
        return self._too_dear() if self.cpu_s() > MOST_S else ""

    def why(self) -> str:
        """The reason for people."""
        found = "seed" if self._known.from_seed else "state"
        return f"{self._told()} that can be undone; what follows from each {found} is tested by the other draws"

    def cpu_s(self) -> float:
        """CPU-seconds for all items."""
        return self._cost_s(self._combinations())

    def _cost_s(self, combinations: int) -> float:
        known, starts = self._known, self._starts_count()
        each = starts * (known.start_s + combinations * known.each_s)
        times = self._latest_start() + picks.span(self._spec, self._gaps[-1])
        found = exp2(max(0.0, self._left(self._asked))) * (1 if known.from_seed else self._skips())
        return len(self._gaps) * (each + found * ITEM_S) + min(times, known.farthest) * known.time_s

    def solve(self) -> Iterator[int]:
        """All candidates."""
        found = 0
        for gap in self._gaps:
            singles = self._singles(gap)
            for start, root in self._roots(singles, gap):
                if (found := found + 1) > MOST:
                    raise TooManyHits(too_many("the range"))
                yield from self._items(root, start, gap)

    def _singles(self, gap: int) -> list[Single]:
        """What draws ask of single words; those that say most first, then the first ones."""
        asked = (single for aim in picks.aims(self._spec, gap, MOST_AIMS) for single in picks.singles(aim))
        within = [single for single in asked if self._time(single) <= self._known.farthest]
        return sorted(within, key=lambda single: (-_said(single), single.at))

    def _picked(self, singles: list[Single]) -> list[Single]:
        """Those whose words are undone: they leave the fewest words; of two, the one that leaves more comes first."""
        undoable = [single for single in singles if self._time(single) <= self._known.latest]
        return undoable[: self._known.takes][::-1]

    def _left(self, singles: list[Single]) -> float:
        """The logarithm of how many roots all conditions leave, to expect."""
        return ROOT_BITS + log2(self._starts_count()) - sum(map(_said, singles))

    def _roots(self, singles: list[Single], gap: int) -> Iterator[tuple[int, int]]:
        """The time at which the pattern starts, and a root that meets all conditions."""
        picked = self._picked(singles)
        tests = [single for single in singles if single not in picked]
        choices = [Choices(single, self._width) for single in picked]
        for start in self._starts(picked[0], gap):
            for roots in self._known.roots(choices, [start + single.at for single in picked]):
                for root in self._fitting(roots, start, tests).tolist():
                    yield start, root

    def _fitting(self, roots: U64, start: int, tests: Iterable[Single]) -> U64:
        for single in tests:
            if not roots.size:
                break
            words = self._known.word(roots, start + single.at)
            roots = roots[meets(many(single.part.cut)(words), single.want)]
        return roots

    def _starts(self, picked: Single, gap: int) -> list[int]:
        """The times of the pattern's first word."""
        if not self._known.from_seed:
            return [-picked.at]
        return sorted(-steps for steps in steps_to_items(self._spec, gap))

    def _items(self, root: int, start: int, gap: int) -> Iterator[int]:
        """The items for a root, for all skips."""
        if self._known.from_seed:
            yield root
            return
        at, position = start - (0 if self._early else 1), 0
        for steps in sorted(steps_to_items(self._spec, gap)):
            if (more := at + steps - position) not in self._jumps:
                self._jumps[more] = self._known.jump(more)
            root, position = self._jumps[more](root), at + steps
            yield self._known.seed(root) if self._spec.items == SEEDS else root

    def _time(self, single: Single) -> int:
        """The latest time that a condition's word may have."""
        return self._latest_start() + single.at if self._known.from_seed else 0

    def _latest_start(self) -> int:
        return self._spec.skip[1] * picks.round_words(self._spec) + self._before

    def _skips(self) -> int:
        return (self._spec.skip[1] - self._spec.skip[0] + 1) * (self._before + 1)

    def _starts_count(self) -> int:
        """How often words are undone for each gap, at most."""
        return self._skips() if self._known.from_seed else 1

    def _combinations(self) -> int:
        """How many words there are to undo, or pairs of them."""
        made = 1
        for single in self._picked(self._asked):
            made *= Choices(single, self._width).count
        return made

    def _told(self) -> str:
        number, one = self._combinations(), self._known.takes == 1
        words = ("word" if one else "pair of words") if number == 1 else ("words" if one else "pairs of words")
        return f"{'a draw leaves' if one else 'two draws leave'} {_power(number)} {words}"

    def _too_few(self) -> str:
        name, takes = self._spec.generator.name, self._known.takes
        if self._known.latest == 0:
            return f"of {name} only the first word after the seeding can be undone, and no draw tells of it surely"
        if self._known.from_seed:
            return f"no known draw tells of one of the first {self._known.latest} words after the seeding"
        return f"words of {name} are undone {takes} at a time, and fewer known draws say something of one word"

    def _too_dear(self) -> str:
        told = f"{self._told()}, which would take some {self.cpu_s():.2g} CPU-s, more than {MOST_S:.0f}"
        if self._cost_s(1) > MOST_S:
            return f"{told}; narrow the ranges of skips and gaps"
        enough = (bits for bits in count(1) if self._cost_s(self._combinations() >> bits * self._known.takes) <= MOST_S)
        return f"{told}; draws that tell {next(enough)} bits more of a word would do"


def _said(single: Single) -> float:
    """How many bits a condition tells of a word."""
    want, bits = single.want, single.part.bits
    if isinstance(want, Residue):
        return log2(want.modulus)
    return bits - log2(max(1, want.high - want.low + 1))


def _power(count: int) -> str:
    return f"2^{log2(count):.1f}" if count > 1 << 20 else str(count)
