"""The compiled part of ``halves``: all upper halves that fit some draws, for one lower half after the other, tested.

States modulo ``2^k`` stand in the upper ``k`` bits of 64, so that overflow is the modulus. Like :mod:`kernels` this is
one file, because numba's cache notices a change of the kernel's own file only.
"""

from collections.abc import Callable
from functools import cache
from math import ceil, floor, inf
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hostler.workloads.sieve.compiled import inlined, kernel

F64: TypeAlias = npt.NDArray[np.float64]
I64: TypeAlias = npt.NDArray[np.int64]
U64: TypeAlias = npt.NDArray[np.uint64]
Ends: TypeAlias = tuple[np.int64, np.int64]

UNUSED, SPLIT, BASE, STRIDE, STEP, ADD = range(6)
"""The frame: how many of 64 bits are not used, how many bits a lower half has, which upper half the first coordinate 0
and each one further stand for; the generator's step."""

FACTOR, TERM, ORIGIN, WORD, LOW, ROTATE, INVERSE, COUNT = range(8)
"""A map: the upper half of its word is that of ``FACTOR * state + TERM``; that plus ``ORIGIN``, cut by the mask
``WORD``, must be 0 in the bits ``LOW``, and the rest, without ``ROTATE`` bits and times ``INVERSE``, cut by ``COUNT``,
is the place."""

MOVE, MORE, SHIFT, MASK, LIMIT, TARGET, INVERT, TURN, BOUND = range(9)
"""A row: the step from the word before, in two numbers; the part of the word; above what it is drawn again; and what it
must be, ``TARGET`` and up to ``BOUND`` times ``odd * 2^TURN`` more, with ``INVERT`` of the odd number."""

i64 = np.int64
u64 = np.uint64


def _meet(
    start: int,
    stop: int,
    frame: U64,
    maps: U64,
    basis: I64,
    centre: F64,
    inverse: F64,
    planes: F64,
    starts: I64,
    rows: U64,
    hits: U64,
) -> int:
    """The states with a lower half in ``[start, stop)`` that may fit the maps' places and fit all rows, to ``hits``.

    The rows of ``basis``, coordinates as the maps', are stepped along within ``planes``: those of row ``k`` are
    ``planes[starts[k]:starts[k + 1]]``. ``inverse`` is that of the basis, ``centre`` the box's. Returns how many states
    there are; it stops at the first for which ``hits`` has no room, and counts it.
    """
    size = basis.shape[0]
    places, heights = np.zeros((size + 1, size)), np.zeros(size + 1, np.uint64)
    steps, ends, origin = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    stride = u64(frame[STRIDE] * u64(basis[0, 0])) << u64(frame[SPLIT] + frame[UNUSED])
    found = 0
    for low in range(start, stop):
        if not _set_out(u64(low), frame, maps, origin):
            continue
        _approach(origin, basis, centre, inverse)
        places[size] = origin
        heights[size] = u64(origin[0])
        at = size - 1
        steps[at], ends[at] = _between(planes[starts[at] : starts[at + 1]], places[size])
        while at < size:
            if steps[at] > ends[at]:
                at += 1
                if at < size:
                    steps[at] += 1
                continue
            height = u64(heights[at + 1] + u64(steps[at]) * u64(basis[at, 0]))
            if at:
                heights[at] = height
                for i in range(size):
                    places[at, i] = places[at + 1, i] + steps[at] * basis[at, i]
                at -= 1
                if at:
                    steps[at], ends[at] = _between(planes[starts[at] : starts[at + 1]], places[at + 1])
                else:
                    steps[0], ends[0] = _along(planes, places[1])
                continue
            x = u64(_upper(height, frame) | u64(low)) << frame[UNUSED]
            for _ in range(steps[0], ends[0] + 1):
                if _follows(x, frame, rows):
                    if found == hits.size:
                        return found + 1
                    hits[found] = x >> frame[UNUSED]
                    found += 1
                x = u64(x + stride)
            steps[0] = ends[0] + 1
    return found


@inlined
def _upper(height: np.uint64, frame: U64) -> np.uint64:
    return u64(u64(frame[BASE] + frame[STRIDE] * height) << frame[SPLIT])


@inlined
def _set_out(low: np.uint64, frame: U64, maps: U64, origin: I64) -> bool:
    """A point of the lattice of a lower half; ``False`` if no upper half goes with it."""
    origin[0] = 0
    for at in range(maps.shape[0]):
        each = maps[at]
        made = u64(u64(each[FACTOR] * low + each[TERM]) << frame[UNUSED]) >> u64(frame[UNUSED] + frame[SPLIT])
        made = u64(made + each[ORIGIN]) & each[WORD]
        if made & each[LOW]:
            return False
        origin[at + 1] = i64(u64(u64(made >> each[ROTATE]) * each[INVERSE]) & each[COUNT])
    return True


@inlined
def _approach(origin: I64, basis: I64, centre: F64, inverse: F64) -> None:
    """From a point of the lattice to one near the box, so that floats tell small numbers apart.

    Numbers on the way may overflow; where it ends they are small, and exact.
    """
    size = origin.size
    away = centre - origin
    for k in range(size):
        steps = 0.0
        for i in range(size):
            steps += away[i] * inverse[i, k]
        for i in range(size):
            origin[i] += i64(round(steps)) * basis[k, i]


@inlined
def _between(planes: F64, place: F64) -> Ends:
    """The first and the last step that the planes allow."""
    low, high, size = -inf, inf, place.size
    for at in range(planes.shape[0]):
        value = 0.0
        for i in range(size):
            value += planes[at, i] * place[i]
        low, high = max(low, planes[at, size] - value), min(high, planes[at, size + 1] - value)
    return (i64(ceil(low)), i64(floor(high))) if low <= high else (i64(1), i64(0))


@inlined
def _along(planes: F64, place: F64) -> Ends:
    """The same for the planes of the first row, one a coordinate."""
    low, high, size = -inf, inf, place.size
    for i in range(size):
        value = planes[i, i] * place[i]
        low, high = max(low, planes[i, size] - value), min(high, planes[i, size + 1] - value)
    return (i64(ceil(low)), i64(floor(high))) if low <= high else (i64(1), i64(0))


@inlined
def _follows(x: np.uint64, frame: U64, rows: U64) -> bool:
    """Whether the words after the state ``x`` meet all rows, with whatever is drawn again among them."""
    for at in range(rows.shape[0]):
        row = rows[at]
        x = u64(row[MOVE] * x + row[MORE])
        v = u64(x >> row[SHIFT]) & row[MASK]
        while v > row[LIMIT]:
            x = u64(frame[STEP] * x + frame[ADD])
            v = u64(x >> row[SHIFT]) & row[MASK]
        # The quotient if it is exact, and more than any quotient if not.
        z = u64(u64(v - row[TARGET]) * row[INVERT])
        if (u64(z >> row[TURN]) | u64(z << u64((u64(64) - row[TURN]) & u64(63)))) > row[BOUND]:
            return False
    return True


Meet: TypeAlias = Callable[[int, int, U64, U64, I64, F64, F64, F64, I64, U64, U64], int]


@cache
def meet() -> Meet:
    """:func:`_meet`, compiled or taken from numba's cache."""
    return kernel(
        _meet,
        "int64(int64, int64, uint64[::1], uint64[:,::1], int64[:,::1], float64[::1], float64[:,::1], "
        "float64[:,::1], int64[::1], uint64[:,::1], uint64[::1])",
    )
