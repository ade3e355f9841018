"""MT19937 in plain Python, as M. Matsumoto and T. Nishimura published it (mt19937ar.c, 2002).

PHP's ``mt_rand`` and CPython's ``random`` share the recurrence and the tempering and differ in the seeding.
"""

from collections.abc import Iterator, Sequence

N = 624
M = 397
MASK = 0xFFFFFFFF


def init_genrand(seed: int) -> list[int]:
    """The 624-word state that ``init_genrand(seed)`` makes."""
    state = [seed & MASK]
    for i in range(1, N):
        last = state[-1]
        state.append((1812433253 * (last ^ last >> 30) + i) & MASK)
    return state


def init_by_array(key: Sequence[int]) -> list[int]:
    """The 624-word state that ``init_by_array(key)`` makes; ``key`` has 1 to 624 words of 32 bits."""
    state = init_genrand(19650218)
    i = 1
    for step in range(N):
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


def words(state: list[int]) -> Iterator[int]:
    """The tempered 32-bit outputs that follow ``state``, without end; ``state`` is changed in place."""
    while True:
        for i in range(N):
            mixed = (state[i] & 0x80000000) | (state[(i + 1) % N] & 0x7FFFFFFF)
            state[i] = state[(i + M) % N] ^ mixed >> 1 ^ (0x9908B0DF if mixed & 1 else 0)
            yield _temper(state[i])


def _next(state: list[int], i: int) -> int:
    if i + 1 < N:
        return i + 1
    state[0] = state[N - 1]
    return 1


def _temper(y: int) -> int:
    y ^= y >> 11
    y ^= y << 7 & 0x9D2C5680
    y ^= y << 15 & 0xEFC60000
    return y ^ y >> 18
