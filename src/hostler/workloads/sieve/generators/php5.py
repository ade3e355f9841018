"""PHP 5.2.1 to 7.0: ``mt_srand(seed)`` with ``mt_rand``, and ``srand(seed)`` with ``rand``.

Reference: php-src 5.6 ``ext/standard/rand.c``: ``php_mt_initialize``, ``php_mt_reload`` (whose ``twist`` looks at the
lowest bit of the wrong word), ``RAND_RANGE`` (a 31-bit number scaled as a double, so that some values of a wide range
never come). PHP 7.1 and later have the same behind ``mt_srand(seed, MT_RAND_PHP)``, in ``php_mt_rand_common``.

``rand`` was the C library's: ``srandom`` and ``random``, which on Linux is glibc's TYPE_3, scaled in the same way.
"""

from typing import ClassVar

from hostler.workloads.sieve.generators import mersenne
from hostler.workloads.sieve.generators.base import WORD, Engine, Generator, Structure, by_kind
from hostler.workloads.sieve.generators.choosers import Chooser, Floor
from hostler.workloads.sieve.generators.glibc import GLIBC_RAND
from hostler.workloads.sieve.generators.mappings import Bits, Range
from hostler.workloads.sieve.generators.rules import Part

NUMBER = (Part(1, 31),)


class Exact(Bits):
    """``mt_rand()``, ``rand()``: the upper 31 bits of a word."""

    kind: ClassVar[str] = "exact"
    parts: ClassVar[tuple[Part, ...]] = NUMBER


class ScaledRange(Range):
    """``mt_rand(min, max)``, ``rand(min, max)``, both ends included, scaled as a double."""

    chooser: ClassVar[Chooser] = Floor(32, NUMBER)
    outermost: ClassVar[int] = 1 << 52


PHP5_MT_RAND = Generator(
    "php5-mt_rand",
    "PHP 5.2.1-7.0 mt_rand; MT_RAND_PHP",
    WORD,
    Engine(
        32,
        lambda seed: mersenne.php_state_of(mersenne.init_genrand(seed)),
        mersenne.php_step,
        mersenne.word,
        mersenne.php_back,
        Structure.GF2,
    ),
    by_kind(Exact, ScaledRange),
    reference="php-src 5.6 ext/standard/rand.c: php_mt_reload, RAND_RANGE",
    aliases=("php5", "php7.0", "php-mt_rand-legacy"),
    drawn=(-(1 << 63), (1 << 63) - 1),
    seed_notes="taken modulo 2^32",
)

PHP5_RAND = Generator(
    "php5-rand",
    "PHP 5-7.0 srand, rand on Linux",
    WORD,
    GLIBC_RAND.engine,
    by_kind(Exact, ScaledRange),
    reference="php-src 5.6 ext/standard/rand.c: php_rand, RAND_RANGE; glibc random",
    drawn=(-(1 << 63), (1 << 63) - 1),
    seed_notes="taken modulo 2^32",
)
