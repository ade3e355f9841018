"""The compiled searches: thousands of seeds side by side through one generator step after another.

Each kernel takes ``(start, count, table, rule, hits)``, searches the seeds ``[start, start + count)``, writes the first
``len(hits)`` survivors to ``hits`` and returns how many there are. ``table`` has one row per word of
the draws (``KNOWN``, ``SHIFT``, ``TARGET``), ``rule`` the constants listed below; :mod:`plan` makes both.

The layout is what makes it fast: a block of seeds is a row of lanes that fits the first-level cache, the generator's
step is the outer loop and the lanes the inner one, which LLVM turns into vector instructions. Numba widens every
32-bit operation to 64 bits, so each intermediate is cast back. The lanes only sieve: a lane whose words fit, or which
the runtime would have made draw again, is walked word by word with the exact rule. The light generators look first
whether any lane of a block fits, which stores nothing, and only then which.

They serve one alignment of draws that all have to fit; :mod:`generic` serves everything, several times slower.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np

from hostler.workloads.sieve.compiled import inlined, kernel
from hostler.workloads.sieve.kernels.layout import LANES, U32, U64

KNOWN, SHIFT, TARGET = range(3)
SKIP, LIMIT, INVERSE, ROTATE, BOUND, FIRST, LAST, REJECTS = range(8)
SIGNATURE = "int64(uint64, int64, uint32[:,::1], uint32[::1], uint64[::1])"

N = 624
M = 397
EARLY = 226  # the last word of MT19937 that needs no twisted word
MT_LANES = 384
FULL_LANES = LANES
LIGHT_LANES = 64

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
    return u32(_right(z, rotate) | u32(z << u32(u32(u32(32) - rotate) & u32(31)))) <= bound


@inlined
def _right(x: np.uint32, shift: np.uint32) -> np.uint32:
    """``x >> shift`` for shifts below 32; the mask lets LLVM keep it a 32-bit operation."""
    return u32(x >> u32(shift & u32(31)))


@inlined
def _position(rule: U32, which: int) -> int:
    return int(np.int64(rule[which]))


@inlined
def _judge(at: int, word: np.uint32, table: U32, rule: U32) -> int:
    """The position after ``word`` at position ``at``: ``at`` if it is drawn again, -1 if it excludes the seed."""
    row = max(at - _position(rule, SKIP), 0)
    v = _right(word, table[row, SHIFT])
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
    """Test one word per lane, exactly: ``match`` stays 1 where it fits, ``again`` becomes 1 where it is drawn again.

    Returns 0 when no lane is left.
    """
    shift, target, skip_test = row[SHIFT], row[TARGET], u32(row[KNOWN] == 0)
    limit, inverse, rotate, bound = rule[LIMIT], rule[INVERSE], rule[ROTATE], rule[BOUND]
    left = u32(0)
    for lane in range(words.size):
        v = _right(words[lane], shift)
        again[lane] |= u32(match[lane] & u32(v > limit))
        match[lane] &= u32(skip_test | u32(u32(_fits(v, target, inverse, rotate, bound)) & u32(v >= target)))
        left = u32(left | u32(match[lane] | again[lane]))
    return left


@inlined
def _row(at: int, table: U32, rule: U32, blank: U32) -> U32:
    """The table's row for position ``at``; before the first draw a row that only says how words are drawn again."""
    if at < rule[SKIP]:
        return blank
    row: U32 = table[at - _position(rule, SKIP)]
    return row


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
    end = table.shape[0] + _position(rule, SKIP)
    word = at
    while 0 <= at < end:
        y = temper(state[word, lane]) if word < made else _turn(state, lane, word)
        at = _judge(at, y, table, rule)
        word += 1
    return bool(at == end)


def _php_early(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """PHP, when the lanes test no word beyond 226: only state words 0..LAST+1 and up to 397+LAST are made."""
    first, last = _position(rule, FIRST), _position(rule, LAST)
    low = np.empty((last + 2, MT_LANES), np.uint32)
    x, y = np.empty(MT_LANES, np.uint32), np.empty(MT_LANES, np.uint32)
    match, again = np.empty(MT_LANES, np.uint32), np.empty(MT_LANES, np.uint32)
    state, blank = np.empty((N, 1), np.uint32), _blank(table)
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
            left = _sift(y, match, again, _row(at, table, rule, blank), rule)
            if left == 0:
                break
        if left:
            for lane in range(min(MT_LANES, count - base)):
                if match[lane] | again[lane]:
                    _seed_one(state, u32(begin + u32(lane)))
                    if _walk(state, 0, 0, 0, table, rule):
                        found = _keep(hits, found, u64(start + u64(base + lane)))
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
    first, last = _position(rule, FIRST), _position(rule, LAST)
    y, blank = np.empty(FULL_LANES, np.uint32), _blank(table)
    match, again = np.ones(FULL_LANES, np.uint32), np.zeros(FULL_LANES, np.uint32)
    for at in range(last + 1):
        i = at % N
        _turn_row(state[i], state[(i + 1) % N], state[(i + M) % N], y)
        if at >= first and _sift(y, match, again, _row(at, table, rule, blank), rule) == 0:
            return found
    at = 0 if rule[REJECTS] else last + 1
    for lane in range(count):
        if (match[lane] | again[lane]) and _walk(state, lane, last + 1, at, table, rule):
            found = _keep(hits, found, u64(start + u64(lane)))
    return found


@inlined
def _turn_row(here: U32, following: U32, far: U32, y: U32) -> None:
    for lane in range(FULL_LANES):
        word = twist(here[lane], following[lane], far[lane])
        here[lane] = word
        y[lane] = temper(word)


# ---- the light generators: aligned blocks, whose lanes follow from one scalar state ---------------------------------

JAVA_A, JAVA_C = u64(0x5DEECE66D), u64(11 << 16)


def _java(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """Java; the 48-bit state stands in the upper bits of 64, so that overflow is the modulus.

    The seeds of an aligned block scramble to consecutive states, whose successors are equally spaced.
    """
    first, last, stop = _position(rule, FIRST), _position(rule, LAST), start + u64(count)
    flags, row = np.empty(LIGHT_LANES, np.uint32), _draw_row(last, table, rule)
    swap = JAVA_A & u64(LIGHT_LANES - 1)
    factor, term = u64(1), u64(0)
    for _ in range(first + 1):
        factor, term = JAVA_A * factor, JAVA_A * term + JAVA_C
    steps = _steps(factor << u64(16))
    found = 0
    for block in range(start // u64(LIGHT_LANES), (stop + u64(LIGHT_LANES - 1)) // u64(LIGHT_LANES)):
        seed = u64(block) * u64(LIGHT_LANES)
        origin = ((seed ^ JAVA_A) - ((seed ^ JAVA_A) & u64(LIGHT_LANES - 1))) << u64(16)
        x, stride = factor * origin + term, factor << u64(16)
        if first == last and not _any_in_line(x, steps, row, rule):
            continue
        flags[:] = u32(0)
        for _ in range(first, last):
            _flag_redraws(x, stride, flags, table[0, SHIFT], rule[LIMIT])
            x, stride = JAVA_A * x + JAVA_C, JAVA_A * stride
        if _flag_line(x, stride, flags, row, rule):
            for lane in range(LIGHT_LANES):
                candidate = seed + (u64(lane) ^ swap)
                if flags[lane] and start <= candidate < stop and _java_passes(candidate, table, rule):
                    found = _keep(hits, found, candidate)
    return found


@inlined
def _steps(stride: np.uint64) -> U32:
    """How much further each lane is than the first, as lower and upper halves."""
    steps = np.empty((2, LIGHT_LANES), np.uint32)
    for lane in range(LIGHT_LANES):
        steps[0, lane], steps[1, lane] = u32(stride * u64(lane)), u32(stride * u64(lane) >> u64(32))
    return steps


@inlined
def _any_in_line(x: np.uint64, steps: U32, row: U32, rule: U32) -> np.uint32:
    """Whether :func:`_flag_line` would flag a lane: in halves, and with nothing stored, it is several times faster."""
    shift, target, limit = row[SHIFT], row[TARGET], rule[LIMIT]
    inverse, rotate, bound = rule[INVERSE], rule[ROTATE], rule[BOUND]
    lower, upper = u32(x), u32(x >> u64(32))
    left = u32(0)
    for lane in range(LIGHT_LANES):
        carry = u32(u32(lower + steps[0, lane]) < lower)
        v = _right(u32(u32(upper + steps[1, lane]) + carry), shift)
        left = u32(left | u32(_fits(v, target, inverse, rotate, bound) | (v > limit)))
    return left


@inlined
def _flag_redraws(x: np.uint64, stride: np.uint64, flags: U32, shift: np.uint32, limit: np.uint32) -> None:
    for lane in range(LIGHT_LANES):
        v = _right(u32(x >> u64(32)), shift)
        x += stride
        flags[lane] |= u32(v > limit)


@inlined
def _flag_line(x: np.uint64, stride: np.uint64, flags: U32, row: U32, rule: U32) -> np.uint32:
    """Flag the lanes whose word fits or is drawn again, where the lanes' states are equally spaced."""
    shift, target, limit = row[SHIFT], row[TARGET], rule[LIMIT]
    inverse, rotate, bound = rule[INVERSE], rule[ROTATE], rule[BOUND]
    left = u32(0)
    for lane in range(LIGHT_LANES):
        v = _right(u32(x >> u64(32)), shift)
        x += stride
        flags[lane] |= u32(_fits(v, target, inverse, rotate, bound) | (v > limit))
        left = u32(left | flags[lane])
    return left


@inlined
def _draw_row(at: int, table: U32, rule: U32) -> U32:
    row: U32 = table[at - _position(rule, SKIP)]
    return row


@inlined
def _java_passes(seed: np.uint64, table: U32, rule: U32) -> bool:
    x = (seed ^ JAVA_A) << u64(16)
    end = table.shape[0] + _position(rule, SKIP)
    at = 0
    while 0 <= at < end:
        x = JAVA_A * x + JAVA_C
        at = _judge(at, u32(x >> u64(32)), table, rule)
    return bool(at == end)


def _xorshift32(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """xorshift32; steps are linear over GF(2): a lane's word is the block's word XOR that of the lane's number.

    For the same reason the word of the next block differs by that of the bits that change in the block's number.
    """
    last, stop = _position(rule, LAST), start + u64(count)
    flags, lanes, changes = np.empty(LIGHT_LANES, np.uint32), np.empty(LIGHT_LANES, np.uint32), np.empty(32, np.uint32)
    for lane in range(LIGHT_LANES):
        lanes[lane] = _xorshift_word(u32(lane), last)
    for ones in range(32):
        changes[ones] = _xorshift_word(u32((u64(LIGHT_LANES) << u64(ones + 1)) - u64(LIGHT_LANES)), last)
    word = _xorshift_word(u32(start - start % u64(LIGHT_LANES)), last)
    row = _draw_row(last, table, rule)
    found = 0
    for block in range(start // u64(LIGHT_LANES), (stop + u64(LIGHT_LANES - 1)) // u64(LIGHT_LANES)):
        if _any_linear(word, lanes, row, rule):
            _flag_linear(word, lanes, flags, row, rule)
            for lane in range(LIGHT_LANES):
                candidate = u64(block) * u64(LIGHT_LANES) + u64(lane)
                if (
                    flags[lane]
                    and start <= candidate < stop
                    and _xorshift_passes(word ^ lanes[lane], last, table, rule)
                ):
                    found = _keep(hits, found, candidate)
        word = u32(word ^ changes[_trailing_ones(u64(block))])
    return found


@inlined
def _trailing_ones(number: np.uint64) -> int:
    ones = 0
    while number & u64(1):
        number >>= u64(1)
        ones += 1
    return ones


@inlined
def _any_linear(word: np.uint32, lanes: U32, row: U32, rule: U32) -> np.uint32:
    """Whether :func:`_flag_linear` would flag a lane."""
    shift, target = row[SHIFT], row[TARGET]
    inverse, rotate, bound = rule[INVERSE], rule[ROTATE], rule[BOUND]
    left = u32(0)
    for lane in range(LIGHT_LANES):
        left = u32(left | u32(_fits(_right(u32(word ^ lanes[lane]), shift), target, inverse, rotate, bound)))
    return left


@inlined
def _flag_linear(word: np.uint32, lanes: U32, flags: U32, row: U32, rule: U32) -> None:
    shift, target = row[SHIFT], row[TARGET]
    inverse, rotate, bound = rule[INVERSE], rule[ROTATE], rule[BOUND]
    for lane in range(LIGHT_LANES):
        flags[lane] = u32(_fits(_right(u32(word ^ lanes[lane]), shift), target, inverse, rotate, bound))


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
def _xorshift_passes(x: np.uint32, at: int, table: U32, rule: U32) -> bool:
    """Whether the words pass from position ``at`` on, whose word is ``x``."""
    end = table.shape[0] + _position(rule, SKIP)
    while 0 <= at < end:
        at = _judge(at, u32(x), table, rule)
        x = _xorshift(u32(x))
    return bool(at == end)


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
