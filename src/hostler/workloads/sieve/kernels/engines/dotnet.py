"""The ``Random`` of .NET with a seed."""

import numpy as np

from hostler.workloads.sieve.compiled import Pointer, carray, inlined
from hostler.workloads.sieve.generators import dotnet
from hostler.workloads.sieve.kernels.engines.shapes import Filling
from hostler.workloads.sieve.kernels.layout import LANES, SEEDS

i32 = np.int32
i64 = np.int64
u64 = np.uint64
BIG = dotnet.BIG
PLACES = 55


@inlined
def _wrapped(number: np.int32) -> np.int32:
    return i32(number + i32(i32(number >> i32(31)) & i32(BIG)))


def fill(
    items: Pointer, high: np.uint64, mode: int, count: int, counters: Pointer, state: Pointer, words: Pointer,
    constants: Pointer,
) -> None:  # fmt: skip
    """The table's places count from 0; the last two rows of the state are scratch."""
    item, x = carray(items, (LANES,), np.uint64), carray(state, (PLACES + 2, LANES), np.int32)
    made, at = carray(words, (count, LANES), np.uint64), carray(counters, (8,), np.int64)
    if mode == SEEDS:
        at[0] = 0
        last, following = x[PLACES], x[PLACES + 1]
        for lane in range(LANES):
            last[lane] = i32(i64(161803398) - i64(item[lane]))
            x[PLACES - 1, lane] = last[lane]
            following[lane] = i32(1)
        # Counted in memory: LLVM would ask once for all rows whether one stands in for another, and give up on vectors.
        at[1] = 1
        while at[1] < PLACES:
            place = x[21 * at[1] % PLACES - 1]
            at[1] += 1
            for lane in range(LANES):
                place[lane] = following[lane]
                following[lane] = _wrapped(i32(last[lane] - following[lane]))
                last[lane] = place[lane]
        at[1] = 0
        while at[1] < 4 * PLACES:
            here, other = x[at[1] % PLACES], x[(at[1] + 31) % PLACES]
            for lane in range(LANES):
                here[lane] = _wrapped(i32(here[lane] - other[lane]))
            at[1] += 1
    for i in range(count):
        here, other = x[at[0]], x[(at[0] + 21) % PLACES]
        for lane in range(LANES):
            number = i32(here[lane] - other[lane])
            here[lane] = _wrapped(i32(number - i32(number == i32(BIG))))
            made[i, lane] = u64(here[lane])
        at[0] = (at[0] + 1) % PLACES


DOTNET = Filling("dotnet", fill, rows=(PLACES + 3) // 2, ns=(25.0, 0.4))
