"""Counters that are mixed: splitmix64, pcg32 (whose counter is linear congruential), philox."""

import numpy as np

from hostler.workloads.sieve.compiled import Pointer, carray, inlined
from hostler.workloads.sieve.generators import pcg32, splitmix64
from hostler.workloads.sieve.generators.base import Generator
from hostler.workloads.sieve.kernels.engines.shapes import Constants, Filling, one, seed
from hostler.workloads.sieve.kernels.layout import LANES, SEEDS

u64 = np.uint64
M32 = u64(0xFFFFFFFF)
GAMMA = u64(splitmix64.GAMMA)
ROUNDS = 10


@inlined
def _weyl(x: np.uint64, k: Constants) -> np.uint64:
    return u64(x + GAMMA)


@inlined
def _weyl_back(x: np.uint64, k: Constants) -> np.uint64:
    return u64(x - GAMMA)


@inlined
def split_mix(z: np.uint64, k: Constants) -> np.uint64:
    """D. Stafford's variant 13."""
    z = (z ^ (z >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> u64(27))) * u64(0x94D049BB133111EB)
    return u64(z ^ (z >> u64(31)))


@inlined
def _pcg_seed(item: np.uint64, high: np.uint64, k: Constants) -> np.uint64:
    return _pcg_step(u64(item + k[1]), k)


@inlined
def _pcg_step(x: np.uint64, k: Constants) -> np.uint64:
    return u64(x * k[0] + k[1])


@inlined
def _pcg_back(x: np.uint64, k: Constants) -> np.uint64:
    return u64((x - k[1]) * k[2])


@inlined
def _pcg_word(x: np.uint64, k: Constants) -> np.uint64:
    mixed = ((x ^ (x >> u64(18))) >> u64(27)) & M32
    by = x >> u64(59)
    return u64(((mixed >> by) | (mixed << (u64(32) - by))) & M32)


def philox(
    items: Pointer, high: np.uint64, mode: int, count: int, counters: Pointer, state: Pointer, words: Pointer,
    constants: Pointer,
) -> None:  # fmt: skip
    """Four words at a time; the position is the same in all lanes."""
    key, x = carray(items, (LANES,), np.uint64), carray(state, (4, LANES), np.uint64)
    made, position = carray(words, (count, LANES), np.uint64), carray(counters, (8,), np.int64)
    if mode == SEEDS:
        position[0] = 0
    for i in range(count):
        at = position[0] & 3
        if at == 0:
            number = u64(position[0] >> 2)
            for lane in range(LANES):
                c0, c1, c2, c3 = number & M32, number >> u64(32), u64(0), u64(0)
                k0, k1 = key[lane] & M32, key[lane] >> u64(32)
                for _ in range(ROUNDS):
                    first, second = u64(0xD2511F53) * c0, u64(0xCD9E8D57) * c2
                    c0, c2 = (second >> u64(32)) ^ c1 ^ k0, (first >> u64(32)) ^ c3 ^ k1
                    c1, c3 = second & M32, first & M32
                    k0, k1 = (k0 + u64(0x9E3779B9)) & M32, (k1 + u64(0xBB67AE85)) & M32
                x[0, lane], x[1, lane], x[2, lane], x[3, lane] = c0, c1, c2, c3
        made[i] = x[at]
        position[0] += 1


SPLITMIX64 = Filling(
    "splitmix64", one, ns=(0.4, 0.7), parts={"seed": seed, "step": _weyl, "back": _weyl_back, "word": split_mix}
)
PHILOX = Filling("philox", philox, rows=4, ns=(1.0, 1.2))


def filling(made_by: Generator) -> Filling:
    """pcg32, on whatever stream."""
    constants = (pcg32.MULTIPLIER, made_by.parameters["increment"], pcg32.INVERSE, 0, 0, 0, 0, 0)
    parts = {"seed": _pcg_seed, "step": _pcg_step, "back": _pcg_back, "word": _pcg_word, "EARLY": True}
    return Filling("pcg32", one, constants, ns=(0.4, 0.6), parts=parts)
