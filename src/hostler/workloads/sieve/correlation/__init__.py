"""Tests of randomness of recorded draws, with p-values that are right and corrected for how many there are.

Start with :mod:`examine`: samples in, results out. It needs numpy; :mod:`special` and :mod:`corrections` do not.
"""

from hostler.workloads.sieve.correlation.examine import examine
from hostler.workloads.sieve.correlation.results import Result
from hostler.workloads.sieve.correlation.samples import Sample, Values, sample

__all__ = ["Result", "Sample", "Values", "examine", "sample"]
