"""``java.util.Random``: ``new Random(seed)`` and its calls; ``Math.random()`` and ``Collections.shuffle`` use one too.

Reference: the class's API documentation (Java 17), which prescribes the algorithm: a 48-bit linear congruential
generator (multiplier 0x5DEECE66D, increment 11, the seed XORed with the multiplier), ``next(bits)`` its upper bits.
Two long seeds that agree in their lower 48 bits are the same seed. ``Math.random()`` is ``nextDouble()`` of an
instance that was seeded by itself. ``nextGaussian`` is not here: what it gives is no choice among equally likely
values.
"""

from dataclasses import dataclass
from typing import ClassVar

from hostler.workloads.sieve.generators.base import (
    WORD,
    Engine,
    Generator,
    Output,
    Structure,
    by_kind,
    need,
    signed,
)
from hostler.workloads.sieve.generators.choosers import Chooser, Floor
from hostler.workloads.sieve.generators.mappings import Below, Bits, Bytes, Chosen, Float
from hostler.workloads.sieve.generators.rules import Above, Part, Residue, Rule, Want, Words, exactly
from hostler.workloads.sieve.generators.shuffles import Shuffle

MULTIPLIER = 0x5DEECE66D
INCREMENT = 11
MASK = (1 << 48) - 1
INVERSE = pow(MULTIPLIER, -1, 1 << 48)
DOUBLE = (Part(6, 26), Part(5, 27, word=1))


def seed(number: int) -> int:
    """The state that ``new Random(number)`` starts from."""
    return (number ^ MULTIPLIER) & MASK


def step(state: int) -> int:
    """One ``next`` further."""
    return (state * MULTIPLIER + INCREMENT) & MASK


def back(state: int) -> int:
    """One ``next`` back."""
    return (state - INCREMENT) * INVERSE & MASK


def word(state: int) -> int:
    """``next(32)``, unsigned."""
    return state >> 16


@dataclass(frozen=True, slots=True)
class NextBelow(Chooser):
    """``nextInt(bound)``: a power of two scales ``next(31)``, other bounds take its remainder."""

    @property
    def top(self) -> int:
        return (1 << 31) - 1

    def take(self, words: Words, size: int) -> int:
        if size & (size - 1) == 0:
            return size * (next(words) >> 1) >> 31
        while True:
            bits = next(words) >> 1
            value = bits % size
            # Java's test for an incomplete last block is the overflow of this 32-bit sum.
            if signed(bits - value + size - 1) >= 0:
                return value

    def rule(self, size: int) -> Rule:
        if size & (size - 1) == 0:
            bits = size.bit_length() - 1
            return Rule(32, (Part(32 - bits, bits),))
        half = WORD >> 1
        return Rule(32, (Part(1, 31),), Above(half - half % size - 1))

    def want(self, size: int, index: int) -> Want:
        return exactly(index) if size & (size - 1) == 0 else Residue(size, index)


class Int(Bits):
    """``nextInt()``: ``next(32)`` as a signed integer."""

    kind: ClassVar[str] = "int"
    parts: ClassVar[tuple[Part, ...]] = (Part(0, 32),)
    is_signed: ClassVar[bool] = True


@dataclass(frozen=True)
class Bound(Chosen):
    """``nextInt(bound)``: ``0..bound-1`` from ``next(31)``; bounds are 1 to 2^31 - 1."""

    bound: int

    kind: ClassVar[str] = "bound"
    chooser: ClassVar[Chooser] = NextBelow()

    def __post_init__(self) -> None:
        need(0 < self.bound < WORD >> 1, f"bound: {self.bound} lies outside 1..2^31-1")

    @property
    def size(self) -> int:
        return self.bound


@dataclass(frozen=True)
class Long(Output):
    """``nextLong()``: two signed words, the upper one first; a negative lower word borrows from the upper one."""

    kind: ClassVar[str] = "long"

    @property
    def lowest(self) -> int:
        return -(1 << 63)

    @property
    def size(self) -> int:
        return 1 << 64

    def take(self, words: Words) -> int:
        upper, lower = signed(next(words)), signed(next(words))
        return signed((upper << 32) + lower, 64)

    def rules(self) -> tuple[Rule, ...]:
        return (Rule(32, (Part(0, 32),)),) * 2

    def wants(self, draw: int) -> tuple[Want, ...]:
        lower = signed(draw)
        return exactly((draw - lower >> 32) % WORD), exactly(lower % WORD)


class Double(Float):
    """``nextDouble()``, ``Math.random()``: 26 and 27 bits."""

    kind: ClassVar[str] = "double"
    parts: ClassVar[tuple[Part, ...]] = DOUBLE


class FloatOf(Float):
    """``nextFloat()``: 24 bits."""

    kind: ClassVar[str] = "float"
    parts: ClassVar[tuple[Part, ...]] = (Part(8, 24),)


class Boolean(Bits):
    """``nextBoolean()``, as 0 or 1."""

    kind: ClassVar[str] = "boolean"
    parts: ClassVar[tuple[Part, ...]] = (Part(31, 1),)


class NextBytes(Bytes):
    """``nextBytes(new byte[n])``."""


class FloorOf(Below):
    """``(int) (Math.random() * n)``, ``(int) (nextDouble() * n)``."""

    kind: ClassVar[str] = "floor"
    chooser: ClassVar[Chooser] = Floor(32, DOUBLE)


class ListShuffle(Shuffle):
    """``Collections.shuffle(list, random)``."""

    chooser: ClassVar[Chooser] = NextBelow()


JAVA_RANDOM = Generator(
    "java-random",
    "java.util.Random, Math.random",
    1 << 48,
    Engine(32, seed, step, word, back, Structure.POWER_OF_TWO_LCG, states=1 << 48),
    by_kind(Int, Bound, Long, Double, FloatOf, Boolean, NextBytes, FloorOf, ListShuffle),
    reference="Java 17 API documentation of java.util.Random",
    aliases=("java", "java-math-random"),
    drawn=(-(1 << 63), (1 << 63) - 1),
    seed_notes="of a long seed the lower 48 bits count",
    parameters={"multiplier": MULTIPLIER, "increment": INCREMENT, "modulus": 1 << 48, "shift": 16},
)
