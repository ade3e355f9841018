"""NumPy's ``default_rng``: ``SeedSequence`` before PCG64 or SFC64."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.compiled import Pointer, carray, inlined
from hostler.workloads.sieve.generators import numpy_generator as source
from hostler.workloads.sieve.kernels.arithmetic import high_product
from hostler.workloads.sieve.kernels.engines.shapes import Filling, turned
from hostler.workloads.sieve.kernels.layout import LANES, SEEDS

u64 = np.uint64
M32 = u64(0xFFFFFFFF)
POOL = source.POOL
FACTOR_LOW, FACTOR_HIGH = u64(source.PCG_MULTIPLIER & source.MASK64), u64(source.PCG_MULTIPLIER >> 64)

Rows: TypeAlias = npt.NDArray[np.uint64]


@inlined
def _hash(value: np.uint64, before: np.uint64, after: np.uint64) -> np.uint64:
    value = (((value ^ before) & M32) * (after & M32)) & M32
    return u64(value ^ (value >> u64(16)))


@inlined
def _mix(x: np.uint64, y: np.uint64) -> np.uint64:
    mixed = ((x & M32) * u64(0xCA01F9DD) - (y & M32) * u64(0x4973F715)) & M32
    return u64(mixed ^ (mixed >> u64(16)))


@inlined
def _seed_words(item: Rows, pool: Rows, into: Rows, count: int) -> None:
    """``SeedSequence(item).generate_state(count, uint64)`` in all lanes; ``pool`` is scratch."""
    before = u64(0x43B0D7E5)
    for i in range(POOL):
        after = (before * u64(0x931E8875)) & M32
        for lane in range(LANES):
            word = item[lane] >> u64(32 * i) if i < 2 else u64(0)
            pool[i, lane] = _hash(word, before, after)
        before = after
    for given in range(POOL):
        for target in range(POOL):
            if given != target:
                after = (before * u64(0x931E8875)) & M32
                for lane in range(LANES):
                    pool[target, lane] = _mix(pool[target, lane], _hash(pool[given, lane], before, after))
                before = after
    before = u64(0x8B51F9DD)
    for i in range(2 * count):
        after = (before * u64(0x58F38DED)) & M32
        for lane in range(LANES):
            half = _hash(pool[i % POOL, lane], before, after)
            into[i // 2, lane] = half if i % 2 == 0 else into[i // 2, lane] | (half << u64(32))
        before = after


@inlined
def _pcg_step(x: Rows) -> None:
    """State times multiplier plus increment, modulo 2^128; rows: state high, low, increment high, low."""
    for lane in range(LANES):
        high, low = x[0, lane], x[1, lane]
        product = low * FACTOR_LOW
        upper = high_product(low, FACTOR_LOW) + low * FACTOR_HIGH + high * FACTOR_LOW
        x[1, lane] = product + x[3, lane]
        x[0, lane] = upper + x[2, lane] + u64(x[1, lane] < product)


def pcg64(
    items: Pointer, high: np.uint64, mode: int, count: int, counters: Pointer, state: Pointer, words: Pointer,
    constants: Pointer,
) -> None:  # fmt: skip
    """PCG XSL RR 128/64."""
    item, x = carray(items, (LANES,), np.uint64), carray(state, (8, LANES), np.uint64)
    made = carray(words, (count, LANES), np.uint64)
    if mode == SEEDS:
        _seed_words(item, x[4:], x, 4)
        for lane in range(LANES):
            begin_high, begin_low = x[0, lane], x[1, lane]
            x[2, lane] = (x[2, lane] << u64(1)) | (x[3, lane] >> u64(63))
            x[3, lane] = (x[3, lane] << u64(1)) | u64(1)
            # The first step from 0 leaves the increment.
            x[1, lane] = x[3, lane] + begin_low
            x[0, lane] = x[2, lane] + begin_high + u64(x[1, lane] < begin_low)
        _pcg_step(x)
    for i in range(count):
        _pcg_step(x)
        for lane in range(LANES):
            mixed, by = x[0, lane] ^ x[1, lane], x[0, lane] >> u64(58)
            made[i, lane] = (mixed >> by) | (mixed << ((u64(64) - by) & u64(63)))


@inlined
def _sfc_step(x: Rows) -> None:
    for lane in range(LANES):
        a, b, c, counter = x[0, lane], x[1, lane], x[2, lane], x[3, lane]
        x[0, lane], x[1, lane] = b ^ (b >> u64(11)), c + (c << u64(3))
        x[2, lane], x[3, lane] = turned(c, u64(24)) + a + b + counter, counter + u64(1)


def sfc64(
    items: Pointer, high: np.uint64, mode: int, count: int, counters: Pointer, state: Pointer, words: Pointer,
    constants: Pointer,
) -> None:  # fmt: skip
    """C. Doty-Humphrey's SFC64."""
    item, x = carray(items, (LANES,), np.uint64), carray(state, (8, LANES), np.uint64)
    made = carray(words, (count, LANES), np.uint64)
    if mode == SEEDS:
        _seed_words(item, x[4:], x, 3)
        x[3, :] = u64(1)
        for _ in range(12):
            _sfc_step(x)
    for i in range(count):
        for lane in range(LANES):
            made[i, lane] = x[0, lane] + x[1, lane] + x[3, lane]
        _sfc_step(x)


PCG64 = Filling("pcg64", pcg64, rows=8, ns=(15.0, 1.0))
SFC64 = Filling("sfc64", sfc64, rows=8, ns=(17.5, 0.6))
