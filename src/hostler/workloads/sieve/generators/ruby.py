"""Ruby's ``Random`` and ``Kernel#srand``, ``rand``, ``Array#shuffle``.

Reference: Ruby 3.1 ``random.c``: ``rand_init``, ``rand_mt_init``, ``limited_rand``, ``genrand_res53``; ``array.c``:
``rb_ary_shuffle_bang``. The seed's absolute value is split into words of 32 bits, the lowest first. One word seeds by
``init_genrand``, more by ``init_by_array``; but a highest word of 1 is dropped, so that seeds from 2^32 to 2^33 - 1 are
those below 2^32 again.
"""

from typing import ClassVar

from hostler.workloads.sieve.generators import mersenne
from hostler.workloads.sieve.generators.base import ANY, Engine, Generator, Structure, by_kind
from hostler.workloads.sieve.generators.choosers import Chooser, Floor, Masked
from hostler.workloads.sieve.generators.mappings import Below, Bytes, Float, Range
from hostler.workloads.sieve.generators.rules import Part
from hostler.workloads.sieve.generators.shuffles import Shuffle

RES53 = (Part(5, 27), Part(6, 26, word=1))


def seed(number: int) -> mersenne.State:
    """The state after ``Random.new(number)``."""
    key = mersenne.key_of(abs(number))
    if len(key) > 1 and key[-1] == 1:
        key.pop()
    table = mersenne.init_genrand(key[0]) if len(key) == 1 else mersenne.init_by_array(key)
    return mersenne.state_of(table)


class Rand(Float):
    """``rand``, ``rand()``."""

    kind: ClassVar[str] = "float"
    parts: ClassVar[tuple[Part, ...]] = RES53


class RandBelow(Below):
    """``rand(n)``; also the index of ``sample``."""

    chooser: ClassVar[Chooser] = Masked(32)


class RandRange(Range):
    """``rand(min..max)``."""

    chooser: ClassVar[Chooser] = Masked(32)


class FloorOf(Below):
    """``(rand * n).floor``."""

    kind: ClassVar[str] = "floor"
    chooser: ClassVar[Chooser] = Floor(32, RES53)


class RandomBytes(Bytes):
    """``bytes(n)``."""


class ArrayShuffle(Shuffle):
    """``shuffle``."""

    chooser: ClassVar[Chooser] = Masked(32)


RUBY_RANDOM = Generator(
    "ruby-random",
    "Ruby Random, srand, rand",
    1 << 64,
    Engine(32, seed, mersenne.step, mersenne.word, mersenne.back, Structure.GF2),
    by_kind(Rand, RandBelow, RandRange, FloorOf, RandomBytes, ArrayShuffle),
    reference="Ruby 3.1 random.c, array.c",
    aliases=("ruby",),
    drawn=(-ANY, ANY),
    seed_notes="a negative seed is its absolute value; larger ones can be drawn, not swept",
)
