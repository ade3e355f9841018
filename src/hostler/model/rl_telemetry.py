"""What a training by reinforcement tells of advice, as the controller takes it: bounded, and unknown is `None`.

Nobody vouches for what a job writes: names that it makes up are never taken from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from hostler.model.numbers import Count
from hostler.model.record import record

OUTCOMES = ("answered", "garbage", "limited", "failed", "denied", "timeout", "refused", "broken")
"""What calls for advice come to."""
OTHER = "other"
"""What they come to that is none of these."""
ANSWERED = "answered"
"""As they should be."""
ADVICE = "advice"
"""The component of a reward that advice is paid as."""
HEARD_MOST = 64
"""Trainings that are listened to at once, the oldest first: each has series of its own."""


@record
class Waits:
    """How long calls were waited for, those that were answered and those that were given up."""

    within: tuple[tuple[float, Count], ...]
    """How many took no longer than so many seconds: rising, and each counts those before it as well."""
    calls: Count
    seconds: float
    """All of them together."""

    def quantile(self, part: float) -> float | None:
        """What that part of the calls took at most: evenly between two bounds, the last bound where it was longer.

        `None`: there were none.
        """
        if self.calls <= 0 or not self.within:
            return None
        rank = part * self.calls
        for (low, fewer), (high, more) in pairwise([(0.0, 0), *self.within]):
            if more >= rank and more > fewer:
                return low + (high - low) * max(rank - fewer, 0.0) / (more - fewer)
        return self.within[-1][0]


@record
class AdviceTold:
    """What became of advice in all of a training's life."""

    calls: Mapping[str, Count]
    """By `OUTCOMES` and `OTHER`; nothing is left out that is 0 only."""
    success: float | None
    """Share of the last calls that were answered as they should be."""
    resting: float | None
    """Share of the workers that leave the endpoint alone."""
    waits: Waits | None
