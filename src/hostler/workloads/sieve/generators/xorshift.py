"""The larger xorshift generators: Marsaglia's with 64 and 128 bits, and Vigna's xorshift64*.

References: G. Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8 (14), 2003 (64 bits: 13, 7, 17; 128
bits in four words: 11, 8, 19); S. Vigna, "An experimental exploration of Marsaglia's xorshift generators,
scrambled", 2016 (xorshift64*: 12, 25, 27, times 0x2545F4914F6CDD1D). The seed is the first state; of 128 bits the
lowest word is Marsaglia's ``x``, the highest ``w``. His own first state is ``MARSAGLIA_128``. Seed 0 gives 0 for
ever.
"""

from typing import TypeAlias

from hostler.workloads.sieve.generators.base import Engine, Generator, Structure
from hostler.workloads.sieve.generators.mappings import plain

MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1
STAR = 0x2545F4914F6CDD1D
UNSTAR = pow(STAR, -1, 1 << 64)
MARSAGLIA_128 = 123456789 | 362436069 << 32 | 521288629 << 64 | 88675123 << 96

Four: TypeAlias = tuple[int, int, int, int]


def left(x: int, shift: int, mask: int = MASK64) -> int:
    """``x ^= x << shift``."""
    return (x ^ x << shift) & mask


def right(x: int, shift: int) -> int:
    """``x ^= x >> shift``."""
    return x ^ x >> shift


def unleft(x: int, shift: int, mask: int = MASK64) -> int:
    """:func:`left` undone."""
    made = x
    while x := x << shift & mask:
        made ^= x
    return made


def unright(x: int, shift: int) -> int:
    """:func:`right` undone."""
    made = x
    while x := x >> shift:
        made ^= x
    return made


def step64(x: int) -> int:
    """Marsaglia's 13, 7, 17."""
    return left(right(left(x, 13), 7), 17)


def back64(x: int) -> int:
    """:func:`step64` undone."""
    return unleft(unright(unleft(x, 17), 7), 13)


def step_star(x: int) -> int:
    """Vigna's 12, 25, 27."""
    return right(left(right(x, 12), 25), 27)


def back_star(x: int) -> int:
    """:func:`step_star` undone."""
    return unright(unleft(unright(x, 27), 25), 12)


def seed128(number: int) -> Four:
    """The four words of a state, the lowest first."""
    return number & MASK32, number >> 32 & MASK32, number >> 64 & MASK32, number >> 96 & MASK32


def step128(state: Four) -> Four:
    """Marsaglia's 11, 8, 19."""
    x, y, z, w = state
    return y, z, w, right(w, 19) ^ right(left(x, 11, MASK32), 8)


def back128(state: Four) -> Four:
    """:func:`step128` undone."""
    y, z, w, made = state
    return unleft(unright(made ^ right(w, 19), 8), 11, MASK32), y, z, w


XORSHIFT64 = Generator(
    "xorshift64",
    "Marsaglia xorshift 13, 7, 17",
    1 << 64,
    Engine(64, lambda seed: seed, step64, lambda state: state, back64, Structure.GF2, states=1 << 64),
    plain(64),
    reference="Marsaglia 2003, section 3",
    seed_notes="the first state",
)
XORSHIFT64STAR = Generator(
    "xorshift64star",
    "Vigna xorshift64*, 12, 25, 27",
    1 << 64,
    Engine(
        64,
        lambda seed: seed,
        step_star,
        lambda state: state * STAR & MASK64,
        back_star,
        Structure.GF2,
        states=1 << 64,
    ),
    plain(64),
    reference="Vigna 2016; vigna.di.unimi.it/xorshift/xorshift64star.c",
    aliases=("xorshift64*",),
    seed_notes="the first state",
)
XORSHIFT128 = Generator(
    "xorshift128",
    "Marsaglia xorshift 11, 8, 19",
    1 << 128,
    Engine(32, seed128, step128, lambda state: state[3], back128, Structure.GF2),
    plain(32),
    reference="Marsaglia 2003, section 4",
    seed_notes="the first state: x, y, z, w from the lowest word up",
)
