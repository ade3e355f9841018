"""CPython's ``random``: ``seed``, ``random``, ``randrange``, ``choice``, ``getrandbits``, ``shuffle`` (3.2 and later).

Reference: CPython 3.11 ``Modules/_randommodule.c`` (``random_seed``, ``random_random``, ``getrandbits``) and
``Lib/random.py`` (``seed`` version 2, ``_randbelow_with_getrandbits``, ``shuffle``). The seed's absolute value is
the key of ``init_by_array``, 32 bits a word, lowest first. A text or bytes seed is the integer of its bytes
followed by their SHA-512. ``choice(list)`` is ``randrange(len(list))``; ``randrange(a, b)`` and ``randint`` are
``range``.
"""

import hashlib
from dataclasses import dataclass
from typing import ClassVar

from hostler.workloads.sieve.generators import mersenne
from hostler.workloads.sieve.generators.base import ANY, Engine, Generator, Picked, Structure, by_kind, need
from hostler.workloads.sieve.generators.choosers import Chooser, Floor, TopBits
from hostler.workloads.sieve.generators.mappings import Below, Chosen, Float, Range
from hostler.workloads.sieve.generators.rules import Part, Rule, Words
from hostler.workloads.sieve.generators.shuffles import Shuffle

RES53 = (Part(5, 27), Part(6, 26, word=1))


def seed_of(text: bytes) -> int:
    """The integer that seeds as ``random.seed(text)`` does; a str counts by its UTF-8 bytes."""
    return int.from_bytes(text + hashlib.sha512(text).digest(), "big")


class Random(Float):
    """``random()`` as the integer ``random() * 2^53``; a draw may also be given as the float itself."""

    kind: ClassVar[str] = "random"
    parts: ClassVar[tuple[Part, ...]] = RES53


@dataclass(frozen=True)
class RandRange(Chosen):
    """``randrange(stop)``: ``0..stop-1`` from ``getrandbits(stop.bit_length())``; stops are 1 to 2^32 - 1."""

    stop: int

    kind: ClassVar[str] = "randrange"
    chooser: ClassVar[Chooser] = TopBits()

    def __post_init__(self) -> None:
        need(0 < self.stop <= self.chooser.top, f"randrange: stop {self.stop} lies outside 1..2^32-1")

    @property
    def size(self) -> int:
        return self.stop


class RandInt(Range):
    """``randint(min, max)``, ``randrange(min, max + 1)``."""

    chooser: ClassVar[Chooser] = TopBits()


class FloorOf(Below):
    """``int(random() * n)``, which was also ``randrange(n)`` before 3.2."""

    kind: ClassVar[str] = "floor"
    chooser: ClassVar[Chooser] = Floor(32, RES53)


@dataclass(frozen=True)
class GetRandBits(Picked):
    """``getrandbits(k)``: the first word is the lowest; of the last one the upper bits are taken."""

    k: int

    kind: ClassVar[str] = "getrandbits"

    def __post_init__(self) -> None:
        need(0 < self.k <= 1024, f"getrandbits: k {self.k} lies outside 1..1024")

    @property
    def size(self) -> int:
        return 1 << self.k

    def take(self, words: Words) -> int:
        made, left = 0, self.k
        while left > 32:
            made |= next(words) << (self.k - left)
            left -= 32
        return made | next(words) >> (32 - left) << (self.k - left)

    def rule(self) -> Rule:
        whole, rest = divmod(self.k - 1, 32)
        last = Part(31 - rest, rest + 1, word=whole)
        return Rule(32, (last, *(Part(0, 32, word=i) for i in reversed(range(whole)))))


class PythonShuffle(Shuffle):
    """``shuffle(list)``."""

    chooser: ClassVar[Chooser] = TopBits()


PYTHON_RANDOM = Generator(
    "python-random",
    "CPython 3.2+ random.seed(int or text)",
    1 << 64,
    Engine(
        32,
        lambda seed: mersenne.state_of(mersenne.init_by_array(mersenne.key_of(abs(seed)))),
        mersenne.step,
        mersenne.word,
        mersenne.back,
        Structure.GF2,
    ),
    by_kind(Random, RandRange, RandInt, FloorOf, GetRandBits, PythonShuffle),
    reference="CPython 3.11 Modules/_randommodule.c, Lib/random.py",
    aliases=("python", "cpython", "python3"),
    text_seed=seed_of,
    drawn=(-ANY, ANY),
    seed_notes="a negative seed is its absolute value; larger ones can be drawn, not swept",
)
