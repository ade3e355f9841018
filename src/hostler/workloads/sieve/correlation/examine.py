"""All tests of all samples, corrected together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hostler.workloads.sieve.correlation.complexity import complexity
from hostler.workloads.sieve.correlation.corrections import benjamini_hochberg, holm
from hostler.workloads.sieve.correlation.counts import frequency, neighbours, poker
from hostler.workloads.sieve.correlation.order import lags, runs, spectrum
from hostler.workloads.sieve.correlation.results import Result, words
from hostler.workloads.sieve.correlation.samples import Sample, Values, sample
from hostler.workloads.sieve.data import Recording

LAGS = 16
ALPHA = 0.01


def examine(
    recordings: Sequence[Recording], values: Sequence[Values], *, most_lag: int = LAGS, alpha: float = ALPHA
) -> list[Result]:
    """Every test of every recording, whose draws are among ``values[i]``; the p-values adjusted over all of them.

    ``alpha`` is what the words go by: the probability of claiming anything where everything is chance. Raises
    :class:`SpecError` for draws outside.
    """
    samples = [sample(recording, each) for recording, each in zip(recordings, values, strict=True)]
    return corrected([result for each in samples for result in every_test(each, most_lag)], alpha)


def every_test(of: Sample, most_lag: int = LAGS) -> list[Result]:
    """Every test of one sample, not corrected."""
    return [
        *frequency(of),
        *neighbours(of),
        *lags(of, most_lag),
        *runs(of),
        *spectrum(of),
        *poker(of),
        *complexity(of),
    ]


def corrected(results: Sequence[Result], alpha: float = ALPHA) -> list[Result]:
    """These results as all tests that were made, with adjusted p-values and words. What could not be tested stays."""
    made = [(i, result.p) for i, result in enumerate(results) if result.p is not None]
    p_values = [p for _, p in made]
    adjusted = list(results)
    for (i, _), family, rate in zip(made, holm(p_values), benjamini_hochberg(p_values), strict=True):
        adjusted[i] = replace(adjusted[i], holm=family, fdr=rate)
    return [replace(result, says=words(result, alpha)) for result in adjusted]
