"""Chi-square tests of counts: values, neighbours, groups of five.

Draws fall into cells: stretches of values (their high parts), and where there are more values than cells also
remainders (their low parts), in which linear congruential generators are weak.
"""

from __future__ import annotations

from itertools import pairwise
from math import isqrt

import numpy as np

from hostler.workloads.sieve.correlation.results import Result
from hostler.workloads.sieve.correlation.samples import Cells, Floats, Sample
from hostler.workloads.sieve.correlation.special import chi_square_tail

LEAST = 5
"""Fewest expected in a cell, for the chi-square distribution to hold (W. G. Cochran, Biometrics 10, 1954)."""
MOST_CELLS = 4096
GROUP = 5
HANDS = {1: 1, 2: 15, 3: 25, 4: 10, 5: 1}
"""Ways to part five things into so many kinds: Stirling numbers of the second kind."""


def frequency(sample: Sample) -> list[Result]:
    """Whether all values come equally often: Pearson's chi-square."""
    return [_frequency(sample, part, cells) for part, cells in _parts(sample, len(sample.known) // LEAST)]


def neighbours(sample: Sample) -> list[Result]:
    """Whether a draw depends on the one before: the chi-square of a table of pairs against its own margins.

    Pairs overlap, which that statistic bears where they come from independent draws (T. W. Anderson and L. A. Goodman,
    Annals of Mathematical Statistics 28, 1957). Pairs with an unknown draw do not count.
    """
    pairs = int(np.count_nonzero(sample.is_known[:-1] & sample.is_known[1:]))
    return [_neighbours(sample, part, cells, pairs) for part, cells in _parts(sample, isqrt(pairs // LEAST))]


def poker(sample: Sample) -> list[Result]:
    """How many different values there are in groups of five draws (D. E. Knuth, TAOCP 2, section 3.3.2 D)."""
    groups = _whole_groups(sample)
    return [_poker(sample, part, cells, groups) for part, cells in _parts(sample, 10)]


def _parts(sample: Sample, most: int) -> list[tuple[str, int]]:
    """High and low parts with how many cells, or one part where each value has its own."""
    cells = min(most, MOST_CELLS, sample.size)
    if cells >= sample.size:
        return [("values", sample.size)]
    return [("high parts", cells), ("low parts", _divisor(sample.size, cells))]


def _divisor(size: int, most: int) -> int:
    """The best number of remainders: the largest divisor of the size, as long as it is a fair part of what may be."""
    best = max((each for each in range(1, most + 1) if size % each == 0), default=1)
    return best if best * best >= most else most


def _cells(sample: Sample, part: str, cells: int) -> Cells:
    """The cell of each draw, -1 for unknown ones."""
    size = sample.size
    if part == "values":
        return np.array([-1 if i is None else i for i in sample.draws], dtype=np.int64)
    if part == "high parts":
        return np.array([-1 if i is None else i * cells // size for i in sample.draws], dtype=np.int64)
    return np.array([-1 if i is None else i % cells for i in sample.draws], dtype=np.int64)


def _shares(sample: Sample, part: str, cells: int) -> Floats:
    """The exact share of values in each cell."""
    size = sample.size
    if part == "low parts":
        counts = [size // cells + (cell < size % cells) for cell in range(cells)]
    else:
        ends = [-(-cell * size // cells) for cell in range(cells + 1)]
        counts = [end - start for start, end in pairwise(ends)]
    return np.array([count / size for count in counts], dtype=np.float64)


def _frequency(sample: Sample, part: str, cells: int) -> Result:
    n = len(sample.known)
    if cells < 2:
        return Result(sample.source, "frequency", part, None, None, n, f"{2 * LEAST} known draws at least are needed")
    counted = _cells(sample, part, cells)
    seen = np.bincount(counted[counted >= 0], minlength=cells)
    wanted = n * _shares(sample, part, cells)
    statistic = float((((seen - wanted) ** 2) / wanted).sum())
    note = f"chi-square of {n} draws in {cells} cells"
    return Result(sample.source, "frequency", part, statistic, chi_square_tail(statistic, cells - 1), n, note)


def _neighbours(sample: Sample, part: str, cells: int, pairs: int) -> Result:
    if cells < 2 or (part == "values" and pairs < LEAST * cells**2):
        return Result(sample.source, "neighbours", part, None, None, pairs, f"{LEAST * 4} pairs at least are needed")
    counted = _cells(sample, part, cells)
    first, second = counted[:-1], counted[1:]
    both = (first >= 0) & (second >= 0)
    table = np.bincount(first[both] * cells + second[both], minlength=cells * cells).reshape(cells, cells)
    table = table[table.sum(1) > 0][:, table.sum(0) > 0]
    rows, columns = table.shape
    if rows < 2 or columns < 2:
        return Result(sample.source, "neighbours", part, None, None, pairs, "all draws lie in one cell")
    wanted = np.outer(table.sum(1), table.sum(0)) / pairs
    statistic = float((((table - wanted) ** 2) / wanted).sum())
    p = chi_square_tail(statistic, (rows - 1) * (columns - 1))
    return Result(sample.source, "neighbours", part, statistic, p, pairs, f"chi-square of {pairs} pairs, {cells} cells")


def _whole_groups(sample: Sample) -> int:
    whole = len(sample.draws) // GROUP
    return int(np.count_nonzero(sample.is_known[: whole * GROUP].reshape(whole, GROUP).all(1)))


def _poker(sample: Sample, part: str, cells: int, groups: int) -> Result:
    wanted = groups * _hands(_shares(sample, part, cells))
    if groups < 2 * LEAST or cells < 2:
        return Result(
            sample.source, "poker", part, None, None, groups, f"{2 * LEAST} groups of five at least are needed"
        )
    whole = len(sample.draws) // GROUP
    hands = _cells(sample, part, cells)[: whole * GROUP].reshape(whole, GROUP)
    hands = np.sort(hands[(hands >= 0).all(1)], axis=1)
    kinds = 1 + np.count_nonzero(hands[:, 1:] != hands[:, :-1], axis=1)
    seen = np.bincount(kinds, minlength=GROUP + 1)[1:]
    merged = _merged(seen.astype(np.float64), wanted)
    if len(merged) < 2:
        return Result(sample.source, "poker", part, None, None, groups, "nearly all groups must look alike")
    statistic = sum((found - mean) ** 2 / mean for found, mean in merged)
    p = chi_square_tail(statistic, len(merged) - 1)
    return Result(sample.source, "poker", part, statistic, p, groups, f"chi-square of {groups} groups of five")


def _hands(shares: Floats) -> Floats:
    """The probabilities of 1 to 5 different cells in five draws, cells having these shares: by adding cell by cell."""
    # ways[k][n]: k different cells made of n draws so far, as exponential generating functions.
    ways = np.zeros((GROUP + 1, GROUP + 1))
    ways[0, 0] = 1.0
    for share in shares:
        more = ways.copy()
        weight = 1.0
        for taken in range(1, GROUP + 1):
            weight *= float(share) / taken
            more[1:, taken:] += weight * ways[:-1, : GROUP + 1 - taken]
        ways = more
    return np.array(ways[1:, GROUP] * 120.0, dtype=np.float64)


def _merged(seen: Floats, wanted: Floats) -> list[tuple[float, float]]:
    """Classes with enough expected in each: small ones go to their neighbour."""
    merged: list[tuple[float, float]] = []
    found = mean = 0.0
    for each, expected in zip(seen, wanted, strict=True):
        found, mean = found + float(each), mean + float(expected)
        if mean >= LEAST:
            merged.append((found, mean))
            found = mean = 0.0
    if merged and mean > 0:
        merged[-1] = (merged[-1][0] + found, merged[-1][1] + mean)
    return merged
