"""V8's ``Math.random``: the cache that is read backwards is at the same place in all lanes."""

import numpy as np

from hostler.workloads.sieve.compiled import Pointer, carray, inlined
from hostler.workloads.sieve.generators import v8
from hostler.workloads.sieve.kernels.engines.shapes import Filling
from hostler.workloads.sieve.kernels.layout import LANES, SEEDS

u64 = np.uint64
CACHE, OLD_CACHE = v8.CACHE, v8.OLD_CACHE
INFINITY, MANTISSA, NAN = u64(v8.INFINITY), u64(v8.MANTISSA), u64(v8.NAN)


@inlined
def _murmur(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> u64(33))) * u64(0xFF51AFD7ED558CCD)
    x = (x ^ (x >> u64(33))) * u64(0xC4CEB9FE1A85EC53)
    return u64(x ^ (x >> u64(33)))


@inlined
def _as_double(half: np.uint64) -> np.uint64:
    nan = (half & INFINITY) == INFINITY and (half & MANTISSA) != u64(0)
    return NAN if nan else half


def fill(
    items: Pointer, high: np.uint64, mode: int, count: int, counters: Pointer, state: Pointer, words: Pointer,
    constants: Pointer,
) -> None:  # fmt: skip
    """Constants: whether it is the oldest variant, and whether the word is the sum of both halves."""
    item, x = carray(items, (LANES,), np.uint64), carray(state, (2, LANES), np.uint64)
    made, left = carray(words, (count, LANES), np.uint64), carray(counters, (8,), np.int64)
    c = carray(constants, (2,), np.uint64)
    old, both = c[0] != u64(0), c[1] != u64(0)
    size = OLD_CACHE if old else CACHE
    forward = 0
    if mode == SEEDS:
        for lane in range(LANES):
            x[0, lane] = item[lane] if old else _murmur(item[lane])
            x[1, lane] = item[lane] if old else _murmur(~item[lane])
        left[0], forward = 0, 0 if old else CACHE
    for i in range(count):
        if left[0] == 0:
            if i > 0 or mode != SEEDS:
                # Back at the bottom of a cache, to the top of which it is one step less than its size.
                forward = size - 1 if old else 2 * size - 1
            if old:
                _move(forward, x)
                for lane in range(LANES):
                    x[0, lane], x[1, lane] = _as_double(x[0, lane]), _as_double(x[1, lane])
                forward = size
            _move(forward, x)
            left[0] = size - 1
        else:
            for lane in range(LANES):
                s0, s1 = x[0, lane], x[1, lane]
                y = s1 ^ s0 ^ (s0 >> u64(26))
                y ^= (y >> u64(17)) ^ (y >> u64(34)) ^ (y >> u64(51))
                x[0, lane], x[1, lane] = y ^ (y << u64(23)) ^ (y << u64(46)), s0
            left[0] -= 1
        for lane in range(LANES):
            made[i, lane] = u64(x[0, lane] + x[1, lane]) if both else x[0, lane]


@inlined
def _move(steps: int, x: "np.ndarray[tuple[int, int], np.dtype[np.uint64]]") -> None:
    for _ in range(steps):
        for lane in range(LANES):
            y = x[0, lane] ^ (x[0, lane] << u64(23))
            y ^= y >> u64(17)
            s1 = x[1, lane]
            x[0, lane], x[1, lane] = s1, y ^ s1 ^ (s1 >> u64(26))


def _filling(old: bool, both: bool) -> Filling:
    return Filling("v8", fill, (int(old), int(both)), rows=2, ns=(9.5, 0.7))


V8_2015, V8, V8_2026 = _filling(old=True, both=True), _filling(old=False, both=False), _filling(old=False, both=True)
