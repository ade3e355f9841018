"""Marsaglia's 32-bit xorshift with the shifts 13, 17, 5; the seed is the first state.

Reference: G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (14), 2003. From seed 0 every output
is 0; it is a seed here like any other.
"""

from dataclasses import dataclass
from typing import ClassVar

from hostler.workloads.sieve.generators.base import WORD, Generator, Output, Rule, Words, by_kind, need


def words(seed: int) -> Words:
    """The states after ``seed``."""
    x = seed
    while True:
        x ^= x << 13 & 0xFFFFFFFF
        x ^= x >> 17
        x ^= x << 5 & 0xFFFFFFFF
        yield x


@dataclass(frozen=True, slots=True)
class Exact(Output):
    """The whole 32-bit state."""

    kind: ClassVar[str] = "exact"

    @property
    def lowest(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return WORD

    def take(self, words: Words) -> int:
        return next(words)

    def rule(self) -> Rule:
        return Rule()


@dataclass(frozen=True, slots=True)
class Mod(Output):
    """The state modulo ``modulus`` (1 to 2^32 - 1)."""

    modulus: int

    kind: ClassVar[str] = "mod"

    def __post_init__(self) -> None:
        need(0 < self.modulus < WORD, f"mod: modulus {self.modulus} lies outside 1..2^32-1")

    @property
    def lowest(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return self.modulus

    def take(self, words: Words) -> int:
        return next(words) % self.modulus

    def rule(self) -> Rule:
        return Rule(modulus=self.modulus)


XORSHIFT32 = Generator("xorshift32", "Marsaglia xorshift 13, 17, 5", WORD, words, by_kind(Exact, Mod))
