"""Linear congruential generators: any constants, and Java, MSVC, minstd, glibc's TYPE_0, which are some of them."""

from typing import Any

import numpy as np

from hostler.workloads.sieve.compiled import inlined
from hostler.workloads.sieve.generators import glibc, java_random, lcg
from hostler.workloads.sieve.generators.base import Generator
from hostler.workloads.sieve.kernels.arithmetic import high_product
from hostler.workloads.sieve.kernels.engines.shapes import Constants, Filling, one

u64 = np.uint64

# k: multiplier, increment, modulus or mask, shift, mask of a word, inverse of the multiplier, and two more: what a seed
# is combined with and the state that seed 0 makes; or for other moduli the latter, and the modulus' reciprocal.


@inlined
def _seed(item: np.uint64, high: np.uint64, k: Constants) -> np.uint64:
    # Whether or not an item is 0 is no branch: it would keep the lanes from being one vector.
    return u64((item ^ k[6]) & k[2] | u64(item == u64(0)) * k[7])


@inlined
def _step(x: np.uint64, k: Constants) -> np.uint64:
    return u64((x * k[0] + k[1]) & k[2])


@inlined
def _back(x: np.uint64, k: Constants) -> np.uint64:
    return u64(((x - k[1]) * k[5]) & k[2])


@inlined
def _word(x: np.uint64, k: Constants) -> np.uint64:
    return u64((x >> k[3]) & k[4])


@inlined
def _narrow_seed(item: np.uint64, high: np.uint64, k: Constants) -> np.uint64:
    return u64(item + u64(item == u64(0)) * k[6])


@inlined
def _narrow_step(x: np.uint64, k: Constants) -> np.uint64:
    return _remainder(x * k[0] + k[1], k)


@inlined
def _narrow_back(x: np.uint64, k: Constants) -> np.uint64:
    before = x - k[1] + u64(x < k[1]) * k[2]
    return _remainder(before * k[5], k)


@inlined
def _remainder(x: np.uint64, k: Constants) -> np.uint64:
    """``x`` modulo a modulus below 2^32: the quotient by the reciprocal, rounded down, is 1 too small at most."""
    left = x - high_product(x, k[7]) * k[2]
    return u64(left - u64(left >= k[2]) * k[2])


@inlined
def _wide_step(x: np.uint64, k: Constants) -> np.uint64:
    return _sum(_product(x, k[0], k[2]), k[1], k[2])


@inlined
def _wide_back(x: np.uint64, k: Constants) -> np.uint64:
    return _product(x - k[1] + u64(x < k[1]) * k[2], k[5], k[2])


@inlined
def _product(x: np.uint64, y: np.uint64, modulus: np.uint64) -> np.uint64:
    """Bit by bit: slow, and right for any modulus below 2^64."""
    made = u64(0)
    while y:
        if y & u64(1):
            made = _sum(made, x, modulus)
        x, y = _sum(x, x, modulus), y >> u64(1)
    return made


@inlined
def _sum(x: np.uint64, y: np.uint64, modulus: np.uint64) -> np.uint64:
    made = x + y
    return u64(made - modulus) if made < x or made >= modulus else u64(made)


def filling(made_by: Generator) -> Filling | str:
    """The fill of a generator whose ``parameters`` say what it is; ``lcg:...`` too."""
    given = made_by.parameters
    return _filling(given["multiplier"], given["increment"], given["modulus"], given["shift"], made_by.engine.width)


def java(made_by: Generator) -> Filling | str:
    """``java.util.Random`` scrambles its seed."""
    parts = (java_random.MULTIPLIER, java_random.INCREMENT, 1 << 48, 16, 32)
    return _filling(*parts, combined=java_random.MULTIPLIER)


def glibc_type0(made_by: Generator) -> Filling | str:
    """TYPE_0 takes seed 0 as 1."""
    return _filling(glibc.MULTIPLIER, glibc.INCREMENT, glibc.MODULUS, 0, 31, zero=1)


def minstd(made_by: Generator) -> Filling | str:
    """minstd takes seed 0 as 1."""
    return _filling(made_by.parameters["multiplier"], 0, lcg.MERSENNE31, 0, 31, zero=1)


def _filling(
    multiplier: int, increment: int, modulus: int, shift: int, bits: int, *, combined: int = 0, zero: int = 0
) -> Filling | str:
    if modulus > 1 << 64:
        return "a modulus above 2^64 has no lanes: its states take more than a machine word"
    try:
        inverse = pow(multiplier, -1, modulus)
    except ValueError:
        inverse = 0  # there is no way back, and nobody asks for it
    mask = (1 << bits) - 1
    if modulus & (modulus - 1) == 0:
        constants = (multiplier, increment, modulus - 1, shift, mask, inverse, combined, zero)
        return _made("lcg", (0.3, 0.3), constants, seed=_seed, step=_step, back=_back, word=_word)
    constants = (multiplier, increment, modulus, shift, mask, inverse, zero, (1 << 64) // modulus)
    if modulus < 1 << 32:
        return _made(
            "lcg_narrow", (0.6, 0.7), constants, seed=_narrow_seed, step=_narrow_step, back=_narrow_back, word=_word
        )
    return _made("lcg_wide", (1.0, 60.0), constants, seed=_narrow_seed, step=_wide_step, back=_wide_back, word=_word)


def _made(name: str, ns: tuple[float, float], constants: tuple[int, ...], **parts: Any) -> Filling:
    return Filling(name, one, constants, ns=ns, parts=parts)
