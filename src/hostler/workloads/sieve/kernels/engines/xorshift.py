"""The xorshift family: 32, 64 and 128 bits, and xorshift64*."""

import numpy as np

from hostler.workloads.sieve.compiled import inlined
from hostler.workloads.sieve.generators.xorshift import STAR
from hostler.workloads.sieve.kernels.engines.shapes import Constants, Filling, Four, four, one, seed

u64 = np.uint64
M32 = u64(0xFFFFFFFF)
STAR_FACTOR = u64(STAR)


@inlined
def _step32(x: np.uint64, k: Constants) -> np.uint64:
    x = x ^ ((x << u64(13)) & M32)
    x = x ^ (x >> u64(17))
    return u64(x ^ ((x << u64(5)) & M32))


@inlined
def _back32(x: np.uint64, k: Constants) -> np.uint64:
    for by in (5, 10, 20):
        x = x ^ ((x << u64(by)) & M32)
    x = x ^ (x >> u64(17))
    for by in (13, 26):
        x = x ^ ((x << u64(by)) & M32)
    return u64(x)


@inlined
def _step64(x: np.uint64, k: Constants) -> np.uint64:
    x = x ^ (x << u64(13))
    x = x ^ (x >> u64(7))
    return u64(x ^ (x << u64(17)))


@inlined
def _back64(x: np.uint64, k: Constants) -> np.uint64:
    for by in (17, 34):
        x = x ^ (x << u64(by))
    for by in (7, 14, 28, 56):
        x = x ^ (x >> u64(by))
    for by in (13, 26, 52):
        x = x ^ (x << u64(by))
    return u64(x)


@inlined
def _star_step(x: np.uint64, k: Constants) -> np.uint64:
    x = x ^ (x >> u64(12))
    x = x ^ (x << u64(25))
    return u64(x ^ (x >> u64(27)))


@inlined
def _star_back(x: np.uint64, k: Constants) -> np.uint64:
    for by in (27, 54):
        x = x ^ (x >> u64(by))
    for by in (25, 50):
        x = x ^ (x << u64(by))
    for by in (12, 24, 48):
        x = x ^ (x >> u64(by))
    return u64(x)


@inlined
def _itself(x: np.uint64, k: Constants) -> np.uint64:
    return x


@inlined
def _times(x: np.uint64, k: Constants) -> np.uint64:
    return u64(x * STAR_FACTOR)


@inlined
def _seed128(item: np.uint64, high: np.uint64, k: Constants) -> Four:
    return item & M32, item >> u64(32), high & M32, high >> u64(32)


@inlined
def _step128(x: Four, k: Constants) -> Four:
    mixed = x[0] ^ ((x[0] << u64(11)) & M32)
    return x[1], x[2], x[3], x[3] ^ (x[3] >> u64(19)) ^ mixed ^ (mixed >> u64(8))


@inlined
def _youngest(x: Four, k: Constants) -> np.uint64:
    return x[3]


XORSHIFT32 = Filling(
    "xorshift32", one, ns=(0.3, 0.4), parts={"seed": seed, "step": _step32, "back": _back32, "word": _itself}
)
XORSHIFT64 = Filling(
    "xorshift64", one, ns=(0.3, 0.4), parts={"seed": seed, "step": _step64, "back": _back64, "word": _itself}
)
XORSHIFT64STAR = Filling(
    "xorshift64star", one, ns=(0.4, 0.4), parts={"seed": seed, "step": _star_step, "back": _star_back, "word": _times}
)
XORSHIFT128 = Filling(
    "xorshift128", four, rows=4, ns=(0.6, 0.3), parts={"seed": _seed128, "step": _step128, "word": _youngest}
)
