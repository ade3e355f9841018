"""NumPy's ``RandomState(seed)``, ``numpy.random.seed``: ``random_sample``, ``randint``, ``shuffle``, ``permutation``.

Reference: numpy 2.4 ``_mt19937.pyx`` (``_legacy_seeding`` of an integer), ``distributions.c`` (``random_interval``,
``random_bounded_uint64_fill`` with a mask). The state comes from ``init_genrand``; ``randint`` and ``shuffle`` take
the lower bits of a word and draw again.
"""

from typing import ClassVar

from hostler.workloads.sieve.generators import mersenne
from hostler.workloads.sieve.generators.base import WORD, Generator, by_kind
from hostler.workloads.sieve.generators.choosers import Chooser, Floor, Masked
from hostler.workloads.sieve.generators.mappings import Below, Bytes, Float, Range
from hostler.workloads.sieve.generators.rules import Part
from hostler.workloads.sieve.generators.shuffles import Shuffle

RES53 = (Part(5, 27), Part(6, 26, word=1))


class RandomSample(Float):
    """``random_sample()``, ``rand()``."""

    kind: ClassVar[str] = "float"
    parts: ClassVar[tuple[Part, ...]] = RES53


class RandInt(Below):
    """``randint(n)``; also the index of ``choice``."""

    chooser: ClassVar[Chooser] = Masked(32)


class RandIntRange(Range):
    """``randint(min, max + 1)``."""

    chooser: ClassVar[Chooser] = Masked(32)


class FloorOf(Below):
    """``int(random_sample() * n)``."""

    kind: ClassVar[str] = "floor"
    chooser: ClassVar[Chooser] = Floor(32, RES53)


class RandomBytes(Bytes):
    """``bytes(n)``."""


class StateShuffle(Shuffle):
    """``shuffle(array)``, ``permutation(n)``."""

    chooser: ClassVar[Chooser] = Masked(32)


NUMPY_RANDOMSTATE = Generator(
    "numpy-randomstate",
    "NumPy RandomState, numpy.random.seed",
    WORD,
    mersenne.GENRAND,
    by_kind(RandomSample, RandInt, RandIntRange, FloorOf, RandomBytes, StateShuffle),
    reference="numpy 2.4 numpy/random/_mt19937.pyx, src/distributions/distributions.c",
    aliases=("numpy-legacy", "numpy-mt19937"),
)
