"""Tests of the order of draws: correlation at lags, runs about the middle, periods."""

from __future__ import annotations

import math

import numpy as np

from hostler.workloads.sieve.correlation.results import Result
from hostler.workloads.sieve.correlation.samples import Sample
from hostler.workloads.sieve.correlation.special import fisher_tail, normal_two_sided

LEAST = 50
"""Fewest draws for sums that are taken as normal."""


def lags(sample: Sample, most: int) -> list[Result]:
    """Autocorrelation at lags 1 to ``most``, at most a quarter of the draws; a test for each.

    Products about the mean of all, which is taken out; pairs with an unknown draw do not count. Their sum has, over all
    orders of the same draws, the mean ``-pairs s^2 / n`` and nearly the variance ``pairs s^4`` (P. A. P. Moran,
    Biometrika 35, 1948), ``s^2`` being the variance of the draws.
    """
    n = len(sample.known)
    if n < LEAST:
        return [Result(sample.source, "lag", "lag 1", None, None, n, f"{LEAST} known draws at least are needed")]
    values = sample.scaled(sample.draws)
    values = np.where(sample.is_known, values - values[sample.is_known].mean(), 0.0)
    variance = float((values**2).sum()) / (n - 1)
    if variance == 0.0:
        return [Result(sample.source, "lag", "lag 1", None, None, n, "all draws are the same")]
    found = []
    for lag in range(1, min(most, len(values) // 4) + 1):
        pairs = int(np.count_nonzero(sample.is_known[:-lag] & sample.is_known[lag:]))
        if pairs >= LEAST:
            found.append(_lag(sample, lag, float(values[:-lag] @ values[lag:]), pairs, variance))
    return found


def _lag(sample: Sample, lag: int, total: float, pairs: int, variance: float) -> Result:
    n = len(sample.known)
    z = (total + pairs * variance / n) / (variance * math.sqrt(pairs * (1 - pairs / n**2)))
    correlation = total / (pairs * variance)
    note = f"normal score; correlation {correlation:+.4f} of {pairs} pairs"
    return Result(sample.source, "lag", f"lag {lag}", z, normal_two_sided(z), pairs, note)


def runs(sample: Sample) -> list[Result]:
    """Runs above and below the middle (A. Wald, J. Wolfowitz, Annals of Mathematical Statistics 11, 1940).

    Given how many lie on each side. Draws in the very middle count on neither side; unknown ones are passed over.
    """
    sides = np.array([2 * i > sample.size - 1 for i in sample.known if 2 * i != sample.size - 1], dtype=np.bool_)
    n, above = len(sides), int(np.count_nonzero(sides))
    below = n - above
    if min(above, below) < 20:
        note = f"20 draws on each side of the middle are needed, there are {above} and {below}"
        return [Result(sample.source, "runs", "above and below", None, None, n, note)]
    counted = 1 + int(np.count_nonzero(sides[1:] != sides[:-1]))
    mean = 2 * above * below / n + 1
    deviation = math.sqrt((mean - 1) * (mean - 2) / (n - 1))
    z = (counted - mean) / deviation
    note = f"normal score; {counted} runs of {n} draws, {mean:.1f} expected"
    return [Result(sample.source, "runs", "above and below", z, normal_two_sided(z), n, note)]


def spectrum(sample: Sample) -> list[Result]:
    """Whether one period stands out: the largest ordinate of the periodogram against their sum (Fisher's g).

    Its distribution is exact for normal draws, and the limit for others (R. A. Davis and T. Mikosch, Annals of
    Probability 27, 1999). Of the longest stretch without an unknown draw.
    """
    run = sample.run
    n = len(run)
    if n < 2 * LEAST:
        note = f"{2 * LEAST} draws without an unknown one between them are needed"
        return [Result(sample.source, "spectrum", "periodogram", None, None, n, note)]
    values = sample.scaled(run)
    power = np.abs(np.fft.rfft(values - values.mean())[1 : (n - 1) // 2 + 1]) ** 2
    if float(power.sum()) < 1e-18 * n:
        return [Result(sample.source, "spectrum", "periodogram", None, None, n, "all draws are the same")]
    at = int(power.argmax())
    share = float(power[at] / power.sum())
    note = f"largest share of the periodogram, at a period of {n / (at + 1):.5g}; the longest clean run has {n} draws"
    return [Result(sample.source, "spectrum", "periodogram", share, fisher_tail(share, len(power)), n, note)]
