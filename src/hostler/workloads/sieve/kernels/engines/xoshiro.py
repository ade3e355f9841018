"""xoshiro256++, xoshiro256**, and Lua's ``math.random``."""

import numpy as np

from hostler.workloads.sieve.compiled import inlined
from hostler.workloads.sieve.generators import splitmix64
from hostler.workloads.sieve.kernels.engines.counters import split_mix
from hostler.workloads.sieve.kernels.engines.shapes import Constants, Filling, Four, four, turned

u64 = np.uint64
GAMMAS = tuple(u64(splitmix64.GAMMA * i & splitmix64.MASK) for i in range(1, 5))


@inlined
def _seed(item: np.uint64, high: np.uint64, k: Constants) -> Four:
    return (
        split_mix(u64(item + GAMMAS[0]), k),
        split_mix(u64(item + GAMMAS[1]), k),
        split_mix(u64(item + GAMMAS[2]), k),
        split_mix(u64(item + GAMMAS[3]), k),
    )


@inlined
def _lua_seed(item: np.uint64, high: np.uint64, k: Constants) -> Four:
    state = (item, u64(255), u64(0), u64(0))
    for _ in range(16):
        state = _step(state, k)
    return state


@inlined
def _step(x: Four, k: Constants) -> Four:
    s2, s3 = x[2] ^ x[0], x[3] ^ x[1]
    return x[0] ^ s3, x[1] ^ s2, s2 ^ (x[1] << u64(17)), turned(s3, u64(45))


@inlined
def _plus_plus(x: Four, k: Constants) -> np.uint64:
    return u64(turned(u64(x[0] + x[3]), u64(23)) + x[0])


@inlined
def _star_star(x: Four, k: Constants) -> np.uint64:
    return u64(turned(u64(x[1] * u64(5)), u64(7)) * u64(9))


PLUS_PLUS = Filling(
    "xoshiro256plusplus",
    four,
    rows=4,
    ns=(1.8, 0.6),
    parts={"seed": _seed, "step": _step, "word": _plus_plus, "EARLY": True},
)
STAR_STAR = Filling(
    "xoshiro256starstar",
    four,
    rows=4,
    ns=(1.8, 0.6),
    parts={"seed": _seed, "step": _step, "word": _star_star, "EARLY": True},
)
LUA = Filling(
    "lua", four, rows=4, ns=(11.0, 0.6), parts={"seed": _lua_seed, "step": _step, "word": _star_star, "EARLY": True}
)
