"""glibc's additive tables, TYPE_1 to TYPE_4."""

import numpy as np

from hostler.workloads.sieve.compiled import Pointer, carray
from hostler.workloads.sieve.generators.base import Generator
from hostler.workloads.sieve.kernels.engines.shapes import Filling
from hostler.workloads.sieve.kernels.layout import LANES, SEEDS

u32 = np.uint32
u64 = np.uint64
MINSTD = u64((1 << 31) - 1)
MOST = 63
TYPES = {"glibc-type1": (7, 3), "glibc-type2": (15, 1), "glibc-rand": (31, 3), "glibc-type4": (63, 1)}


def fill(
    items: Pointer, high: np.uint64, mode: int, count: int, counters: Pointer, state: Pointer, words: Pointer,
    constants: Pointer,
) -> None:  # fmt: skip
    """Constants: how many words the table has, and how far apart the two are that are added."""
    item, x = carray(items, (LANES,), np.uint64), carray(state, (MOST + 1, LANES), np.uint32)
    made, at = carray(words, (count, LANES), np.uint64), carray(counters, (8,), np.int64)
    c = carray(constants, (2,), np.uint64)
    degree, apart = np.int64(c[0]), np.int64(c[1])
    if mode == SEEDS:
        at[0] = apart  # the oldest
        for lane in range(LANES):
            first = u64(u32(item[lane])) + u64(u32(item[lane]) == u32(0))
            x[0, lane] = u32(first)
            # C takes it with its sign: from 2^31 on it is 2^32 less, which is 2 less modulo 2^31 - 1.
            rest = first - u64(first >> u64(31)) * u64(2)
            rest = (rest & MINSTD) + (rest >> u64(31))
            x[MOST, lane] = u32(rest - u64(rest >= MINSTD) * MINSTD)
        # Counted in memory: LLVM would ask once for all rows whether one stands in for another, and give up on vectors.
        at[1] = 1
        while at[1] < degree:
            here, last = x[at[1]], x[MOST]
            for lane in range(LANES):
                product = u64(last[lane]) * u64(16807)
                product = (product & MINSTD) + (product >> u64(31))
                last[lane] = u32(product - u64(product >= MINSTD) * MINSTD)
                here[lane] = last[lane]
            at[1] += 1
        for _ in range(10 * degree):
            here = at[0]
            other = (here + degree - apart) % degree
            for lane in range(LANES):
                x[here, lane] = u32(x[here, lane] + x[other, lane])
            at[0] = (here + 1) % degree
    for i in range(count):
        here = at[0]
        other = (here + degree - apart) % degree
        for lane in range(LANES):
            x[here, lane] = u32(x[here, lane] + x[other, lane])
            made[i, lane] = u64(x[here, lane])
        at[0] = (here + 1) % degree


def filling(made_by: Generator) -> Filling:
    """The table of a type; PHP 5's ``rand`` has glibc's default one."""
    degree, apart = TYPES.get(made_by.name, TYPES["glibc-rand"])
    return Filling("glibc", fill, (degree, apart), rows=MOST // 2 + 1, ns=(0.9 * degree, 0.4))
