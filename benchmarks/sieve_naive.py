"""The original's sieve without early exit, as fast as numba makes it by plain means; for sieve_methods.py.

Every draw of every gap is made for every seed. Where plain would be unfair it is not: the steps of a gap are made at
once, many seeds go side by side in vectors, and the modulus 2^31 - 1 is folded, not divided by.
"""

import numba
import numpy as np
import numpy.typing as npt

A, C, M, MODULUS = 1103515245, 12345, 2147483647, 1000
"""The generator the original calls lcg32, and what it compares."""
LANES = 256

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]


def jumps(gaps: int) -> U64:
    """For each gap below ``gaps`` the factor and the term of ``gap + 1`` steps at once."""
    made = [(A, C)]
    for _ in range(gaps - 1):
        factor, term = made[-1]
        made.append((factor * A % M, (term * A + C) % M))
    return np.array(made, np.uint64)


@numba.njit(cache=True)
def naive_sieve(start: int, stop: int, draws: npt.NDArray[np.uint32], steps: U64, need: int, found: I64) -> int:
    """Writes the seeds for which, in one of the gaps of ``steps``, ``need`` draws fit; returns how many.

    ``stop - start`` is a multiple of :data:`LANES`, ``stop`` below 2^31 - 1.
    """
    x, fitting = np.empty(LANES, np.uint64), np.empty(LANES, np.uint32)
    best = np.empty(LANES, np.uint32)
    count = 0
    for base in range(start, stop, LANES):
        best[:] = 0
        for gap in range(len(steps)):
            factor, term = steps[gap, 0], steps[gap, 1]
            for lane in range(LANES):
                x[lane], fitting[lane] = np.uint64(base + lane), 0
            for draw in draws:
                for lane in range(LANES):
                    y = factor * x[lane] + term
                    y = (y & np.uint64(M)) + (y >> np.uint64(31))
                    y = (y & np.uint64(M)) + (y >> np.uint64(31))
                    y = y - np.uint64(M) if y >= np.uint64(M) else y
                    x[lane] = y
                    fitting[lane] += np.uint32(np.uint32(y) % np.uint32(MODULUS) == draw)
            for lane in range(LANES):
                best[lane] = max(best[lane], fitting[lane])
        for lane in range(LANES):
            if best[lane] >= need and count < len(found):
                found[count] = base + lane
                count += 1
    return count
