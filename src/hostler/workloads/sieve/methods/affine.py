"""Linear congruential generators as the algebraic methods see them: steps in closed form, states and their seeds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd

from hostler.workloads.sieve.generators import glibc
from hostler.workloads.sieve.generators.base import Generator, Structure
from hostler.workloads.sieve.generators.rules import Residue, Span
from hostler.workloads.sieve.methods.picks import Single, before, round_words, span
from hostler.workloads.sieve.spec import Spec


@dataclass(frozen=True, slots=True)
class Map:
    """``x -> (factor * x + term) mod modulus``."""

    factor: int
    term: int
    modulus: int

    def __call__(self, x: int) -> int:
        return (self.factor * x + self.term) % self.modulus

    def after(self, first: "Map") -> "Map":
        """First the other map, then this one."""
        return Map(self.factor * first.factor % self.modulus, self(first.term), self.modulus)

    def power(self, steps: int) -> "Map":
        """This map ``steps`` times; negative numbers undo it, which an invertible factor allows."""
        step, made = (self if steps >= 0 else self._inverse()), Map(1, 0, self.modulus)
        steps = abs(steps)
        while steps:
            if steps & 1:
                made = step.after(made)
            step, steps = step.after(step), steps >> 1
        return made

    def _inverse(self) -> "Map":
        factor = pow(self.factor, -1, self.modulus)
        return Map(factor, -factor * self.term % self.modulus, self.modulus)


@dataclass(frozen=True, slots=True)
class Congruence:
    """A generator's step and its words: bits ``shift`` and up of the state, ``width`` of them.

    ``step.modulus`` is the smallest that the words show: of a power of two the bits above the words' are left out.
    ``whole`` is the modulus of the generator's own states.
    """

    generator: Generator
    step: Map
    shift: int
    width: int
    whole: int

    @property
    def power_of_two(self) -> bool:
        """Whether low bits of states follow from low bits."""
        return self.step.modulus & (self.step.modulus - 1) == 0

    @property
    def bits(self) -> int:
        """How many bits a state has."""
        return (self.step.modulus - 1).bit_length()

    def states(self, x: int) -> range:
        """The generator's states that look like ``x``."""
        return range(x, self.whole, self.step.modulus)

    def box(self, single: Single) -> tuple[int, int] | None:
        """The smallest and the largest state that meets a condition, if it is met by all between them and no other."""
        want, part = single.want, single.part
        if not isinstance(want, Span) or part.shift + part.bits != self.width:
            return None
        shift = self.shift + part.shift
        return want.low << shift, min(want.high + 1 << shift, self.step.modulus) - 1

    def low(self, single: Single) -> tuple[int, int, int] | None:
        """``(shift, count, value)``: what a condition says of the ``count`` bits of a state from ``shift`` up."""
        want, shift = single.want, self.shift + single.part.shift
        if isinstance(want, Residue):
            count = min((want.modulus & -want.modulus).bit_length() - 1, single.part.bits)
            return (shift, count, want.target % (1 << count)) if count else None
        return (shift, single.part.bits, want.low) if want.low == want.high else None


def congruence(generator: Generator) -> Congruence | None:
    """How a linear congruential generator computes; ``None`` for others and where a step cannot be undone."""
    if generator.engine.structure not in (Structure.LCG, Structure.POWER_OF_TWO_LCG):
        return None
    constants = dict(generator.parameters) or {
        "multiplier": glibc.MULTIPLIER, "increment": glibc.INCREMENT, "modulus": glibc.MODULUS, "shift": 0,
    }  # fmt: skip
    modulus, shift, width = constants["modulus"], constants["shift"], generator.engine.width
    if gcd(constants["multiplier"], modulus) != 1:
        return None
    seen = min(modulus, 1 << shift + width) if modulus & (modulus - 1) == 0 else modulus
    step = Map(constants["multiplier"] % seen, constants["increment"] % seen, seen)
    return Congruence(generator, step, shift, width, modulus)


def items_of(spec: Spec, known: Congruence, x: int, steps: Iterable[int]) -> Iterator[int]:
    """The items whose state looks like one that stands so many steps after ``x``; before it, if negative."""
    at, maps = 0, dict[int, Map]()
    for stop in sorted(steps):
        if stop - at not in maps:
            maps[stop - at] = known.step.power(stop - at)
        x, at = maps[stop - at](x), stop
        for state in known.states(x):
            yield from seeds_of(spec.generator, state) if spec.items == "seeds" else [state]


def steps_to_item(spec: Spec, skip: int, gap: int) -> int:
    """How many steps lead from the state before the pattern's first word to the item's; undone ones if negative."""
    return span(spec, gap) if spec.items == "ends" else -skip * round_words(spec)


def steps_to_items(spec: Spec, gap: int) -> set[int]:
    """All :func:`steps_to_item` there may be, with what may be drawn again before the draws, or after the last one."""
    again = range(before(spec) + 1)
    if spec.items == "ends":
        return {steps_to_item(spec, 0, gap) + more for more in (again if spec.draws[-1] is None else [0])}
    skips = range(spec.skip[0], spec.skip[1] + 1)
    return {steps_to_item(spec, skip, gap) - more for skip in skips for more in again}


def seeds_of(generator: Generator, state: int) -> list[int]:
    """All seeds of a linear congruential generator that start from ``state``, ascending."""
    modulus = generator.parameters.get("modulus", glibc.MODULUS)
    # Seeds are states, but for Java's XOR, and for a seed that is no state and counts as another.
    guesses = {*range(state, generator.seeds, modulus), 0, modulus, state ^ generator.parameters.get("multiplier", 0)}
    return sorted(seed for seed in guesses if seed < generator.seeds and generator.engine.seed(seed) == state)
