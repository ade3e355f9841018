"""Arithmetic that kernels share."""

import numpy as np

from hostler.workloads.sieve.compiled import inlined

u64 = np.uint64


@inlined
def high_product(x: np.uint64, y: np.uint64) -> np.uint64:
    """The upper half of a product of 128 bits."""
    x0, x1, y0, y1 = x & u64(0xFFFFFFFF), x >> u64(32), y & u64(0xFFFFFFFF), y >> u64(32)
    middle = x1 * y0 + (x0 * y0 >> u64(32))
    other = x0 * y1 + (middle & u64(0xFFFFFFFF))
    return u64(x1 * y1 + (middle >> u64(32)) + (other >> u64(32)))
