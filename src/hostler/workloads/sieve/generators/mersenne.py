"""MT19937 in plain Python, as M. Matsumoto and T. Nishimura published it (mt19937ar.c, 2002).

PHP, CPython, Ruby and numpy's ``RandomState`` share the recurrence and the tempering and differ in the seeding; PHP
before 7.1 has its own mistake in the recurrence.

A state is a tuple of the last 624 words, untempered, the oldest first. Of the oldest only the bits that later words
depend on are kept: the highest one, or in PHP's old variant the highest and the lowest. That makes the step a
bijection of 19937 (19938) bits.
"""

from collections.abc import Sequence
from typing import TypeAlias

from hostler.workloads.sieve.generators.base import Engine, Structure

N = 624
M = 397
MASK = 0xFFFFFFFF
UPPER, LOWER = 0x80000000, 0x7FFFFFFF
MATRIX = 0x9908B0DF

State: TypeAlias = tuple[int, ...]


def init_genrand(seed: int) -> list[int]:
    """The 624-word state that ``init_genrand(seed)`` makes."""
    state = [seed & MASK]
    for i in range(1, N):
        last = state[-1]
        state.append((1812433253 * (last ^ last >> 30) + i) & MASK)
    return state


def init_by_array(key: Sequence[int]) -> list[int]:
    """The 624-word state that ``init_by_array(key)`` makes; ``key`` has one word of 32 bits or more."""
    state = init_genrand(19650218)
    i = 1
    for step in range(max(N, len(key))):
        j = step % len(key)
        last = state[i - 1]
        state[i] = ((state[i] ^ (last ^ last >> 30) * 1664525) + key[j] + j) & MASK
        i = _next(state, i)
    for _ in range(N - 1):
        last = state[i - 1]
        state[i] = ((state[i] ^ (last ^ last >> 30) * 1566083941) - i) & MASK
        i = _next(state, i)
    state[0] = 0x80000000
    return state


def key_of(seed: int) -> list[int]:
    """A number that is not negative as words of 32 bits, the lowest first; at least one."""
    key = [seed & MASK]
    while seed := seed >> 32:
        key.append(seed & MASK)
    return key


def state_of(words: Sequence[int]) -> State:
    """The state of MT19937 before the first output of a freshly seeded array of 624 words."""
    return (words[0] & UPPER, *words[1:])


def step(state: State) -> State:
    """One word further."""
    mixed = state[0] & UPPER | state[1] & LOWER
    made = state[M] ^ mixed >> 1 ^ (MATRIX if mixed & 1 else 0)
    return (state[1] & UPPER, *state[2:], made)


def back(state: State) -> State:
    """One word back."""
    mixed = _unmixed(state)
    return (mixed & UPPER, state[0] & UPPER | mixed & LOWER, *state[1:-1])


def word(state: State) -> int:
    """The output that belongs to the youngest word."""
    return temper(state[-1])


def php_state_of(words: Sequence[int]) -> State:
    """As :func:`state_of`, for PHP's old variant."""
    return (words[0] & (UPPER | 1), *words[1:])


def php_step(state: State) -> State:
    """One word further in PHP 5.2.1 to 7.0, where the lowest bit of the wrong word decides."""
    mixed = state[0] & UPPER | state[1] & LOWER
    made = state[M] ^ mixed >> 1 ^ (MATRIX if state[0] & 1 else 0)
    return (state[1] & (UPPER | 1), *state[2:], made)


def php_back(state: State) -> State:
    """One word back in PHP's old variant."""
    mixed = _unmixed(state)
    second = state[0] & UPPER | mixed & LOWER & ~1 | state[0] & 1
    return (mixed & (UPPER | 1), second, *state[1:-1])


def temper(y: int) -> int:
    """The output made of one word of the recurrence."""
    y ^= y >> 11
    y ^= y << 7 & 0x9D2C5680
    y ^= y << 15 & 0xEFC60000
    return y ^ y >> 18


def _unmixed(state: State) -> int:
    """What was shifted into the youngest word, its lowest bit being the one that decided on the matrix."""
    shifted = state[-1] ^ state[M - 1]
    # A shifted word has no highest bit of its own, and the matrix has one.
    return (shifted ^ MATRIX) << 1 & MASK | 1 if shifted & UPPER else shifted << 1


def _next(state: list[int], i: int) -> int:
    if i + 1 < N:
        return i + 1
    state[0] = state[N - 1]
    return 1


GENRAND = Engine(32, lambda seed: state_of(init_genrand(seed)), step, word, back, Structure.GF2)
"""Seeded by one word of 32 bits."""
