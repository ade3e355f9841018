"""Go's ``math/rand``: 607 words, each seeded by three numbers of minstd, of which the first words need only a few."""

from functools import cache

import numpy as np

from hostler.workloads.sieve.compiled import Pointer, carray, inlined
from hostler.workloads.sieve.generators import go_rand
from hostler.workloads.sieve.generators.base import Generator
from hostler.workloads.sieve.kernels.engines.shapes import Filling
from hostler.workloads.sieve.kernels.layout import LANES, SEEDS, U64

u64 = np.uint64
LENGTH, TAP = go_rand.LENGTH, go_rand.TAP
MINSTD = u64(go_rand.MINSTD)
FACTOR = u64(48271)


@inlined
def _times(x: np.uint64, factor: np.uint64) -> np.uint64:
    """``x * factor`` modulo 2^31 - 1."""
    product = (x & MINSTD) * (factor & MINSTD)
    product = (product & MINSTD) + (product >> u64(31))
    product = (product & MINSTD) + (product >> u64(31))
    return u64(product - u64(product >= MINSTD) * MINSTD)


@inlined
def _seeded(place: int, x: U64, item: U64, c: U64) -> None:
    """Word ``place`` of the state before the first word, from the oldest."""
    jump, salt, into = c[place], c[LENGTH + place], x[place]
    for lane in range(LANES):
        number = item[lane] if item[lane] else u64(89482311)
        upper = _times(number, jump)
        middle = _times(upper, FACTOR)
        into[lane] = (upper << u64(40)) ^ (middle << u64(20)) ^ _times(middle, FACTOR) ^ salt


def fill(
    items: Pointer, high: np.uint64, mode: int, count: int, counters: Pointer, state: Pointer, words: Pointer,
    constants: Pointer,
) -> None:  # fmt: skip
    """Constants: by age, the power of minstd's multiplier that leads to a word's first number; the salts."""
    item, x = carray(items, (LANES,), np.uint64), carray(state, (LENGTH + 1, LANES), np.uint64)
    made, at = carray(words, (count, LANES), np.uint64), carray(counters, (8,), np.int64)
    c, seeds = carray(constants, (2 * LENGTH,), np.uint64), x[LENGTH]
    if mode == SEEDS:
        at[0] = 0
        for lane in range(LANES):
            seeds[lane] = item[lane]
    for i in range(count):
        k = at[0]
        if k < LENGTH - TAP:
            _seeded(k, x, seeds, c)
        if k < TAP:
            _seeded(k + LENGTH - TAP, x, seeds, c)
        here, other = x[k % LENGTH], x[(k + LENGTH - TAP) % LENGTH]
        for lane in range(LANES):
            here[lane] += other[lane]
            made[i, lane] = here[lane]
        at[0] += 1


@cache
def _constants() -> tuple[int, ...]:
    by_age = sorted(range(LENGTH), key=lambda place: (LENGTH - TAP - 1 - place) % LENGTH)
    jumps = [pow(48271, 20 + 3 * place + 1, go_rand.MINSTD) for place in by_age]
    salts = [go_rand.cooked()[place] for place in by_age]
    return (*jumps, *salts)


def filling(made_by: Generator) -> Filling:
    """Its table takes a second to make, once."""
    return Filling("go", fill, _constants(), rows=LENGTH + 1, ns=(0.3, 2.3))
