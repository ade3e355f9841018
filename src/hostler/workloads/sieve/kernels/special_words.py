"""What the special kernels share: their tables, and how a word is tested against a draw.

Each kernel takes ``(start, count, table, rule, hits)``, searches the seeds ``[start, start + count)``, writes the first
``len(hits)`` survivors to ``hits`` and returns how many there are. ``table`` has one row per word of
the draws (``KNOWN``, ``SHIFT``, ``TARGET``), ``rule`` the constants listed below; :mod:`plan` makes both.

Numba widens every 32-bit operation to 64 bits, so each intermediate is cast back.
"""

import numpy as np

from hostler.workloads.sieve.compiled import inlined
from hostler.workloads.sieve.kernels.layout import U32, U64

KNOWN, SHIFT, TARGET = range(3)
SKIP, LIMIT, INVERSE, ROTATE, BOUND, FIRST, LAST, REJECTS = range(8)
SIGNATURE = "int64(uint64, int64, uint32[:,::1], uint32[::1], uint64[::1])"

u32 = np.uint32
u64 = np.uint64


@inlined
def fits(v: np.uint32, target: np.uint32, inverse: np.uint32, rotate: np.uint32, bound: np.uint32) -> np.bool_:
    """Whether ``modulus`` divides ``v - target`` modulo 2^32: no false negatives; exact where ``v >= target``.

    ``modulus = odd * 2^rotate``, ``inverse = odd^-1 mod 2^32``, ``bound = (2^32 - 1) // modulus``
    (H. S. Warren, Hacker's Delight, 2nd ed., 10-17).
    """
    z = u32(u32(v - target) * inverse)
    return u32(right(z, rotate) | u32(z << u32(u32(u32(32) - rotate) & u32(31)))) <= bound


@inlined
def right(x: np.uint32, shift: np.uint32) -> np.uint32:
    """``x >> shift`` for shifts below 32; the mask lets LLVM keep it a 32-bit operation."""
    return u32(x >> u32(shift & u32(31)))


@inlined
def position(rule: U32, which: int) -> int:
    return int(np.int64(rule[which]))


@inlined
def judge(at: int, word: np.uint32, table: U32, rule: U32) -> int:
    """The position after ``word`` at position ``at``: ``at`` if it is drawn again, -1 if it excludes the seed."""
    row = max(at - position(rule, SKIP), 0)
    v = right(word, table[row, SHIFT])
    if v > rule[LIMIT]:
        return at
    if at < rule[SKIP] or table[row, KNOWN] == 0:
        return at + 1
    target = table[row, TARGET]
    if v >= target and fits(v, target, rule[INVERSE], rule[ROTATE], rule[BOUND]):
        return at + 1
    return -1


@inlined
def sift(words: U32, match: U32, again: U32, row: U32, rule: U32) -> np.uint32:
    """Test one word per lane, exactly: ``match`` stays 1 where it fits, ``again`` becomes 1 where it is drawn again.

    Returns 0 when no lane is left.
    """
    shift, target, skip_test = row[SHIFT], row[TARGET], u32(row[KNOWN] == 0)
    limit, inverse, rotate, bound = rule[LIMIT], rule[INVERSE], rule[ROTATE], rule[BOUND]
    left = u32(0)
    for lane in range(words.size):
        v = right(words[lane], shift)
        again[lane] |= u32(match[lane] & u32(v > limit))
        match[lane] &= u32(skip_test | u32(u32(fits(v, target, inverse, rotate, bound)) & u32(v >= target)))
        left = u32(left | u32(match[lane] | again[lane]))
    return left


@inlined
def row_of(at: int, table: U32, rule: U32, blank: U32) -> U32:
    """The table's row for position ``at``; before the first draw a row that only says how words are drawn again."""
    if at < rule[SKIP]:
        return blank
    row: U32 = table[at - position(rule, SKIP)]
    return row


@inlined
def blank_row(table: U32) -> U32:
    blank = np.zeros(3, np.uint32)
    blank[SHIFT] = table[0, SHIFT]
    return blank


@inlined
def keep(hits: U64, found: int, seed: np.uint64) -> int:
    if found < hits.size:
        hits[found] = seed
    return found + 1
