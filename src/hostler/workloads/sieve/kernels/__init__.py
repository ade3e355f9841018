"""The compiled searches: ``generic`` for everything, over the fills in ``engines``; ``special`` for the fastest few."""

from hostler.workloads.sieve.kernels.special import compiled

__all__ = ["compiled"]
