"""The compiled parts of ``twister``: the words of MT19937 as sums of the state's bits, and elimination.

Rows are packed, 64 coefficients a word, the lowest bit first. Like :mod:`kernels` this is one file, because numba's
cache notices a change of the kernel's own file only.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.compiled import inlined, kernel

U64: TypeAlias = npt.NDArray[np.uint64]
U32: TypeAlias = npt.NDArray[np.uint32]
I64: TypeAlias = npt.NDArray[np.int64]

N, M, BITS, WIDE = 624, 397, 32, 312
MATRIX = 0x9908B0DF
AT_ONCE = 8

u64 = np.uint64


def _write(old_php: bool, places: I64, masks: U32, rows: U64) -> None:
    """Row ``e``: which bits of the state add up to those bits ``masks[e]`` of word ``places[e]``, before tempering.

    The state is the one before word 0; ``places`` ascend. ``old_php`` is for its variant of the recurrence.
    """
    state = np.zeros((N * BITS, WIDE), np.uint64)
    for i in range(N * BITS):
        state[i, i // 64] = u64(1) << u64(i % 64)
    top, bottom = np.zeros(WIDE, np.uint64), np.zeros(WIDE, np.uint64)
    made = 0
    for e in range(places.size):
        while made <= places[e]:
            _make(state, made, old_php, top, bottom)
            made += 1
        base = (places[e] % N) * BITS
        rows[e, :] = u64(0)
        for bit in range(BITS):
            if masks[e] >> np.uint32(bit) & np.uint32(1):
                for i in range(WIDE):
                    rows[e, i] ^= state[base + bit, i]


@inlined
def _make(state: U64, number: int, old_php: bool, top: U64, bottom: U64) -> None:
    """Put word ``number`` in the place of the one that is 624 older."""
    here, following, far = number % N * BITS, (number + 1) % N * BITS, (number + M) % N * BITS
    top[:] = state[here + 31]
    bottom[:] = state[here] if old_php else state[following]
    for bit in range(BITS):
        twist = u64(0) - u64(MATRIX >> bit & 1)
        if bit == 31:
            for i in range(WIDE):
                state[here + bit, i] = state[far + bit, i] ^ (bottom[i] & twist)
        elif bit == 30:
            for i in range(WIDE):
                state[here + bit, i] = state[far + bit, i] ^ top[i] ^ (bottom[i] & twist)
        else:
            for i in range(WIDE):
                state[here + bit, i] = state[far + bit, i] ^ state[following + bit + 1, i] ^ (bottom[i] & twist)


def _eliminate(rows: U64, columns: int, order: I64, pivots: I64) -> int:
    """Bring rows into echelon form in the first ``columns``, in place; returns the rank.

    ``order`` says which row stood where before; ``pivots[i]`` is the column of row ``i``'s first 1. Eight columns at a
    time: the sums of their pivot rows are made once, and one of them is added to each row below (V. L. Arlazarov et
    al., 1970).
    """
    count, wide = rows.shape
    sums = np.empty((1 << AT_ONCE, wide), np.uint64)
    rank = 0
    for base in range(0, columns, AT_ONCE):
        word, shift = base // 64, u64(base % 64)
        found = 0
        for bit in range(min(AT_ONCE, columns - base)):
            at = _find(rows, rank, found, word, shift, pivots, base, bit)
            if at < 0:
                continue
            _swap(rows, order, at, rank + found, word)
            _reduce(rows, rank, found, word, shift, pivots, base, bit)
            pivots[rank + found] = base + bit
            found += 1
        if found:
            _add_up(rows, rank, found, word, sums)
            for i in range(rank + found, count):
                number = _number(rows[i, word] >> shift, rank, found, pivots, base)
                if number:
                    for k in range(word, wide):
                        rows[i, k] ^= sums[number, k]
        rank += found
    return rank


@inlined
def _find(rows: U64, rank: int, found: int, word: int, shift: np.uint64, pivots: I64, base: int, bit: int) -> int:
    """A row below the pivots found that has a 1 in column ``base + bit`` once they are added to it; -1 if none has."""
    for i in range(rank + found, rows.shape[0]):
        value = rows[i, word] >> shift
        made = value
        for p in range(rank, rank + found):
            if value >> u64(pivots[p] - base) & u64(1):
                made ^= rows[p, word] >> shift
        if made >> u64(bit) & u64(1):
            return i
    return -1


@inlined
def _swap(rows: U64, order: I64, a: int, b: int, word: int) -> None:
    if a != b:
        order[a], order[b] = order[b], order[a]
        for k in range(word, rows.shape[1]):
            rows[a, k], rows[b, k] = rows[b, k], rows[a, k]


@inlined
def _reduce(rows: U64, rank: int, found: int, word: int, shift: np.uint64, pivots: I64, base: int, bit: int) -> None:
    """Clear the columns of the pivots found in the next row, and its own column, ``base + bit``, in theirs."""
    here = rank + found
    value = rows[here, word] >> shift
    for p in range(rank, here):
        if value >> u64(pivots[p] - base) & u64(1):
            for k in range(word, rows.shape[1]):
                rows[here, k] ^= rows[p, k]
    for p in range(rank, here):
        if rows[p, word] >> shift >> u64(bit) & u64(1):
            for k in range(word, rows.shape[1]):
                rows[p, k] ^= rows[here, k]


@inlined
def _add_up(rows: U64, rank: int, found: int, word: int, sums: U64) -> None:
    """All sums of the pivot rows: number ``n`` is that of the rows whose bits are 1 in ``n``."""
    for k in range(word, rows.shape[1]):
        sums[0, k] = u64(0)
    for p in range(found):
        for n in range(1 << p):
            for k in range(word, rows.shape[1]):
                sums[(1 << p) + n, k] = sums[n, k] ^ rows[rank + p, k]


@inlined
def _number(value: np.uint64, rank: int, found: int, pivots: I64, base: int) -> int:
    number = 0
    for p in range(found):
        number |= int(value >> u64(pivots[rank + p] - base) & u64(1)) << p
    return number


Write: TypeAlias = Callable[[bool, I64, U32, U64], None]
Eliminate: TypeAlias = Callable[[U64, int, I64, I64], int]


@cache
def write() -> Write:
    """:func:`_write`, compiled or taken from numba's cache."""
    return kernel(_write, "void(boolean, int64[::1], uint32[::1], uint64[:,:])")


@cache
def eliminate() -> Eliminate:
    """:func:`_eliminate`, compiled or taken from numba's cache."""
    return kernel(_eliminate, "int64(uint64[:,::1], int64, int64[::1], int64[::1])")
