"""philox4x32-10: four words of 32 bits from a counter, by ten rounds of multiplication.

Reference: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011;
the library Random123. The seed is the key, its lower word first; the counter of 128 bits starts at 0 and grows by 1
for every four words, which come in order.

A state is ``(key, position)``, the position being that of the last word, modulo 2^130.
"""

from typing import TypeAlias

from hostler.workloads.sieve.generators.base import Engine, Generator, Structure
from hostler.workloads.sieve.generators.mappings import plain

MASK = (1 << 32) - 1
POSITIONS = 1 << 130
ROUNDS = 10

State: TypeAlias = tuple[int, int]


def block(counter: tuple[int, int, int, int], key: tuple[int, int]) -> tuple[int, int, int, int]:
    """The four words that belong to a counter, given as four words, and a key of two."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        first, second = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = second >> 32 ^ c1 ^ k0, second & MASK, first >> 32 ^ c3 ^ k1, first & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c0, c1, c2, c3


def word(state: State) -> int:
    """The word at the state's position."""
    key, position = state
    number = position >> 2
    counter = (number & MASK, number >> 32 & MASK, number >> 64 & MASK, number >> 96)
    return block(counter, (key & MASK, key >> 32))[position & 3]


PHILOX = Generator(
    "philox4x32-10",
    "Philox 4x32, 10 rounds",
    1 << 64,
    Engine(
        32,
        lambda seed: (seed, POSITIONS - 1),
        lambda state: (state[0], (state[1] + 1) % POSITIONS),
        word,
        lambda state: (state[0], (state[1] - 1) % POSITIONS),
        Structure.COUNTER,
    ),
    plain(32),
    reference="Salmon et al. 2011; Random123 1.14",
    aliases=("philox",),
    seed_notes="the key, its lower word first; the counter starts at 0",
)
