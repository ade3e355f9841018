"""What can go wrong with a Ray cluster: it cannot be asked now, or it refuses what is asked."""

from __future__ import annotations


class RayDown(Exception):
    """It does not answer, or not as it should; later it may. Whether it did what it was asked to do is unknown."""


class RayRefused(Exception):
    """It answers, and does not do that: a token that does not count, a request that it cannot understand."""
