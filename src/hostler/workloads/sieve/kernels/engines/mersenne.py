"""MT19937 as PHP, CPython, Ruby and numpy's ``RandomState`` seed it, and PHP 5's variant of it."""

import numpy as np

from hostler.workloads.sieve.compiled import Pointer, carray, inlined
from hostler.workloads.sieve.generators import mersenne as source
from hostler.workloads.sieve.kernels.engines.shapes import Filling
from hostler.workloads.sieve.kernels.layout import LANES, SEEDS, U32, U64
from hostler.workloads.sieve.kernels.special import grow, seed_by_key, temper, twist

u32 = np.uint32
u64 = np.uint64
N, M = source.N, source.M

# By one word; by a key of one word or two; by one word, but by a key where there are two and the upper one is not 1.
GENRAND, KEY, RUBY = range(3)
MADE, GROWN = range(2)


def fill(
    items: Pointer, high: np.uint64, mode: int, count: int, counters: Pointer, state: Pointer, words: Pointer,
    constants: Pointer,
) -> None:  # fmt: skip
    """Constants: how it is seeded, whether it twists as PHP 5, and the words that seeding by a key starts from.

    After the state come three rows of scratch. The upper words of the items are those of the first lane. Of a state
    seeded by one word only as much is made as the words so far need.
    """
    item, x = carray(items, (LANES,), np.uint64), carray(state, (N + 4, LANES), np.uint32)
    made, at = carray(words, (count, LANES), np.uint64), carray(counters, (8,), np.int64)
    c = carray(constants, (2,), np.uint64)
    if mode == SEEDS:
        upper = u32(item[0] >> u64(32))
        at[MADE], at[GROWN] = 0, 1
        if c[0] == KEY or (c[0] == RUBY and upper > u32(1)):
            even, odd, last = x[N], x[N + 1], x[N + 2]
            for lane in range(LANES):
                even[lane] = u32(item[lane])
                odd[lane] = u32(upper + u32(1)) if upper else u32(item[lane])
            seed_by_key(x, carray(constants, (2 * (2 + N),), np.uint32)[4::2], even, odd, last)
            at[GROWN] = N
        else:
            for lane in range(LANES):
                x[0, lane] = u32(item[lane])
    for i in range(count):
        k = at[MADE] % N
        while at[GROWN] < min(k + M + 1, N):
            g = at[GROWN]
            for lane in range(LANES):
                x[g, lane] = grow(x[g - 1, lane], u32(g))
            at[GROWN] += 1
        _turn(x[k], x[(k + 1) % N], x[(k + M) % N], made[i], c[1] != u64(0))
        at[MADE] += 1


@inlined
def _turn(here: U32, following: U32, far: U32, made: U64, php5: bool) -> None:
    if php5:
        # The lowest bit decides, and here it is that of the wrong word.
        for lane in range(LANES):
            mixed = u32(u32(following[lane] & u32(0xFFFFFFFE)) | u32(here[lane] & u32(1)))
            here[lane] = twist(here[lane], mixed, far[lane])
            made[lane] = u64(temper(here[lane]))
        return
    for lane in range(LANES):
        here[lane] = twist(here[lane], following[lane], far[lane])
        made[lane] = u64(temper(here[lane]))


def _filling(seeding: int, ns: float, php5: bool = False) -> Filling:
    constants = (seeding, int(php5), *source.init_genrand(19650218))
    return Filling("mersenne", fill, constants, rows=N // 2 + 2, span=32, ns=(ns, 0.5))


PHP, PHP5, NUMPY = _filling(GENRAND, 30.0), _filling(GENRAND, 30.0, php5=True), _filling(GENRAND, 30.0)
PYTHON, RUBY_RANDOM = _filling(KEY, 148.0), _filling(RUBY, 30.0)
