"""Marsaglia's 32-bit xorshift with the shifts 13, 17, 5; the seed is the first state.

Reference: G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (14), 2003. From seed 0 every output
is 0; it is a seed here like any other.
"""

from hostler.workloads.sieve.generators.base import WORD, Engine, Generator, Structure
from hostler.workloads.sieve.generators.mappings import plain

MASK = WORD - 1


def step(x: int) -> int:
    """One word further."""
    x ^= x << 13 & MASK
    x ^= x >> 17
    return x ^ x << 5 & MASK


def back(x: int) -> int:
    """One word back: each shift undone by shifting on until nothing is left."""
    for shift in (5, 10, 20):
        x ^= x << shift & MASK
    x ^= x >> 17
    for shift in (13, 26):
        x ^= x << shift & MASK
    return x


XORSHIFT32 = Generator(
    "xorshift32",
    "Marsaglia xorshift 13, 17, 5",
    WORD,
    Engine(32, lambda seed: seed, step, lambda state: state, back, Structure.GF2, states=1 << 32),
    plain(32),
    reference="Marsaglia 2003, section 3",
    seed_notes="the first state; from 0 every output is 0",
)
