"""splitmix64: a counter with Weyl's increment, mixed; it also seeds the xoshiro family.

References: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", 2014; S. Vigna's
splitmix64.c (prng.di.unimi.it); Java's ``new SplittableRandom(seed).nextLong()`` gives the same words.
"""

from hostler.workloads.sieve.generators.base import Engine, Generator, Structure
from hostler.workloads.sieve.generators.mappings import plain

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
UNFIRST, UNSECOND = pow(FIRST, -1, 1 << 64), pow(SECOND, -1, 1 << 64)


def step(state: int) -> int:
    """One word further."""
    return (state + GAMMA) & MASK


def back(state: int) -> int:
    """One word back."""
    return (state - GAMMA) & MASK


def word(state: int) -> int:
    """D. Stafford's variant 13 of MurmurHash3's finaliser."""
    z = (state ^ state >> 30) * FIRST & MASK
    z = (z ^ z >> 27) * SECOND & MASK
    return z ^ z >> 31


def unword(word: int) -> int:
    """The one state whose word it is: :func:`word` undone."""
    z = (word ^ word >> 31 ^ word >> 62) * UNSECOND & MASK
    z = (z ^ z >> 27 ^ z >> 54) * UNFIRST & MASK
    return z ^ z >> 30 ^ z >> 60


def first(seed: int, count: int) -> tuple[int, ...]:
    """The first ``count`` words of ``seed``."""
    return tuple(word((seed + GAMMA * (i + 1)) & MASK) for i in range(count))


SPLITMIX64 = Generator(
    "splitmix64",
    "splitmix64, Java SplittableRandom",
    1 << 64,
    Engine(64, lambda seed: seed & MASK, step, word, back, Structure.COUNTER, states=1 << 64),
    plain(64),
    reference="Steele, Lea, Flood 2014; prng.di.unimi.it/splitmix64.c",
    seed_notes="the counter",
)
