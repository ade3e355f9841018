"""``java.util.Random``: ``new Random(seed)`` and ``nextInt()``, ``nextInt(bound)``.

Reference: the class's API documentation, which prescribes the algorithm: a 48-bit linear congruential generator
(multiplier 0x5DEECE66D, increment 11, the seed XORed with the multiplier), ``next(bits)`` its upper bits. Two
long seeds that agree in their lower 48 bits are the same seed.
"""

from dataclasses import dataclass
from typing import ClassVar

from hostler.workloads.sieve.generators.base import WORD, Generator, Output, Rule, Words, by_kind, need

MULTIPLIER = 0x5DEECE66D
INCREMENT = 11
MASK = (1 << 48) - 1


def words(seed: int) -> Words:
    """``next(32)`` again and again, unsigned."""
    state = (seed ^ MULTIPLIER) & MASK
    while True:
        state = (state * MULTIPLIER + INCREMENT) & MASK
        yield state >> 16


@dataclass(frozen=True, slots=True)
class Int(Output):
    """``nextInt()``: ``next(32)`` as a signed integer."""

    kind: ClassVar[str] = "int"

    @property
    def lowest(self) -> int:
        return -(WORD >> 1)

    @property
    def size(self) -> int:
        return WORD

    def take(self, words: Words) -> int:
        return _signed(next(words))

    def rule(self) -> Rule:
        return Rule()

    def targets(self, draw: int) -> tuple[int, ...]:
        return (draw % WORD,)


@dataclass(frozen=True, slots=True)
class Bound(Output):
    """``nextInt(bound)``: ``0..bound-1`` from ``next(31)``; bounds are 1 to 2^31 - 1."""

    bound: int

    kind: ClassVar[str] = "bound"

    def __post_init__(self) -> None:
        need(0 < self.bound < WORD >> 1, f"bound: {self.bound} lies outside 1..2^31-1")

    @property
    def lowest(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return self.bound

    def take(self, words: Words) -> int:
        if self.bound & (self.bound - 1) == 0:
            return self.bound * (next(words) >> 1) >> 31
        while True:
            bits = next(words) >> 1
            value = bits % self.bound
            # Java's test for an incomplete last block is the overflow of this 32-bit sum.
            if _signed(bits - value + self.bound - 1) >= 0:
                return value

    def rule(self) -> Rule:
        if self.bound & (self.bound - 1) == 0:
            return Rule(shifts=(33 - self.bound.bit_length(),))
        half = WORD >> 1
        return Rule(shifts=(1,), modulus=self.bound, limit=half - half % self.bound - 1)


def _signed(word: int) -> int:
    word %= WORD
    return word - WORD if word >= WORD >> 1 else word


JAVA_RANDOM = Generator("java-random", "java.util.Random", 1 << 48, words, by_kind(Int, Bound))
