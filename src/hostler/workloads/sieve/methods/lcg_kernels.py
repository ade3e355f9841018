"""The compiled parts of the methods for linear congruential generators.

States modulo ``2^k`` stand in the upper ``k`` bits of 64, so that overflow is the modulus. Like :mod:`kernels` this
is one file, because numba's cache notices a change of the kernel's own file only.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.compiled import inlined, kernel
from hostler.workloads.sieve.generators.rules import Residue, Want

U8: TypeAlias = npt.NDArray[np.uint8]
U64: TypeAlias = npt.NDArray[np.uint64]

FACTOR, TERM, SHIFT, MASK, IS_SPAN, MODULUS, TARGET, INVERSE, ROTATE, BOUND = range(10)
"""A row: the map from the base state, the part of the result to look at, and what it must be.

A residue is ``TARGET`` modulo ``MODULUS = odd * 2^ROTATE``, with ``INVERSE`` of the odd part and ``BOUND`` the largest
quotient; a span starts at ``TARGET`` and reaches ``BOUND`` further.
"""

LANES = 256
WORD = 1 << 64

u64 = np.uint64


def row(factor: int, term: int, shift: int, bits: int, want: Want) -> list[int]:
    """A row for a condition on ``bits`` bits, from ``shift`` up, of ``factor * x + term`` modulo 2^64."""
    mask = (1 << bits) - 1
    if not isinstance(want, Residue):
        return [factor, term, shift, mask, 1, 1, want.low, 0, 0, want.high - want.low]
    rotate = (want.modulus & -want.modulus).bit_length() - 1
    inverse = pow(want.modulus >> rotate, -1, WORD)
    return [factor, term, shift, mask, 0, want.modulus, want.target, inverse, rotate, (WORD - 1) // want.modulus]


@inlined
def _may_fit(x: np.uint64, rule: U64) -> bool:
    """Whether the part of ``x`` meets the condition; some residues below the target pass that do not."""
    v = u64(u64(x >> rule[SHIFT]) & rule[MASK]) - rule[TARGET]
    rotate = rule[ROTATE]
    z = u64(v * rule[INVERSE])
    turned = u64(z >> rotate) | u64(z << u64((u64(64) - rotate) & u64(63)))
    return bool((v if rule[IS_SPAN] else turned) <= rule[BOUND])


@inlined
def _fits(x: np.uint64, rule: U64) -> bool:
    v = u64(u64(x >> rule[SHIFT]) & rule[MASK])
    if rule[IS_SPAN]:
        return bool(u64(v - rule[TARGET]) <= rule[BOUND])
    return bool(v % rule[MODULUS] == rule[TARGET])


def _progression(first: int, stride: int, count: int, table: U64, hits: U64) -> int:
    """Which of ``first + stride * i``, for ``i`` below ``count``, meet all rows; the numbers ``i`` go to ``hits``.

    Returns how many there are, also beyond the size of ``hits``.
    """
    flags = np.zeros(LANES, np.uint8)
    found = 0
    for base in range(0, count, LANES):
        begin = u64(first + stride * u64(base))
        flags[:] = np.uint8(1)
        for at in range(table.shape[0]):
            if not _sift(begin, u64(stride), flags, table[at]):
                break
        else:
            for lane in range(min(LANES, count - base)):
                if flags[lane] and _meets(u64(begin + stride * u64(lane)), table):
                    if found < hits.size:
                        hits[found] = u64(base + lane)
                    found += 1
    return found


@inlined
def _sift(begin: np.uint64, stride: np.uint64, flags: U8, rule: U64) -> np.uint8:
    """Clear the flags of lanes that do not meet a row; returns 0 when none is left."""
    x, step = u64(rule[FACTOR] * begin + rule[TERM]), u64(rule[FACTOR] * stride)
    left = np.uint8(0)
    for lane in range(LANES):
        flags[lane] &= np.uint8(_may_fit(u64(x + step * u64(lane)), rule))
        left |= flags[lane]
    return left


@inlined
def _meets(x: np.uint64, table: U64) -> bool:
    for at in range(table.shape[0]):  # noqa: SIM110  # numba knows no generators
        if not _fits(u64(table[at, FACTOR] * x + table[at, TERM]), table[at]):
            return False
    return True


Progression: TypeAlias = Callable[[int, int, int, U64, U64], int]


@cache
def progression() -> Progression:
    """:func:`_progression`, compiled or taken from numba's cache."""
    return kernel(_progression, "int64(uint64, uint64, int64, uint64[:,::1], uint64[::1])")
