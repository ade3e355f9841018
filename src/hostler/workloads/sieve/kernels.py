"""The compiled searches: thousands of seeds side by side through one generator step after another.

Each kernel takes ``(start, count, table, rule, hits)``, searches the seeds ``[start, start + count)``, writes the first
``len(hits)`` survivors to ``hits`` and returns how many there are. ``table`` has one row per word of
the draws (``KNOWN``, ``SHIFT``, ``TARGET``), ``rule`` the constants listed below; :mod:`plan` makes both.

The layout is what makes it fast: a block of seeds is a row of lanes that fits the first-level cache, the generator's
step is the outer loop and the lanes the inner one, which LLVM turns into vector instructions. Numba widens every
32-bit operation to 64 bits, so each intermediate is cast back. The lanes only sieve: a lane whose words fit, or which
the runtime would have made draw again, is walked word by word with the exact rule.

All kernels and their helpers stay in this one file: numba's cache notices a change of the kernel's own file only.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.compiled import inlined, kernel

U32: TypeAlias = npt.NDArray[np.uint32]
U64: TypeAlias = npt.NDArray[np.uint64]

KNOWN, SHIFT, TARGET = range(3)
SKIP, LIMIT, INVERSE, ROTATE, BOUND, FIRST, LAST, REJECTS = range(8)
SIGNATURE = "int64(uint64, int64, uint32[:,::1], uint32[::1], uint64[::1])"

N = 624
M = 397
EARLY = 226  # the last word of MT19937 that needs no twisted word
MT_LANES = 384
FULL_LANES = 64
LIGHT_LANES = 256

u32 = np.uint32
u64 = np.uint64


# ---- what every kernel shares -----------------------------------------------------------------------------------


@inlined
def _fits(v: np.uint32, target: np.uint32, inverse: np.uint32, rotate: np.uint32, bound: np.uint32) -> np.bool_:
    """Whether ``modulus`` divides ``v - target`` modulo 2^32: no false negatives; exact where ``v >= target``.

    ``modulus = odd * 2^rotate``, ``inverse = odd^-1 mod 2^32``, ``bound = (2^32 - 1) // modulus``
    (H. S. Warren, Hacker's Delight, 2nd ed., 10-17).
    """
    z = u32(u32(v - target) * inverse)
    return u32(u32(z >> rotate) | u32(z << u32(u32(u32(32) - rotate) & u32(31)))) <= bound


@inlined
def _judge(at: int, word: np.uint32, table: U32, rule: U32) -> int:
    """The position after ``word`` at position ``at``: unchanged if the word is drawn again, -1 if it excludes the seed."""
    row = max(at - np.int64(rule[SKIP]), 0)
    v = u32(word >> table[row, SHIFT])
    if v > rule[LIMIT]:
        return at
    if at < rule[SKIP] or table[row, KNOWN] == 0:
        return at + 1
    target = table[row, TARGET]
    if v >= target and _fits(v, target, rule[INVERSE], rule[ROTATE], rule[BOUND]):
        return at + 1
    return -1


@inlined
def _sift(words: U32, match: U32, again: U32, row: U32, rule: U32) -> np.uint32:
    """Test one word per lane: ``match`` stays 1 where it fits, ``again`` becomes 1 where it is drawn again.

    Returns 0 when no lane is left.
    """
    shift, target, skip_test = row[SHIFT], row[TARGET], u32(row[KNOWN] == 0)
    limit, inverse, rotate, bound = rule[LIMIT], rule[INVERSE], rule[ROTATE], rule[BOUND]
    left = u32(0)
    for lane in range(words.size):
        v = u32(words[lane] >> shift)
        again[lane] |= u32(match[lane] & u32(v > limit))
        match[lane] &= u32(skip_test | u32(_fits(v, target, inverse, rotate, bound)))
        left |= u32(match[lane] | again[lane])
    return left


@inlined
def _row(at: int, table: U32, rule: U32, blank: U32) -> U32:
    """The table's row for position ``at``; before the first draw a row that only says how words are drawn again."""
    if at < rule[SKIP]:
        return blank
    return table[at - np.int64(rule[SKIP])]


@inlined
def _blank(table: U32) -> U32:
    blank = np.zeros(3, np.uint32)
    blank[SHIFT] = table[0, SHIFT]
    return blank


@inlined
def _keep(hits: U64, found: int, seed: np.uint64) -> int:
    if found < hits.size:
        hits[found] = seed
    return found + 1


# ---- MT19937 ----------------------------------------------------------------------------------------------------


@inlined
def _grow(x: np.uint32, i: np.uint32) -> np.uint32:
    """Word ``i`` of ``init_genrand`` from word ``i - 1``."""
    return u32(u32(u32(1812433253) * u32(x ^ u32(x >> u32(30)))) + i)


@inlined
def _twist(x: np.uint32, following: np.uint32, far: np.uint32) -> np.uint32:
    y = u32(u32(x & u32(0x80000000)) | u32(following & u32(0x7FFFFFFF)))
    return u32(u32(far ^ u32(y >> u32(1))) ^ u32(u32(u32(0) - u32(y & u32(1))) & u32(0x9908B0DF)))


@inlined
def _temper(y: np.uint32) -> np.uint32:
    y = u32(y ^ u32(y >> u32(11)))
    y = u32(y ^ u32(u32(y << u32(7)) & u32(0x9D2C5680)))
    y = u32(y ^ u32(u32(y << u32(15)) & u32(0xEFC60000)))
    return u32(y ^ u32(y >> u32(18)))


@inlined
def _turn(state: U32, lanes: int, lane: int, word: int) -> np.uint32:
    """Make word number ``word`` of one lane in place, its predecessors being made; returns it tempered."""
    i = word % N
    here = i * lanes + lane
    far = state[(i + M) % N * lanes + lane]
    state[here] = _twist(state[here], state[(i + 1) % N * lanes + lane], far)
    return _temper(state[here])


@inlined
def _walk(state: U32, lanes: int, lane: int, made: int, at: int, table: U32, rule: U32) -> bool:
    """Whether one lane passes from position ``at`` on, its first ``made`` words being made already.

    With ``at`` > 0 no word was drawn again so far, so the word of that number comes next.
    """
    end = table.shape[0] + np.int64(rule[SKIP])
    word = at
    while 0 <= at < end:
        y = _temper(state[word * lanes + lane]) if word < made else _turn(state, lanes, lane, word)
        at = _judge(at, y, table, rule)
        word += 1
    return at == end


def _php_early(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """PHP, when all words the lanes test come before word 227: only state words 0..LAST+1 and 397..397+LAST are made."""
    first, last = np.int64(rule[FIRST]), np.int64(rule[LAST])
    low = np.empty((last + 2, MT_LANES), np.uint32)
    x, y = np.empty(MT_LANES, np.uint32), np.empty(MT_LANES, np.uint32)
    match, again = np.empty(MT_LANES, np.uint32), np.empty(MT_LANES, np.uint32)
    state, blank = np.empty(N, np.uint32), _blank(table)
    found = 0
    for base in range(0, count, MT_LANES):
        begin = u32(start + u64(base))
        for lane in range(MT_LANES):
            x[lane] = u32(begin + u32(lane))
            low[0, lane] = x[lane]
        for i in range(1, M + first + 1):
            _grow_all(x, u32(i))
            if i < last + 2:
                low[i] = x
        match[:], again[:] = u32(1), u32(0)
        left = u32(1)
        for at in range(first, last + 1):
            if at > first:
                _grow_all(x, u32(M + at))
            for lane in range(MT_LANES):
                y[lane] = _temper(_twist(low[at, lane], low[at + 1, lane], x[lane]))
            left = _sift(y, match, again, _row(at, table, rule, blank), rule)
            if left == 0:
                break
        if left:
            for lane in range(min(MT_LANES, count - base)):
                if match[lane] | again[lane]:
                    _seed_one(state, u32(begin + u32(lane)))
                    if _walk(state, 1, 0, 0, 0, table, rule):
                        found = _keep(hits, found, u64(start + u64(base + lane)))
    return found


@inlined
def _grow_all(x: U32, i: np.uint32) -> None:
    for lane in range(MT_LANES):
        x[lane] = _grow(x[lane], i)


@inlined
def _seed_one(state: U32, seed: np.uint32) -> None:
    state[0] = seed
    for i in range(1, N):
        state[i] = _grow(state[i - 1], u32(i))


def _php_full(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """PHP for any word position and any amount of drawing again: the whole state of every lane is made."""
    state = np.empty(N * FULL_LANES, np.uint32)
    found = 0
    for base in range(0, count, FULL_LANES):
        begin = u32(start + u64(base))
        for lane in range(FULL_LANES):
            state[lane] = u32(begin + u32(lane))
        for i in range(1, N):
            here = i * FULL_LANES
            for lane in range(FULL_LANES):
                state[here + lane] = _grow(state[here - FULL_LANES + lane], u32(i))
        found = _harvest(state, start + u64(base), min(FULL_LANES, count - base), table, rule, hits, found)
    return found


def _python(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """CPython; the interval must not cross a multiple of 2^32, so that the seeds differ in the key's low word only."""
    origin, state = np.empty(N, np.uint32), np.empty(N * FULL_LANES, np.uint32)
    key = np.empty(FULL_LANES, np.uint32)
    high = u32(start >> u64(32))
    _seed_one(origin, u32(19650218))
    found = 0
    for base in range(0, count, FULL_LANES):
        begin = u32(start + u64(base))
        for lane in range(FULL_LANES):
            key[lane] = u32(begin + u32(lane))
        _seed_by_key(state, origin, key, high)
        found = _harvest(state, start + u64(base), min(FULL_LANES, count - base), table, rule, hits, found)
    return found


@inlined
def _seed_by_key(state: U32, origin: U32, key: U32, high: np.uint32) -> None:
    """``init_by_array`` in all lanes with the keys ``[key]``, or ``[key, high]`` where ``high`` is not 0."""
    for lane in range(FULL_LANES):
        state[lane] = origin[0]
    for i in range(1, N):
        here = i * FULL_LANES
        second = high != 0 and i % 2 == 0  # step i - 1 takes key word (i - 1) % length
        use, add = (u32(0), u32(high + u32(1))) if second else (u32(0xFFFFFFFF), u32(0))
        for lane in range(FULL_LANES):
            mixed = u32(origin[i] ^ _mix(state[here - FULL_LANES + lane], u32(1664525)))
            state[here + lane] = u32(u32(mixed + u32(key[lane] & use)) + add)
    end = (N - 1) * FULL_LANES
    for lane in range(FULL_LANES):
        mixed = u32(state[FULL_LANES + lane] ^ _mix(state[end + lane], u32(1664525)))
        add = key[lane] if high == 0 else u32(high + u32(1))  # step 623 is odd
        state[FULL_LANES + lane] = u32(mixed + add)
    for i in range(2, N):
        here = i * FULL_LANES
        for lane in range(FULL_LANES):
            mixed = u32(state[here + lane] ^ _mix(state[here - FULL_LANES + lane], u32(1566083941)))
            state[here + lane] = u32(mixed - u32(i))
    for lane in range(FULL_LANES):
        mixed = u32(state[FULL_LANES + lane] ^ _mix(state[end + lane], u32(1566083941)))
        state[FULL_LANES + lane] = u32(mixed - u32(1))
        state[lane] = u32(0x80000000)


@inlined
def _mix(x: np.uint32, factor: np.uint32) -> np.uint32:
    return u32(u32(x ^ u32(x >> u32(30))) * factor)


@inlined
def _harvest(state: U32, start: np.uint64, count: int, table: U32, rule: U32, hits: U64, found: int) -> int:
    """Test the words of all lanes in place up to position LAST, then walk the lanes that are left."""
    first, last = np.int64(rule[FIRST]), np.int64(rule[LAST])
    y, blank = np.empty(FULL_LANES, np.uint32), _blank(table)
    match, again = np.ones(FULL_LANES, np.uint32), np.zeros(FULL_LANES, np.uint32)
    for at in range(last + 1):
        _turn_all(state, at % N, y)
        if at >= first and _sift(y, match, again, _row(at, table, rule, blank), rule) == 0:
            return found
    at = 0 if rule[REJECTS] else last + 1
    for lane in range(count):
        if (match[lane] | again[lane]) and _walk(state, FULL_LANES, lane, last + 1, at, table, rule):
            found = _keep(hits, found, u64(start + u64(lane)))
    return found


@inlined
def _turn_all(state: U32, i: int, y: U32) -> None:
    here, following, far = i * FULL_LANES, (i + 1) % N * FULL_LANES, (i + M) % N * FULL_LANES
    for lane in range(FULL_LANES):
        word = _twist(state[here + lane], state[following + lane], state[far + lane])
        state[here + lane] = word
        y[lane] = _temper(word)


# ---- the light generators: aligned blocks, whose lanes follow from one scalar state ---------------------------------

JAVA_A, JAVA_C = u64(0x5DEECE66D), u64(11 << 16)


def _java(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """Java; the 48-bit state stands in the upper bits of 64, so that overflow is the modulus.

    The seeds of an aligned block scramble to consecutive states, whose successors are equally spaced.
    """
    first, last, stop = np.int64(rule[FIRST]), np.int64(rule[LAST]), start + u64(count)
    flags = np.empty(LIGHT_LANES, np.uint32)
    swap = JAVA_A & u64(LIGHT_LANES - 1)
    factor, term = u64(1), u64(0)
    for _ in range(first + 1):
        factor, term = JAVA_A * factor, JAVA_A * term + JAVA_C
    found = 0
    for block in range(start // u64(LIGHT_LANES), (stop + u64(LIGHT_LANES - 1)) // u64(LIGHT_LANES)):
        seed = u64(block) * u64(LIGHT_LANES)
        origin = ((seed ^ JAVA_A) - ((seed ^ JAVA_A) & u64(LIGHT_LANES - 1))) << u64(16)
        x, stride = factor * origin + term, factor << u64(16)
        flags[:] = u32(0)
        for _ in range(first, last):
            _flag_redraws(x, stride, flags, table[0, SHIFT], rule[LIMIT])
            x, stride = JAVA_A * x + JAVA_C, JAVA_A * stride
        if _flag_line(x, stride, flags, _draw_row(last, table, rule), rule):
            for lane in range(LIGHT_LANES):
                candidate = seed + (u64(lane) ^ swap)
                if flags[lane] and start <= candidate < stop and _java_passes(candidate, table, rule):
                    found = _keep(hits, found, candidate)
    return found


@inlined
def _flag_redraws(x: np.uint64, stride: np.uint64, flags: U32, shift: np.uint32, limit: np.uint32) -> None:
    for lane in range(LIGHT_LANES):
        v = u32(u32((x + u64(lane) * stride) >> u64(32)) >> shift)
        flags[lane] |= u32(v > limit)


@inlined
def _flag_line(x: np.uint64, stride: np.uint64, flags: U32, row: U32, rule: U32) -> np.uint32:
    """Flag the lanes whose word fits or is drawn again, where the lanes' states are equally spaced."""
    shift, target, limit = row[SHIFT], row[TARGET], rule[LIMIT]
    inverse, rotate, bound = rule[INVERSE], rule[ROTATE], rule[BOUND]
    left = u32(0)
    for lane in range(LIGHT_LANES):
        v = u32(u32((x + u64(lane) * stride) >> u64(32)) >> shift)
        flags[lane] |= u32(_fits(v, target, inverse, rotate, bound) | (v > limit))
        left |= flags[lane]
    return left


@inlined
def _draw_row(at: int, table: U32, rule: U32) -> U32:
    return table[at - np.int64(rule[SKIP])]


@inlined
def _java_passes(seed: np.uint64, table: U32, rule: U32) -> bool:
    x = (seed ^ JAVA_A) << u64(16)
    end = table.shape[0] + np.int64(rule[SKIP])
    at = 0
    while 0 <= at < end:
        x = JAVA_A * x + JAVA_C
        at = _judge(at, u32(x >> u64(32)), table, rule)
    return at == end


def _xorshift32(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """xorshift32; a step is linear over GF(2), so the lanes' words are the block's word XOR those of the lane numbers."""
    last, stop = np.int64(rule[LAST]), start + u64(count)
    flags, lanes = np.empty(LIGHT_LANES, np.uint32), np.empty(LIGHT_LANES, np.uint32)
    for lane in range(LIGHT_LANES):
        lanes[lane] = _xorshift_word(u32(lane), last)
    found = 0
    for block in range(start // u64(LIGHT_LANES), (stop + u64(LIGHT_LANES - 1)) // u64(LIGHT_LANES)):
        seed = u64(block) * u64(LIGHT_LANES)
        if _flag_linear(_xorshift_word(u32(seed), last), lanes, flags, _draw_row(last, table, rule), rule):
            for lane in range(LIGHT_LANES):
                candidate = seed + u64(lane)
                if flags[lane] and start <= candidate < stop and _xorshift_passes(u32(candidate), table, rule):
                    found = _keep(hits, found, candidate)
    return found


@inlined
def _flag_linear(word: np.uint32, lanes: U32, flags: U32, row: U32, rule: U32) -> np.uint32:
    shift, target = row[SHIFT], row[TARGET]
    inverse, rotate, bound = rule[INVERSE], rule[ROTATE], rule[BOUND]
    left = u32(0)
    for lane in range(LIGHT_LANES):
        flags[lane] = u32(_fits(u32(u32(word ^ lanes[lane]) >> shift), target, inverse, rotate, bound))
        left |= flags[lane]
    return left


@inlined
def _xorshift_word(x: np.uint32, at: int) -> np.uint32:
    for _ in range(at + 1):
        x = _xorshift(x)
    return x


@inlined
def _xorshift(x: np.uint32) -> np.uint32:
    x = u32(x ^ u32(x << u32(13)))
    x = u32(x ^ u32(x >> u32(17)))
    return u32(x ^ u32(x << u32(5)))


@inlined
def _xorshift_passes(x: np.uint32, table: U32, rule: U32) -> bool:
    end = table.shape[0] + np.int64(rule[SKIP])
    at = 0
    while 0 <= at < end:
        x = _xorshift(x)
        at = _judge(at, x, table, rule)
    return at == end


# ---- compiled on first use ----------------------------------------------------------------------------------------

Kernel: TypeAlias = Callable[[int, int, U32, U32, U64], int]

_SOURCES: dict[str, Kernel] = {
    "php-early": _php_early,
    "php-full": _php_full,
    "python": _python,
    "java": _java,
    "xorshift32": _xorshift32,
}


@cache
def compiled(name: str) -> Kernel:
    """The kernel of this name, compiled for its one signature or taken from numba's cache."""
    return kernel(_SOURCES[name], SIGNATURE)
