"""``low-bits``: linear congruential generators modulo 2^k whose outputs show a remainder by an even number.

The lower bits of such a state follow from its lower bits alone. The remainder of a draw by the power of two in its
modulus is made of a few bits of the state: of ``java.util.Random``'s ``nextInt(1000)`` bits 17 to 19. So the lower 20
bits of the state are sieved by all draws first; few are left. Then the states of one draw are enumerated, those with
the right remainder and one of the lower parts that are left, and tested by the other draws.

Where the runtime may draw again, the positions of later draws move. All ways in which that happens up to so many
times are sieved, which costs little, because they share their beginnings; more times are less probable than
:data:`picks.NEVER`, which counts as never. A number that is drawn again is one of a few, so that no more states have to
be enumerated for these ways than for the one without.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb, inf
from typing import ClassVar

import numpy as np

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.generators.rules import Above, Part, Residue, Span, Want
from hostler.workloads.sieve.methods import lcg_kernels, picks
from hostler.workloads.sieve.methods.affine import Congruence, Map, congruence, items_of, steps_to_item
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.lcg_kernels import U64
from hostler.workloads.sieve.methods.picks import Aim, Single
from hostler.workloads.sieve.methods.solved import MOST, Solved, too_many
from hostler.workloads.sieve.spec import Spec

MOST_REDRAWS = 4
MOST_BITS = 64
MOST_LOW = 36
MOST_AIMS = 64
FEW = 256
CHUNK = 1 << 18
LOW_S = 8e-9
HIGH_PER_S = 1e9
CLASS_S = 5e-4


class LowBits:
    """The method."""

    name: ClassVar[str] = "low-bits"

    def offer(self, spec: Spec) -> Offer | str:
        """As :class:`~hostler.workloads.sieve.methods.base.Method` says."""
        known = congruence(spec.generator)
        if known is None or not known.power_of_two or known.bits > MOST_BITS:
            return f"{spec.generator.name} is no linear congruential generator modulo 2^k, k <= {MOST_BITS}"
        if why := picks.simple(spec):
            return why
        search = _Search(spec, known)
        return search.refusal() or Offer(search.why(), search.cpu_s(), inf, lambda: Solved(search.solve))


@dataclass(frozen=True, slots=True)
class _Way:
    """Where the draws stand if things were drawn again in one way.

    ``delays`` are the words by which each aim comes later, ``low`` the lower parts that are left of the first aim's
    state.
    """

    delays: tuple[int, ...]
    low: U64


@dataclass(frozen=True, slots=True)
class _Run:
    """States ``first + stride * i`` of word ``at``, ``i`` below ``count``."""

    at: int
    first: int
    stride: int
    count: int


class _Search:
    def __init__(self, spec: Spec, known: Congruence) -> None:
        self._spec, self._known = spec, known
        self._gaps = range(spec.gap[0], spec.gap[1] + 1)
        self._powers: dict[int, Map] = {}
        self._aims = picks.aims(spec, 0, MOST_AIMS)
        last, gap = self._aims[-1].draw + 1, spec.gap[1]
        self._chance = picks.redraws(spec, gap, last)
        self._redraws, self._before = picks.budget(self._chance), picks.before(spec)
        self._after = picks.budget(picks.redraws(spec, gap, len(spec.draws) - last))
        lows = [low for aim in self._aims for low in self._lows(aim)]
        self._shift, self._count, _ = lows[0] if lows else (0, 0, 0)
        self._bits = self._shift + self._count
        self._lost = sum(max(0, min(shift + count, self._bits) - shift) for shift, count, _ in lows[1:])

    def refusal(self) -> str:
        """Why it does not apply, or nothing."""
        if not self._count or not self._lows(self._aims[0]):
            return "no draw shows a remainder by an even number, or whole bits"
        if self._redraws > MOST_REDRAWS:
            return f"the runtime draws again too often: {self._chance:.2g} times within the draws, to expect"
        if self._shift > MOST_LOW:
            return f"the draws show no bit below bit {self._shift} of the state: 2^{self._shift} lower parts to sieve"
        passing = 2.0 ** (self._known.bits - picks.bits(self._spec))
        # Draws cannot decide bits above the highest that they are made of, however many there are.
        passing = max(passing, 2.0 ** (self._known.bits - self._highest()))
        if passing > FEW:
            return f"some {passing:.3g} states reproduce the draws by chance; give more known draws"
        return ""

    def _highest(self) -> int:
        return max(self._seen(single) for aim in self._aims for single in picks.singles(aim))

    def _seen(self, single: Single) -> int:
        """How many lower bits of a state a condition is about."""
        want, low = single.want, self._known.low(single)
        if low and isinstance(want, Residue) and want.modulus & (want.modulus - 1) == 0:
            return low[0] + low[1]
        return self._known.shift + single.part.shift + single.part.bits

    def why(self) -> str:
        """The reason for people."""
        return (
            f"the lower {self._bits} bits of the state decide {self._count} bits of each draw: they are sieved first, "
            "then the upper ones"
        )

    def cpu_s(self) -> float:
        """CPU-seconds for all states."""
        classes = max(1.0, 2.0 ** (self._shift - self._lost))
        way = _Way((0,) * len(self._aims), np.zeros(0, np.uint64))
        count = min(sum(map(_count, runs)) for runs in self._choices(way, self._aims, 0))
        ways = comb(len(self._aims) - 1 + self._redraws, self._redraws)
        high = classes * (count / HIGH_PER_S + ways * CLASS_S)
        return float(len(self._gaps) * (0.002 + 2**self._shift * LOW_S * len(self._aims) / 2 + high))

    def solve(self) -> Iterator[int]:
        """All candidates."""
        for gap in self._gaps:
            aims = picks.aims(self._spec, gap, MOST_AIMS)
            for way in self._ways(aims):
                for x in self._states(way, aims):
                    yield from self._items(x, gap, aims[0], way)

    def _lows(self, aim: Aim) -> list[tuple[int, int, int]]:
        return [low for single in picks.singles(aim) if (low := self._known.low(single))]

    def _items(self, x: int, gap: int, first: Aim, way: _Way) -> Iterator[int]:
        """Items from the state ``x`` of the first aim's word, with anything drawn again before it."""
        steps = (step - first.at - 1 for step in self._steps(gap, way.delays[-1]))
        yield from items_of(self._spec, self._known, x, steps)

    def _steps(self, gap: int, late: int) -> set[int]:
        """The steps there may be from before the pattern's first word to the item's state."""
        if self._spec.items == "ends":
            return {steps_to_item(self._spec, 0, gap) + late + again for again in range(self._after + 1)}
        skips = range(self._spec.skip[0], self._spec.skip[1] + 1)
        return {steps_to_item(self._spec, skip, gap) - again for skip in skips for again in range(self._before + 1)}

    def _ways(self, aims: list[Aim]) -> Iterator[_Way]:
        """Sieve the lower parts of the first aim's state, in all ways of drawing again."""
        value = self._lows(aims[0])[0][2] << self._shift
        for base in range(0, 1 << self._shift, CHUNK):
            low = np.arange(base, min(base + CHUNK, 1 << self._shift), dtype=np.uint64)
            yield from self._sift(aims, low | np.uint64(value), (), self._redraws)

    def _sift(self, aims: list[Aim], low: U64, delays: tuple[int, ...], left: int) -> Iterator[_Way]:
        if len(delays) == len(aims):
            yield _Way(delays, low)
            return
        aim, before = aims[len(delays)], delays[-1] if delays else 0
        # What is drawn again before the first aim moves all of them alike, and is no other way.
        for more in range(left + 1 if delays else 1):
            kept = self._fitting(low, aim, aim.at + before + more - aims[0].at)
            if kept.size:
                yield from self._sift(aims, kept, (*delays, before + more), left - more)

    def _fitting(self, low: U64, aim: Aim, steps: int) -> U64:
        """Those of the first aim's lower parts whose bits fit an aim that lies ``steps`` later."""
        for single in picks.singles(aim):
            if known := self._known.low(single):
                shift, count, value = known
                seen = max(0, min(count, self._bits - shift))
                step = self._power(steps + single.at - aim.at)
                made = np.uint64(step.factor) * low + np.uint64(step.term)
                low = low[made >> np.uint64(shift) & np.uint64((1 << seen) - 1) == value % (1 << seen)]
        return low

    def _states(self, way: _Way, aims: list[Aim]) -> Iterator[int]:
        """States of the first aim's word that fit all draws, with the lower parts that are left."""
        for low in way.low.tolist():
            choices = list(self._choices(way, aims, low))
            for run in min(choices, key=lambda runs: sum(map(_count, runs))):
                back = self._power(aims[0].at - run.at)
                yield from map(back, self._search(run, way, aims))

    def _search(self, run: _Run, way: _Way, aims: list[Aim]) -> Iterator[int]:
        up = 64 - self._known.bits
        table = np.array(self._table(run, way, aims), np.uint64)
        hits = np.zeros(MOST, np.uint64)
        if run.count == 0:
            return
        first, stride = run.first << up, run.stride << up & (1 << 64) - 1
        found = lcg_kernels.progression()(first, stride, run.count, table, hits)
        if found > MOST:
            raise TooManyHits(too_many("the range"))
        yield from (run.first + run.stride * i for i in hits[:found].tolist())

    def _table(self, run: _Run, way: _Way, aims: list[Aim]) -> list[list[int]]:
        """The rows of all draws, the one that excludes most first; that of the run itself comes last."""
        rows = []
        for aim, delay in zip(aims, way.delays, strict=True):
            for single in picks.singles(aim):
                step, part = self._power(single.at + delay - run.at), single.part
                up = 64 - self._known.bits
                shift = up + self._known.shift + part.shift
                excludes = 0.0 if single.at + delay == run.at else _excludes(single)
                rows.append((excludes, lcg_kernels.row(step.factor, step.term << up, shift, part.bits, single.want)))
        return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]

    def _choices(self, way: _Way, aims: list[Aim], low: int) -> Iterator[list[_Run]]:
        """Ways to enumerate the states with this lower part: all, those that fit a draw, or those drawn again."""
        yield [_Run(aims[0].at, low, 1 << self._bits, 1 << self._known.bits - self._bits)]
        for i, aim in enumerate(aims):
            for single in picks.singles(aim):
                if self._tops(single.part) and single.part.shift + self._known.shift <= self._bits:
                    yield [self._run(single.at + way.delays[i], single.part, low, aims[0].at, single.want)]
        for i in range(1, len(aims)):
            if way.delays[i] > way.delays[i - 1] and (part := self._redrawn()):
                want = Span(part[1] + 1, (1 << part[0].bits) - 1)
                places = range(aims[i - 1].at + way.delays[i - 1] + 1, aims[i].at + way.delays[i])
                yield [self._run(at, part[0], low, aims[0].at, want) for at in places]

    def _redrawn(self) -> tuple[Part, int] | None:
        """What part of a word is drawn again when it is above what, if all picks agree on it."""
        rules = {rule for call in self._spec.calls for rule in call.rules()}
        if len(rules) != 1:
            return None
        (rule,) = rules
        if len(rule.parts) != 1 or not isinstance(rule.again, Above) or not self._tops(rule.parts[0]):
            return None
        return (rule.parts[0], rule.again.limit) if rule.parts[0].shift + self._known.shift <= self._bits else None

    def _run(self, at: int, part: Part, low: int, first: int, want: Want) -> _Run:
        """The states of word ``at`` whose part meets ``want`` and whose lower bits follow from ``low`` of ``first``."""
        shift = self._known.shift + part.shift
        here = self._power(at - first)(low) % (1 << self._bits)
        decided = self._bits - shift
        v, stride, start, stop = here >> shift, 1 << decided, 0, 1 << part.bits
        if isinstance(want, Span):
            start, stop = want.low, want.high + 1
        elif want.modulus % stride == 0:
            v, stride = want.target, want.modulus
        else:
            odd = want.modulus // (want.modulus & -want.modulus)
            v += stride * ((want.target - v) * pow(stride, -1, odd) % odd)
            stride *= odd
        v += -((v - start) // stride) * stride
        first_state = v << shift | here & (1 << shift) - 1
        return _Run(at, first_state, stride << shift, max(0, -((v - stop) // stride)))

    def _tops(self, part: Part) -> bool:
        return part.shift + part.bits == self._known.width

    def _power(self, steps: int) -> Map:
        if steps not in self._powers:
            self._powers[steps] = self._known.step.power(steps)
        return self._powers[steps]


def _count(run: _Run) -> int:
    return run.count


def _excludes(single: Single) -> float:
    """How little of all values of the part meets the condition, as far as lower bits do not decide it."""
    if isinstance(single.want, Residue):
        return float(single.want.modulus // (single.want.modulus & -single.want.modulus))
    return (1 << single.part.bits) / (single.want.high - single.want.low + 1)
