"""The compiled searches: thousands of seeds side by side through one generator step after another.

These are for MT19937; :mod:`special_light` has those for light generators, :mod:`special_words` says what they take.

The layout is what makes it fast: a block of seeds is a row of lanes that fits the first-level cache, the generator's
step is the outer loop and the lanes the inner one, which LLVM turns into vector instructions. The lanes only sieve: a
lane whose words fit, or which the runtime would have made draw again, is walked word by word with the exact rule.

They serve one alignment of draws that all have to fit; :mod:`generic` serves everything, several times slower.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np

from hostler.workloads.sieve.compiled import inlined, kernel
from hostler.workloads.sieve.kernels.layout import LANES, U32, U64
from hostler.workloads.sieve.kernels.special_light import java, xorshift32
from hostler.workloads.sieve.kernels.special_words import (
    FIRST,
    LAST,
    REJECTS,
    SIGNATURE,
    SKIP,
    blank_row,
    judge,
    keep,
    position,
    row_of,
    sift,
    u32,
    u64,
)

N = 624
M = 397
EARLY = 226  # the last word of MT19937 that needs no twisted word
MT_LANES = 384
FULL_LANES = LANES


# ---- MT19937 ----------------------------------------------------------------------------------------------------


@inlined
def grow(x: np.uint32, i: np.uint32) -> np.uint32:
    """Word ``i`` of ``init_genrand`` from word ``i - 1``."""
    return u32(u32(u32(1812433253) * u32(x ^ u32(x >> u32(30)))) + i)


@inlined
def twist(x: np.uint32, following: np.uint32, far: np.uint32) -> np.uint32:
    y = u32(u32(x & u32(0x80000000)) | u32(following & u32(0x7FFFFFFF)))
    return u32(u32(far ^ u32(y >> u32(1))) ^ u32(u32(u32(0) - u32(y & u32(1))) & u32(0x9908B0DF)))


@inlined
def temper(y: np.uint32) -> np.uint32:
    y = u32(y ^ u32(y >> u32(11)))
    y = u32(y ^ u32(u32(y << u32(7)) & u32(0x9D2C5680)))
    y = u32(y ^ u32(u32(y << u32(15)) & u32(0xEFC60000)))
    return u32(y ^ u32(y >> u32(18)))


@inlined
def _turn(state: U32, lane: int, word: int) -> np.uint32:
    """Make word number ``word`` of one lane in place, its predecessors being made; returns it tempered."""
    i = word % N
    state[i, lane] = twist(state[i, lane], state[(i + 1) % N, lane], state[(i + M) % N, lane])
    return temper(state[i, lane])


@inlined
def _walk(state: U32, lane: int, made: int, at: int, table: U32, rule: U32) -> bool:
    """Whether one lane passes from position ``at`` on, its first ``made`` words being made already.

    With ``at`` > 0 no word was drawn again so far, so the word of that number comes next.
    """
    end = table.shape[0] + position(rule, SKIP)
    word = at
    while 0 <= at < end:
        y = temper(state[word, lane]) if word < made else _turn(state, lane, word)
        at = judge(at, y, table, rule)
        word += 1
    return bool(at == end)


def _php_early(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """PHP, when the lanes test no word beyond 226: only state words 0..LAST+1 and up to 397+LAST are made."""
    first, last = position(rule, FIRST), position(rule, LAST)
    low = np.empty((last + 2, MT_LANES), np.uint32)
    x, y = np.empty(MT_LANES, np.uint32), np.empty(MT_LANES, np.uint32)
    match, again = np.empty(MT_LANES, np.uint32), np.empty(MT_LANES, np.uint32)
    state, blank = np.empty((N, 1), np.uint32), blank_row(table)
    found = 0
    for base in range(0, count, MT_LANES):
        begin = u32(start + u64(base))
        for lane in range(MT_LANES):
            x[lane] = u32(begin + u32(lane))
            low[0, lane] = x[lane]
        for i in range(1, last + 2):
            _grow_all(x, u32(i))
            low[i] = x
        for i in range(last + 2, M + first + 1):
            _grow_all(x, u32(i))
        match[:], again[:] = u32(1), u32(0)
        left = u32(1)
        for at in range(first, last + 1):
            if at > first:
                _grow_all(x, u32(M + at))
            for lane in range(MT_LANES):
                y[lane] = temper(twist(low[at, lane], low[at + 1, lane], x[lane]))
            left = sift(y, match, again, row_of(at, table, rule, blank), rule)
            if left == 0:
                break
        if left:
            for lane in range(min(MT_LANES, count - base)):
                if match[lane] | again[lane]:
                    _seed_one(state, u32(begin + u32(lane)))
                    if _walk(state, 0, 0, 0, table, rule):
                        found = keep(hits, found, u64(start + u64(base + lane)))
    return found


@inlined
def _grow_all(x: U32, i: np.uint32) -> None:
    for lane in range(MT_LANES):
        x[lane] = grow(x[lane], i)


@inlined
def _seed_one(state: U32, seed: np.uint32) -> None:
    state[0, 0] = seed
    for i in range(1, N):
        state[i, 0] = grow(state[i - 1, 0], u32(i))


def _php_full(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """PHP for any word position and any amount of drawing again: the whole state of every lane is made."""
    state, x = np.empty((N, FULL_LANES), np.uint32), np.empty(FULL_LANES, np.uint32)
    found = 0
    for base in range(0, count, FULL_LANES):
        begin = u32(start + u64(base))
        for lane in range(FULL_LANES):
            x[lane] = u32(begin + u32(lane))
            state[0, lane] = x[lane]
        for i in range(1, N):
            for lane in range(FULL_LANES):
                x[lane] = grow(x[lane], u32(i))
                state[i, lane] = x[lane]
        found = _harvest(state, start + u64(base), min(FULL_LANES, count - base), table, rule, hits, found)
    return found


def _python(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """CPython; the interval must not cross a multiple of 2^32, so that the seeds differ in the key's low word only."""
    origin, state = np.empty((N, 1), np.uint32), np.empty((N, FULL_LANES), np.uint32)
    key, second = np.empty(FULL_LANES, np.uint32), np.empty(FULL_LANES, np.uint32)
    x = np.empty(FULL_LANES, np.uint32)
    high = u32(start >> u64(32))
    _seed_one(origin, u32(19650218))
    found = 0
    for base in range(0, count, FULL_LANES):
        begin = u32(start + u64(base))
        for lane in range(FULL_LANES):
            key[lane] = u32(begin + u32(lane))
            # With a key of two words the steps take turns: the second adds its own word and its index.
            second[lane] = u32(high + u32(1)) if high else key[lane]
        seed_by_key(state, origin[:, 0], key, second, x)
        found = _harvest(state, start + u64(base), min(FULL_LANES, count - base), table, rule, hits, found)
    return found


@inlined
def seed_by_key(state: U32, origin: U32, even: U32, odd: U32, x: U32) -> None:
    """``init_by_array`` in all lanes, adding ``even`` in steps 0, 2, 4 ... of the first pass and ``odd`` in the others.

    ``origin`` is what ``init_genrand(19650218)`` makes; ``x`` carries the word made last.
    """
    x[:] = origin[0]
    for i in range(1, N):
        add, fresh = even if i % 2 else odd, origin[i]
        for lane in range(FULL_LANES):
            x[lane] = u32(u32(fresh ^ mix(x[lane], u32(1664525))) + add[lane])
            state[i, lane] = x[lane]
    for lane in range(FULL_LANES):
        x[lane] = u32(u32(state[1, lane] ^ mix(x[lane], u32(1664525))) + odd[lane])
        state[1, lane] = x[lane]
    for i in range(2, N):
        for lane in range(FULL_LANES):
            x[lane] = u32(u32(state[i, lane] ^ mix(x[lane], u32(1566083941))) - u32(i))
            state[i, lane] = x[lane]
    for lane in range(FULL_LANES):
        state[1, lane] = u32(u32(state[1, lane] ^ mix(x[lane], u32(1566083941))) - u32(1))
    state[0, :] = u32(0x80000000)


@inlined
def mix(x: np.uint32, factor: np.uint32) -> np.uint32:
    return u32(u32(x ^ u32(x >> u32(30))) * factor)


@inlined
def _harvest(state: U32, start: np.uint64, count: int, table: U32, rule: U32, hits: U64, found: int) -> int:
    """Test the words of all lanes in place up to position LAST, then walk the lanes that are left."""
    first, last = position(rule, FIRST), position(rule, LAST)
    y, blank = np.empty(FULL_LANES, np.uint32), blank_row(table)
    match, again = np.ones(FULL_LANES, np.uint32), np.zeros(FULL_LANES, np.uint32)
    for at in range(last + 1):
        i = at % N
        _turn_row(state[i], state[(i + 1) % N], state[(i + M) % N], y)
        if at >= first and sift(y, match, again, row_of(at, table, rule, blank), rule) == 0:
            return found
    at = 0 if rule[REJECTS] else last + 1
    for lane in range(count):
        if (match[lane] | again[lane]) and _walk(state, lane, last + 1, at, table, rule):
            found = keep(hits, found, u64(start + u64(lane)))
    return found


@inlined
def _turn_row(here: U32, following: U32, far: U32, y: U32) -> None:
    for lane in range(FULL_LANES):
        word = twist(here[lane], following[lane], far[lane])
        here[lane] = word
        y[lane] = temper(word)


# ---- compiled on first use ----------------------------------------------------------------------------------------

Kernel: TypeAlias = Callable[[int, int, U32, U32, U64], int]

_SOURCES: dict[str, Kernel] = {
    "php-early": _php_early,
    "php-full": _php_full,
    "python": _python,
    "java": java,
    "xorshift32": xorshift32,
}


@cache
def compiled(name: str) -> Kernel:
    """The kernel of this name, compiled for its one signature or taken from numba's cache."""
    return kernel(_SOURCES[name], SIGNATURE)
