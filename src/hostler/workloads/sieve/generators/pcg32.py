"""pcg32: M. O'Neill's PCG XSH RR 64/32, on the stream of its reference implementation's default.

Reference: M. E. O'Neill, "PCG: A family of simple fast space-efficient statistically good algorithms for random
number generation", 2014; pcg-cpp 0.98 ``pcg32(seed)`` (its default stream, ``1442695040888963407``).
``pcg32_srandom(seed, 54)`` of the C library is the generator ``pcg32-54``, the stream of its demonstration
programs.
"""

from typing import TypeAlias

from hostler.workloads.sieve.generators.base import Engine, Generator, Structure
from hostler.workloads.sieve.generators.mappings import plain

MASK = (1 << 64) - 1
MULTIPLIER = 6364136223846793005
INVERSE = pow(MULTIPLIER, -1, 1 << 64)
DEFAULT_INCREMENT = 1442695040888963407

UPPER = 37
"""How many upper bits of a state decide its word."""

State: TypeAlias = int


def word(state: State) -> int:
    """The upper bits shifted into each other, then turned right by the upper 5 bits."""
    mixed = (state ^ state >> 18) >> 27 & 0xFFFFFFFF
    by = state >> 59
    return (mixed >> by | mixed << (32 - by)) & 0xFFFFFFFF


def upper(word: int, by: int) -> int:
    """The upper 37 bits, in their places, of the states with this word that was turned by ``by``."""
    mixed = (word << by | word >> (32 - by)) & 0xFFFFFFFF
    mixed = by << 59 | mixed << 27
    return (mixed ^ mixed >> 18 ^ mixed >> 36) >> 27 << 27


def _engine(increment: int) -> Engine:
    def seed(number: int) -> State:
        return step((number + increment) & MASK)

    def step(state: State) -> State:
        return (state * MULTIPLIER + increment) & MASK

    def back(state: State) -> State:
        return (state - increment) * INVERSE & MASK

    return Engine(32, seed, step, word, back, Structure.OTHER, early=True, states=1 << 64)


def _generator(name: str, title: str, increment: int) -> Generator:
    return Generator(
        name,
        title,
        1 << 64,
        _engine(increment),
        plain(32),
        reference="O'Neill 2014; pcg-cpp 0.98, pcg-c-basic 0.9",
        parameters={"multiplier": MULTIPLIER, "increment": increment, "modulus": 1 << 64},
    )


PCG32 = _generator("pcg32", "PCG XSH RR 64/32, default stream", DEFAULT_INCREMENT)
PCG32_54 = _generator("pcg32-54", "PCG XSH RR 64/32, stream 54", 54 << 1 | 1)
