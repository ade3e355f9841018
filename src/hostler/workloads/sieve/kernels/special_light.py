"""The searches of generators of few operations: aligned blocks, whose lanes follow from one scalar state.

Nearly all blocks hold no lane that fits, so they are only asked whether they do: nothing is stored, and what a block
costs besides its lanes counts as much as they do. A block that has one tells which in a second pass.
"""

from typing import TypeAlias

import numpy as np

from hostler.workloads.sieve.compiled import inlined, trailing_zeros
from hostler.workloads.sieve.kernels.layout import U32, U64
from hostler.workloads.sieve.kernels.special_words import (
    BOUND,
    FIRST,
    INVERSE,
    LAST,
    LIMIT,
    ROTATE,
    SHIFT,
    SKIP,
    TARGET,
    fits,
    judge,
    keep,
    position,
    right,
    u32,
    u64,
)

LANES = 64  # so that which of them fit is one machine word
MASK = u64(LANES - 1)

Test: TypeAlias = tuple[np.uint32, np.uint32, np.uint32, np.uint32, np.uint32, np.uint32]


@inlined
def _test(at: int, table: U32, rule: U32) -> Test:
    """The constants that the word at position ``at`` is tested with, out of arrays that might change."""
    row = at - position(rule, SKIP)
    return table[row, SHIFT], table[row, TARGET], rule[INVERSE], rule[ROTATE], rule[BOUND], rule[LIMIT]


@inlined
def _fits(word: np.uint32, test: Test) -> np.bool_:
    shift, target, inverse, rotate, bound, _ = test
    return fits(right(word, shift), target, inverse, rotate, bound)


@inlined
def _passes(word: np.uint32, test: Test) -> bool:
    """Whether a word fits or is drawn again."""
    return bool(_fits(word, test) | (right(word, test[0]) > test[5]))


# ---- java.util.Random ---------------------------------------------------------------------------------------------

JAVA_A, JAVA_C = u64(0x5DEECE66D), u64(11 << 16)


def java(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """Java; the 48-bit state stands in the upper bits of 64, so that overflow is the modulus.

    The seeds of an aligned block scramble to consecutive states, whose successors are equally spaced.
    """
    first, last, stop = position(rule, FIRST), position(rule, LAST), start + u64(count)
    test = _test(last, table, rule)
    factor, term = u64(1), u64(0)
    for _ in range(first + 1):
        factor, term = JAVA_A * factor, JAVA_A * term + JAVA_C
    spacing = factor << u64(16)
    steps = _steps(spacing)
    found = 0
    for seed in range(start & ~MASK, stop, u64(LANES)):
        x = spacing * ((seed ^ JAVA_A) & ~MASK) + term
        if first == last and not _any_in_line(x, steps, test):
            continue
        fitting, stride = u64(0), spacing
        for _ in range(first, last):
            fitting |= _drawn_again(x, stride, test)
            x, stride = JAVA_A * x + JAVA_C, JAVA_A * stride
        fitting |= _which_in_line(x, stride, test)
        while fitting:
            candidate = seed + (trailing_zeros(fitting) ^ (JAVA_A & MASK))
            fitting &= fitting - u64(1)
            if start <= candidate < stop and _java_passes(candidate, table, rule):
                found = keep(hits, found, candidate)
    return found


@inlined
def _steps(stride: np.uint64) -> U32:
    """How much further each lane is than the first, as lower and upper halves."""
    steps = np.empty((2, LANES), np.uint32)
    for lane in range(LANES):
        steps[0, lane], steps[1, lane] = u32(stride * u64(lane)), u32(stride * u64(lane) >> u64(32))
    return steps


@inlined
def _any_in_line(x: np.uint64, steps: U32, test: Test) -> bool:
    """Whether the word of any lane passes; in halves, of which a vector holds twice as many."""
    upper, room = u32(x >> u64(32)), u32(~x)
    found = False
    for lane in range(LANES):
        carry = u32(steps[0, lane] > room)
        found |= _passes(u32(u32(upper + steps[1, lane]) + carry), test)
    return found


@inlined
def _which_in_line(x: np.uint64, stride: np.uint64, test: Test) -> np.uint64:
    """The lanes whose words pass, as bits, where the lanes' states are equally spaced."""
    which = u64(0)
    for lane in range(LANES):
        which |= u64(_passes(u32(x >> u64(32)), test)) << u64(lane)
        x += stride
    return which


@inlined
def _drawn_again(x: np.uint64, stride: np.uint64, test: Test) -> np.uint64:
    """The lanes whose words are drawn again, as bits."""
    which = u64(0)
    for lane in range(LANES):
        which |= u64(right(u32(x >> u64(32)), test[0]) > test[5]) << u64(lane)
        x += stride
    return which


@inlined
def _java_passes(seed: np.uint64, table: U32, rule: U32) -> bool:
    x = (seed ^ JAVA_A) << u64(16)
    end = table.shape[0] + position(rule, SKIP)
    at = 0
    while 0 <= at < end:
        x = JAVA_A * x + JAVA_C
        at = judge(at, u32(x >> u64(32)), table, rule)
    return bool(at == end)


# ---- xorshift32 ---------------------------------------------------------------------------------------------------

BLOCKS = 1024
SPAN = LANES * BLOCKS


def xorshift32(start: int, count: int, table: U32, rule: U32, hits: U64) -> int:
    """xorshift32; steps are linear over GF(2): a seed's word is the XOR of those of its number's parts.

    So the words of a span's blocks are one word XOR those of the blocks' numbers, and the same again for lanes.
    """
    last, stop = position(rule, LAST), start + u64(count)
    test = _test(last, table, rule)
    lanes, blocks = _multiples(LANES, u32(1), last), _multiples(BLOCKS, u32(LANES), last)
    found = 0
    for base in range(start - start % u64(SPAN), stop, u64(SPAN)):
        origin = _xorshift_word(u32(base), last)
        begin, end = max(start, base) - base, min(stop, base + u64(SPAN)) - base
        for block in range(begin // u64(LANES), (end + MASK) // u64(LANES)):
            word = u32(origin ^ blocks[block])
            if not _any_linear(word, lanes, test):
                continue
            fitting = _which_linear(word, lanes, test)
            while fitting:
                lane = trailing_zeros(fitting)
                fitting &= fitting - u64(1)
                candidate = base + block * u64(LANES) + lane
                if start <= candidate < stop and _xorshift_passes(word ^ lanes[lane], last, table, rule):
                    found = keep(hits, found, candidate)
    return found


@inlined
def _multiples(count: int, unit: np.uint32, at: int) -> U32:
    """The words at position ``at`` of the seeds 0, ``unit``, 2 ``unit`` ..., made of those of powers of two."""
    words = np.zeros(count, np.uint32)
    for i in range(1, count):
        rest = i & (i - 1)
        words[i] = words[rest] ^ words[i - rest] if rest else _xorshift_word(u32(unit * u32(i)), at)
    return words


@inlined
def _any_linear(word: np.uint32, lanes: U32, test: Test) -> bool:
    """Whether the word of any lane fits; none is drawn again."""
    found = False
    for lane in range(LANES):
        found |= bool(_fits(u32(word ^ lanes[lane]), test))
    return found


@inlined
def _which_linear(word: np.uint32, lanes: U32, test: Test) -> np.uint64:
    """The lanes whose words fit, as bits."""
    which = u64(0)
    for lane in range(LANES):
        which |= u64(_fits(u32(word ^ lanes[lane]), test)) << u64(lane)
    return which


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
    end = table.shape[0] + position(rule, SKIP)
    while 0 <= at < end:
        at = judge(at, u32(x), table, rule)
        x = _xorshift(u32(x))
    return bool(at == end)
