"""How long will it take? A first answer: the moving average of the log of what its like took before."""

from __future__ import annotations

import math
import re

from hostler.model.record import record

ALPHA = 0.3
FORGET = 0.97
"""A single outlier stops mattering for `longest_s` after some hundred jobs."""
TRUSTED_SAMPLES = 3


@record
class Estimate:
    """Running estimate of a duration: mean of `log(seconds)` by exponential weights, and how many samples it saw.

    `longest_s` is the longest seen, slowly forgotten: who must not be kept waiting is planned for with that.
    """

    log_s: float
    longest_s: float
    samples: int

    @property
    def seconds(self) -> float:
        """The typical duration (the geometric mean)."""
        return math.exp(self.log_s)


def learn(estimate: Estimate | None, seconds: float) -> Estimate:
    """The estimate after one more job of the family took `seconds`."""
    sample = math.log(max(seconds, 1e-4))
    if estimate is None:
        return Estimate(log_s=sample, longest_s=seconds, samples=1)
    return Estimate(
        log_s=(1 - ALPHA) * estimate.log_s + ALPHA * sample,
        longest_s=max(seconds, FORGET * estimate.longest_s),
        samples=estimate.samples + 1,
    )


def at_most(estimate: Estimate | None) -> float | None:
    """Seconds that a job of the family will hardly exceed; `None` while too few were seen to say."""
    if estimate is None or estimate.samples < TRUSTED_SAMPLES:
        return None
    return estimate.longest_s


def family(name: str, program: str) -> str:
    """The group a script is expected to behave like: its program, and its name with numbers left out."""
    return f"{program} {_NUMBERS.sub('#', name)}"


_NUMBERS = re.compile(r"\d+")
