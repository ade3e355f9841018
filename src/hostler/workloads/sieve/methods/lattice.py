"""``lattice``: linear congruential generators whose draws bound the state: upper bits, floats, scaled numbers.

The states behind several draws, side by side, are the points of a shifted lattice: each is a linear function of the
first, modulo the generator's. The draws bound them to a box. A reduced basis of the lattice tells all its points in the
box, none left out (:mod:`reduction`), so that the size of the state hardly matters.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp2, inf, log2
from typing import ClassVar

from hostler.workloads.sieve.errors import TooManyHits
from hostler.workloads.sieve.methods import picks
from hostler.workloads.sieve.methods.affine import Congruence, congruence, items_of, steps_to_items
from hostler.workloads.sieve.methods.base import Offer
from hostler.workloads.sieve.methods.picks import Single
from hostler.workloads.sieve.methods.reduction import points, reduced, work
from hostler.workloads.sieve.methods.solved import MOST, Solved, too_many
from hostler.workloads.sieve.spec import Spec

MOST_AIMS = 256
MOST_WORDS = 20
"""Words whose states are looked at together: the work grows fast with their number."""
SPARE_BITS = 6
"""So many bits more than a state has are taken from the draws, so that chance leaves few points."""
CHOICE_S, STATE_S = 3e-5, 1e-3


class Lattice:
    """The method."""

    name: ClassVar[str] = "lattice"

    def offer(self, spec: Spec) -> Offer | str:
        """As :class:`~hostler.workloads.sieve.methods.base.Method` says."""
        known = congruence(spec.generator)
        if known is None:
            return f"{spec.generator.name} is no linear congruential generator whose steps can be undone"
        if why := picks.simple(spec):
            return why
        if why := picks.often(spec):
            return why
        search = _Search(spec, known)
        return search.refusal() or Offer(search.why(), search.cpu_s(), inf, lambda: Solved(search.solve))


@dataclass(frozen=True, slots=True)
class _Bound:
    """The state of word ``at`` lies in ``low..high``, both included."""

    at: int
    low: int
    high: int

    @property
    def size(self) -> int:
        return max(0, self.high - self.low + 1)


@dataclass(frozen=True, slots=True)
class _Box:
    """The lattice's reduced basis, a point of it, and the box; coordinate ``i`` of each counts ``1 / units[i]``."""

    units: list[int]
    basis: list[list[int]]
    origin: list[int]
    low: list[int]
    high: list[int]


class _Search:
    def __init__(self, spec: Spec, known: Congruence) -> None:
        self._spec, self._known = spec, known
        self._modulus = known.step.modulus

    def refusal(self) -> str:
        """Why it does not apply, or nothing."""
        bounds = self._bounds(self._spec.gap[0])
        if not bounds:
            return "no draw bounds the upper bits of a state"
        left = self._left(self._chosen(bounds))
        if left > log2(MOST):
            return (
                f"the {len(bounds)} words that bound their state leave 2^{left:.1f} states, {MOST_WORDS} of them taken "
                "together; draws that say more of a state, or more of them, are needed"
            )
        return ""

    def why(self) -> str:
        """The reason for people."""
        used = len(self._chosen(self._bounds(self._spec.gap[0])))
        return (
            f"the states of {used} words bounded by draws are a point of a lattice in a box; all such points are found"
        )

    def cpu_s(self) -> float:
        """CPU-seconds for all states."""
        chosen = self._chosen(self._bounds(self._spec.gap[0]))
        box = self._box(chosen)
        each = 0.002 + work(box.basis, box.low, box.high) * CHOICE_S + exp2(max(0.0, self._left(chosen))) * STATE_S
        return each * (self._spec.gap[1] - self._spec.gap[0] + 1)

    def solve(self) -> Iterator[int]:
        """All candidates."""
        for gap in range(self._spec.gap[0], self._spec.gap[1] + 1):
            tests = [single for aim in picks.aims(self._spec, gap, MOST_AIMS) for single in picks.singles(aim)]
            bounds = self._chosen(self._bounds(gap))
            left = (x for x in self._states(bounds) if self._fits(x, bounds[0].at, tests))
            for number, x in enumerate(left):
                if number >= MOST:
                    raise TooManyHits(too_many("the range"))
                yield from items_of(
                    self._spec, self._known, x, (step - bounds[0].at - 1 for step in steps_to_items(self._spec, gap))
                )

    def _bounds(self, gap: int) -> list[_Bound]:
        """The bounds of all words, in their order, without those that say nothing."""
        found = []
        for aim in picks.aims(self._spec, gap, MOST_AIMS):
            for single in picks.singles(aim):
                if (box := self._known.box(single)) and box[1] - box[0] + 1 < self._modulus:
                    found.append(_Bound(single.at, *box))
        return sorted(found, key=lambda bound: bound.at)

    def _chosen(self, bounds: list[_Bound]) -> list[_Bound]:
        """As many bounds, those that say most first, as leave few states by chance; in the order of their words."""
        chosen: list[_Bound] = []
        for bound in sorted(bounds, key=lambda bound: bound.size):
            if len(chosen) == MOST_WORDS or (chosen and self._left(chosen) <= -SPARE_BITS):
                break
            chosen.append(bound)
        return sorted(chosen, key=lambda bound: bound.at)

    def _left(self, bounds: list[_Bound]) -> float:
        """The logarithm of how many states the bounds leave, to expect."""
        left = whole = log2(self._modulus)
        for bound in bounds:
            left += log2(max(1, bound.size)) - whole
        return left

    def _states(self, bounds: list[_Bound]) -> Iterator[int]:
        """The states of the first bound's word for which all of them hold."""
        box = self._box(bounds)
        return (point[0] // box.units[0] for point in points(box.basis, box.origin, box.low, box.high))

    def _box(self, bounds: list[_Bound]) -> "_Box":
        maps = [self._known.step.power(bound.at - bounds[0].at) for bound in bounds]
        # Coordinates count in units of their bounds, so that the box is nearly a cube.
        largest = max(bound.size for bound in bounds)
        units = [max(1, 16 * largest // max(1, bound.size)) for bound in bounds]
        rows = [[each.factor for each in maps]]
        rows += [[self._modulus * (i == j) for j in range(len(bounds))] for i in range(1, len(bounds))]
        return _Box(
            units,
            reduced([[x * unit for x, unit in zip(row, units, strict=True)] for row in rows]),
            [each.term * unit for each, unit in zip(maps, units, strict=True)],
            [bound.low * unit for bound, unit in zip(bounds, units, strict=True)],
            [bound.high * unit for bound, unit in zip(bounds, units, strict=True)],
        )

    def _fits(self, x: int, at: int, tests: list[Single]) -> bool:
        """Whether the words from the state ``x`` of word ``at`` meet all conditions."""
        for single in tests:
            state = self._known.step.power(single.at - at)(x)
            word = state >> self._known.shift & (1 << self._known.width) - 1
            if not single.want.holds(single.part.cut(word)):
                return False
        return True
