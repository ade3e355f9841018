"""Linear complexity of bit planes: how short a shift register makes the same bits.

Bits that xorshift generators, the Mersenne Twister and low parts of linear congruential ones give have a complexity
that stops growing; random ones have half their number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hostler.workloads.sieve.correlation.results import Result
from hostler.workloads.sieve.correlation.samples import Sample
from hostler.workloads.sieve.correlation.special import complexity_tails, normal_two_sided

LEAST = 64
MOST_BITS = 50_000
"""Longest sequence: the work grows with its square, and 19937 * 2 is within."""
PLANES = 4
"""As many of the lowest and of the highest bits are tested."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The linear complexity of a sequence, and how often it jumped on the way."""

    complexity: int
    jumps: int


def complexity(sample: Sample) -> list[Result]:
    """Two tests for each bit plane: the complexity of all, exactly, and its jumps on the way.

    Of the longest stretch without an unknown draw, its first 50,000 draws. Planes are bits that are as often 0 as 1:
    low ones, as far as two to their number divides the size, and high ones where the size is a power of two; else
    whether a draw lies in the upper half.
    """
    run = sample.run[:MOST_BITS]
    planes = _planes(sample.size)
    if len(run) < LEAST or not planes:
        note = f"{LEAST} draws without an unknown one are needed" if planes else "no bit is as often 0 as 1"
        return [Result(sample.source, "complexity", "bits", None, None, len(run), note)]
    return [result for part, bit in planes for result in _plane(sample.source, part, [bit(i) for i in run])]


def profile(bits: Sequence[int]) -> Profile:
    """By the algorithm of E. R. Berlekamp and J. L. Massey (IEEE Transactions on Information Theory 15, 1969)."""
    register, before, length, since, jumps = 1, 1, 0, 1, 0
    history = 0  # bit i: the value i places back
    for n, bit in enumerate(bits):
        history = history << 1 | bit
        if (register & history).bit_count() & 1 == 0:
            since += 1
        elif 2 * length > n:
            register ^= before << since
            since += 1
        else:
            register, before = register ^ before << since, register
            length, since, jumps = n + 1 - length, 1, jumps + 1
    return Profile(length, jumps)


def jump_moments(bits: int) -> tuple[float, float]:
    """Mean and variance of the number of jumps of so many random bits (G. D. Carter, 1989)."""
    odd, small = bits % 2, 2.0 ** -min(bits, 1000)
    mean = bits / 4 + (4 + odd) / 12 - small / 3
    variance = bits / 8 - (2 - odd) / (9 - odd) + bits * small / 6 + (6 + odd) * small / 18 - small**2 / 9
    return mean, variance


def _planes(size: int) -> list[tuple[str, Callable[[int], int]]]:
    """The names of fair bits, and how to take them from an index."""
    fair = (size & -size).bit_length() - 1
    power = size == 1 << fair
    low = [*range(min(fair, PLANES))]
    high = [each for each in range(max(0, fair - PLANES), fair) if each not in low] if power else []
    planes = [(f"bit {each}", _bit(each)) for each in low + high]
    return planes if power or not fair else [*planes, ("upper half", lambda index: int(2 * index >= size))]


def _bit(place: int) -> Callable[[int], int]:
    return lambda index: index >> place & 1


def _plane(source: str, part: str, bits: Sequence[int]) -> list[Result]:
    found, n = profile(bits), len(bits)
    lower, upper = complexity_tails(found.complexity, n)
    note = f"linear complexity {found.complexity} of {n} bits in a row, about {n // 2} expected"
    exact = Result(source, "complexity", part, found.complexity, min(1.0, 2 * min(lower, upper)), n, note)
    mean, variance = jump_moments(n)
    z = (found.jumps - mean) / math.sqrt(variance)
    note = f"normal score; {found.jumps} jumps in {n} bits in a row, {mean:.1f} expected"
    return [exact, Result(source, "profile", part, z, normal_two_sided(z), n, note)]
