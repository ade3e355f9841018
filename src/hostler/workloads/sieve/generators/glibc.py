"""glibc's ``rand`` and ``random``: ``srand(seed)``, and the other tables that ``initstate`` sets up.

Reference: glibc 2.36 ``stdlib/random_r.c``: ``__srandom_r``, ``__random_r``, ``__initstate_r``. A table of 128
bytes is the default (TYPE_3), 8, 32, 64 and 256 bytes are TYPE_0, 1, 2 and 4. Seed 0 is seed 1.

TYPE_0 is a linear congruential generator that returns its whole state. In the others each word of 32 bits is the
sum of two earlier ones, and ``random`` returns its upper 31 bits; a state is the last words, the oldest first.
"""

from typing import TypeAlias

from hostler.workloads.sieve.generators.base import WORD, Engine, Generator, Structure
from hostler.workloads.sieve.generators.mappings import plain

MULTIPLIER, INCREMENT, MODULUS = 1103515245, 12345, 1 << 31
INVERSE = pow(MULTIPLIER, -1, MODULUS)
MINSTD = (1 << 31) - 1

State: TypeAlias = tuple[int, ...]


def _first(seed: int) -> int:
    return seed % WORD or 1


def _table(seed: int, degree: int) -> list[int]:
    """The words that ``srandom`` fills a table with: minstd, computed with C's signed division."""
    number = _first(seed)
    word = number - WORD if number >> 31 else number
    table = [word]
    for _ in range(degree - 1):
        high = abs(word) // 127773 * (-1 if word < 0 else 1)
        word = 16807 * (word - high * 127773) - 2836 * high
        word += MINSTD if word < 0 else 0
        table.append(word)
    return [word % WORD for word in table]


def _additive(degree: int, separation: int) -> Engine:
    def seed(number: int) -> State:
        table = _table(number, degree)
        state = (*table[separation:], *table[:separation])
        for _ in range(10 * degree):
            state = step(state)
        return state

    def step(state: State) -> State:
        return (*state[1:], (state[0] + state[degree - separation]) % WORD)

    def back(state: State) -> State:
        return ((state[-1] - state[degree - separation - 1]) % WORD, *state[:-1])

    return Engine(32, seed, step, lambda state: state[-1], back, Structure.ADDITIVE)


def _type0() -> Engine:
    def step(state: int) -> int:
        return (state * MULTIPLIER + INCREMENT) % MODULUS

    def back(state: int) -> int:
        return (state - INCREMENT) * INVERSE % MODULUS

    # The first step drops the seed's highest bit.
    return Engine(31, lambda seed: _first(seed) % MODULUS, step, lambda state: state, back, Structure.POWER_OF_TWO_LCG,
                  states=MODULUS)  # fmt: skip


def _generator(kind: int, size: int, engine: Engine, *aliases: str) -> Generator:
    return Generator(
        "glibc-rand" if kind == 3 else f"glibc-type{kind}",
        "glibc srand, rand, random (TYPE_3)" if kind == 3 else f"glibc random TYPE_{kind}, {size} bytes of initstate",
        WORD,
        engine,
        plain(31) if kind == 0 else plain(31, width=32, shift=1),
        reference="glibc 2.36 stdlib/random_r.c",
        aliases=aliases,
        seed_notes="0 is the same as 1",
    )


GLIBC_RAND = _generator(3, 128, _additive(31, 3), "glibc", "glibc-type3")
GLIBC_TYPES = (
    _generator(0, 8, _type0()),
    _generator(1, 32, _additive(7, 3)),
    _generator(2, 64, _additive(15, 1)),
    _generator(4, 256, _additive(63, 1)),
)
