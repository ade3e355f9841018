"""PHP 7.1 and later: ``mt_srand(seed)`` and ``mt_rand()``, ``mt_rand(min, max)``.

Reference: php-src ``ext/standard/mt_rand.c`` (7.1 to 8.1) and ``ext/random`` (8.2 on): ``php_mt_initialize``,
``php_mt_reload``, ``php_mt_rand_range32``. The seed is taken modulo 2^32. PHP 7.0 and earlier twisted
differently, and so does the mode ``MT_RAND_PHP``: neither is covered here.
"""

from dataclasses import dataclass
from typing import ClassVar

from hostler.workloads.sieve.generators import mersenne
from hostler.workloads.sieve.generators.base import WORD, Generator, Output, Rule, Words, by_kind, need


def words(seed: int) -> Words:
    """The 32-bit words behind ``mt_rand`` after ``mt_srand(seed)``."""
    return mersenne.words(mersenne.init_genrand(seed))


@dataclass(frozen=True, slots=True)
class Exact(Output):
    """``mt_rand()``: the upper 31 bits of a word."""

    kind: ClassVar[str] = "exact"

    @property
    def lowest(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return WORD >> 1

    def take(self, words: Words) -> int:
        return next(words) >> 1

    def rule(self) -> Rule:
        return Rule(shifts=(1,))


@dataclass(frozen=True, slots=True)
class Range(Output):
    """``mt_rand(min, max)``, both ends included, over at most 2^32 values (a wider range takes two words)."""

    min: int
    max: int

    kind: ClassVar[str] = "range"

    def __post_init__(self) -> None:
        need(self.min <= self.max, f"range: min {self.min} is above max {self.max}")
        need(self.max - self.min < WORD, "range: max - min must be below 2^32; wider ranges are not supported")
        need(self.min >= -(1 << 63) and self.max < 1 << 63, "range: min and max must fit PHP's 64-bit integers")

    @property
    def lowest(self) -> int:
        return self.min

    @property
    def size(self) -> int:
        return self.max - self.min + 1

    def take(self, words: Words) -> int:
        result = next(words)
        if self.size & (self.size - 1) == 0:
            return self.min + (result & (self.size - 1))
        ceiling = 0xFFFFFFFF - 0xFFFFFFFF % self.size - 1
        while result > ceiling:
            result = next(words)
        return self.min + result % self.size

    def rule(self) -> Rule:
        if self.size & (self.size - 1) == 0:
            return Rule(modulus=self.size)
        return Rule(modulus=self.size, limit=WORD - WORD % self.size - 1)


PHP_MT_RAND = Generator("php-mt_rand", "PHP 7.1+ mt_srand, mt_rand", WORD, words, by_kind(Exact, Range))
