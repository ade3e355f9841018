"""Chance that depends on a seed and a counter alone, so that what one game draws is the same in any company."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def derive(seeds: NDArray[np.uint64], number: int | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Another seed for each seed and number: SplitMix64's output function over a Weyl sequence.

    Source: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    mixed = seeds + GOLDEN * (np.atleast_1d(np.asarray(number, dtype=np.uint64)) + np.uint64(1))
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)), dtype=np.uint64)


def uniform(seeds: NDArray[np.uint64], count: int) -> NDArray[np.float64]:
    """`(batch, count)` numbers strictly between 0 and 1, of 52 bits."""
    # Seeds of neighbouring games may be neighbours too: they are mixed before the counter is.
    drawn = derive(derive(seeds, 0)[:, None], np.arange(count, dtype=np.uint64))
    return ((drawn >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def gumbel(seeds: NDArray[np.uint64], count: int) -> NDArray[np.float64]:
    """`(batch, count)` draws from the standard Gumbel distribution: the largest of logits plus these is a sample."""
    return np.asarray(-np.log(-np.log(uniform(seeds, count))))
