"""PHP 7.1 and later: ``mt_srand(seed)`` (or ``srand``), and ``mt_rand``, ``rand``, ``shuffle``, ``array_rand``.

Reference: php-src ``ext/standard/mt_rand.c`` (7.1 to 8.1) and ``ext/random`` (8.2 on): ``php_mt_initialize``,
``php_mt_reload``, ``php_mt_rand_range32``, and ``php_array_data_shuffle``. The seed is taken modulo 2^32. ``rand``
does what ``mt_rand`` does. ``array_rand($a)``, which takes one key, is ``range`` from 0 to ``count($a) - 1`` for an
array without gaps; ``str_shuffle`` is ``shuffle``. The mode ``MT_RAND_PHP`` is a generator of its own
(``php5-mt_rand``).
"""

from typing import ClassVar

from hostler.workloads.sieve.generators import mersenne
from hostler.workloads.sieve.generators.base import WORD, Generator, by_kind
from hostler.workloads.sieve.generators.choosers import Chooser, FairRemainder
from hostler.workloads.sieve.generators.mappings import Bits, Range
from hostler.workloads.sieve.generators.rules import Part
from hostler.workloads.sieve.generators.shuffles import Shuffle

RANGE32 = FairRemainder(32, Part(0, 32))


class Exact(Bits):
    """``mt_rand()``: the upper 31 bits of a word."""

    kind: ClassVar[str] = "exact"
    parts: ClassVar[tuple[Part, ...]] = (Part(1, 31),)


class MtRange(Range):
    """``mt_rand(min, max)``, both ends included, over at most 2^32 values (a wider range takes two words)."""

    chooser: ClassVar[Chooser] = RANGE32


class MtShuffle(Shuffle):
    """``shuffle($list)``, ``str_shuffle``."""

    chooser: ClassVar[Chooser] = RANGE32


PHP_MT_RAND = Generator(
    "php-mt_rand",
    "PHP 7.1+ mt_srand, mt_rand, rand",
    WORD,
    mersenne.GENRAND,
    by_kind(Exact, MtRange, MtShuffle),
    reference="php-src 8.2 ext/random/engine_mt19937.c, random.c: php_random_range32",
    aliases=("php", "php7", "php7.1", "php8"),
    drawn=(-(1 << 63), (1 << 63) - 1),
    seed_notes="taken modulo 2^32",
)
