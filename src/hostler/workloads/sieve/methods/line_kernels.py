"""The compiled parts of ``line``: walking through the items that fit a draw, counting them or testing them.

The rows of ``beats`` are laid out as listed below. Like :mod:`kernels` this is one file, because numba's cache notices
a change of the kernel's own file only.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.compiled import inlined, kernel

I64: TypeAlias = npt.NDArray[np.int64]
U16: TypeAlias = npt.NDArray[np.uint16]

NEXT, PLACE, ROOM, UP, UP_STEPS, DOWN, DOWN_STEPS = range(7)
"""The next item that fits, from the block's first; its place in the window; the places from which ``UP`` stays within;
the distances of :class:`~hostler.workloads.sieve.methods.rotations.Gaps` and their steps, in items."""

FACTOR, TERM, MODULUS, SIZE, STRIDE, OFFSET = range(6)
"""A test: item ``OFFSET + STRIDE * s`` fits where ``FACTOR * s + TERM`` modulo ``MODULUS`` is below ``SIZE``."""

i64 = np.int64
u64 = np.uint64


def _count(beats: I64, size: int, need: int, counts: U16, hits: I64, found: int) -> int:
    """Count for each of the next ``size`` items how many rows it fits; numbers of those with ``need`` go to ``hits``.

    Moves the rows to the block that follows. ``found`` hits stand there already; returns how many there are then, also
    beyond the size of ``hits``.
    """
    counts[:size] = np.uint16(0)
    for at in range(beats.shape[0]):
        _tick(beats[at], size, counts)
    for item in range(size):
        if counts[item] >= need:
            if found < hits.size:
                hits[found] = item
            found += 1
    return found


@inlined
def _tick(beat: I64, size: int, counts: U16) -> None:
    item, place, room = beat[NEXT], beat[PLACE], beat[ROOM]
    up, up_steps, down, down_steps = beat[UP], beat[UP_STEPS], beat[DOWN], beat[DOWN_STEPS]
    while item < size:
        counts[item] += np.uint16(1)
        rises, falls = place < room, place >= down
        # Either or both: never none, because a place that is too high to rise and too low to fall does both.
        place += (up if rises or not falls else i64(0)) - (down if falls or not rises else i64(0))
        item += (up_steps if rises or not falls else i64(0)) + (down_steps if falls or not rises else i64(0))
    beat[NEXT], beat[PLACE] = item - size, place


def _walk(beat: I64, size: int, start: int, tests: I64, hits: I64, found: int) -> int:
    """The items among the next ``size`` that fit ``beat`` and all ``tests``; like :func:`_count` otherwise.

    ``start`` is the block's first item. Moduli are below 2^32, or powers of two.
    """
    item, place, room = beat[NEXT], beat[PLACE], beat[ROOM]
    up, up_steps, down, down_steps = beat[UP], beat[UP_STEPS], beat[DOWN], beat[DOWN_STEPS]
    while item < size:
        if _passes(u64(start) + u64(item), tests):
            if found < hits.size:
                hits[found] = item
            found += 1
        rises, falls = place < room, place >= down
        place += (up if rises or not falls else i64(0)) - (down if falls or not rises else i64(0))
        item += (up_steps if rises or not falls else i64(0)) + (down_steps if falls or not rises else i64(0))
    beat[NEXT], beat[PLACE] = item - size, place
    return found


@inlined
def _passes(item: np.uint64, tests: I64) -> bool:
    for at in range(tests.shape[0]):
        test = tests[at]
        modulus, stride = u64(test[MODULUS]), u64(test[STRIDE])
        if item % stride != u64(test[OFFSET]):
            return False
        s = item // stride
        if modulus & (modulus - u64(1)):
            y = (u64(test[FACTOR]) * (s % modulus) + u64(test[TERM])) % modulus
        else:
            y = (u64(test[FACTOR]) * s + u64(test[TERM])) & (modulus - u64(1))
        if y >= u64(test[SIZE]):
            return False
    return True


Count: TypeAlias = Callable[[I64, int, int, U16, I64, int], int]
Walk: TypeAlias = Callable[[I64, int, int, I64, I64, int], int]


@cache
def count() -> Count:
    """:func:`_count`, compiled or taken from numba's cache."""
    return kernel(_count, "int64(int64[:,::1], int64, int64, uint16[::1], int64[::1], int64)")


@cache
def walk() -> Walk:
    """:func:`_walk`, compiled or taken from numba's cache."""
    return kernel(_walk, "int64(int64[::1], int64, uint64, int64[:,::1], int64[::1], int64)")
