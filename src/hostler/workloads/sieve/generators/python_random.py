"""CPython's ``random``: ``seed(int)`` and ``random()``, ``randrange(stop)`` (3.2 and later).

Reference: CPython ``Modules/_randommodule.c`` (``random_seed``, ``random_random``, ``getrandbits``) and
``Lib/random.py`` (``_randbelow_with_getrandbits``). The seed's absolute value is the key of ``init_by_array``,
32 bits a word, lowest first; here it has one word or two.
"""

from dataclasses import dataclass
from typing import ClassVar

from hostler.workloads.sieve.errors import SpecError
from hostler.workloads.sieve.generators import mersenne
from hostler.workloads.sieve.generators.base import WORD, Generator, Output, Rule, Words, by_kind, need


def words(seed: int) -> Words:
    """``getrandbits(32)`` again and again after ``random.seed(seed)``."""
    key = [seed] if seed < WORD else [seed % WORD, seed // WORD]
    return mersenne.words(mersenne.init_by_array(key))


@dataclass(frozen=True, slots=True)
class Random(Output):
    """``random()`` as the integer ``random() * 2^53``; a draw may also be given as the float itself."""

    kind: ClassVar[str] = "random"

    @property
    def lowest(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return 1 << 53

    def take(self, words: Words) -> int:
        high, low = next(words) >> 5, next(words) >> 6
        return high * (1 << 26) + low

    def rule(self) -> Rule:
        return Rule(shifts=(5, 6))

    def targets(self, draw: int) -> tuple[int, ...]:
        return draw >> 26, draw % (1 << 26)

    def read(self, draw: object) -> int:
        if isinstance(draw, float):
            return self._scaled(draw)
        return Output.read(self, draw)

    def _scaled(self, draw: float) -> int:
        scaled = draw * self.size
        if 0.0 <= draw < 1.0 and scaled == int(scaled):
            return int(scaled)
        raise SpecError(f"{draw!r} is no output of random(): it must be k / 2^53 in [0, 1), with every digit kept")


@dataclass(frozen=True, slots=True)
class RandRange(Output):
    """``randrange(stop)``: ``0..stop-1`` from ``getrandbits(stop.bit_length())``; stops are 1 to 2^32 - 1."""

    stop: int

    kind: ClassVar[str] = "randrange"

    def __post_init__(self) -> None:
        need(0 < self.stop < WORD, f"randrange: stop {self.stop} lies outside 1..2^32-1")

    @property
    def lowest(self) -> int:
        return 0

    @property
    def size(self) -> int:
        return self.stop

    def take(self, words: Words) -> int:
        bits = self.stop.bit_length()
        value = next(words) >> (32 - bits)
        while value >= self.stop:
            value = next(words) >> (32 - bits)
        return value

    def rule(self) -> Rule:
        return Rule(shifts=(32 - self.stop.bit_length(),), limit=self.stop - 1)


PYTHON_RANDOM = Generator("python-random", "CPython random.seed(int)", 1 << 64, words, by_kind(Random, RandRange))
