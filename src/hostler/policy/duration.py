"""How long will it take? What its like took before, most of all on devices of the same model.

Durations are learnt as logarithms, because they differ by factors. Each level of likeness (this config on this model of
device, this config anywhere, this kind of work) has an estimate of its own; a prediction draws each towards the next
more general one, the more the fewer samples it has: partial pooling in the manner of James and Stein, with weights from
the data (empirical Bayes; Efron and Morris, 1973). Quantiles are those of the log-normal distribution.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from hostler.model.record import record
from hostler.model.work import SECONDS_MAX

ALPHA = 0.3
"""Least weight of the newest sample in the moving average; the first few count alike."""
SPREAD_ALPHA = 0.1
"""The same for the spread, which needs more samples to be seen."""
FORGET = 0.97
"""A single outlier stops mattering for `longest_s` after some hundred jobs."""
TRUSTED_SAMPLES = 3

SHORTEST_S = 1e-4
USUAL_VAR = 0.25
"""Variance of log durations where too few were seen: nine in ten are done within 1.9 times the typical."""
VAR_SAMPLES = 2.0
"""Samples that `USUAL_VAR` is worth."""
POOLING = (0.05, 8.0)
"""Samples that the more general level is worth beside the more specific one, least and most."""
Z_90 = 1.2815515655446004
"""Nine tenths of a normal distribution lie below so many standard deviations above its mean."""
OWN_SHARE = 0.9

JUDGED_ALPHA = 0.05
"""Least weight of the newest prediction in the running error."""


@record
class Estimate:
    """Running estimate of a duration: mean of `log(seconds)` by exponential weights, and how many samples it saw.

    `longest_s` is the longest seen, slowly forgotten: who must not be kept waiting is planned for with that.
    """

    log_s: float
    longest_s: float
    samples: int
    var: float | None = None
    """Mean square of what each sample was off the mean before it; `None`: too few samples to say."""

    @property
    def seconds(self) -> float:
        """The typical duration (the geometric mean)."""
        return math.exp(self.log_s)


Source: TypeAlias = Literal["measured", "blended", "scaled"]
"""Whether a prediction rests on its like on that model, partly so, or not at all."""


@record
class Prediction:
    """How long something will take, in seconds: as likely more as less, and hardly more."""

    p50_s: float
    p90_s: float
    samples: int
    """Seen at the most specific level of which anything is known."""
    source: Source


@record
class Accuracy:
    """How good predictions were of late."""

    log_error: float
    """Running mean of `|log(actual / predicted)|`."""
    within_2: float
    """Running share of those that were right within a factor 2."""
    samples: int

    @property
    def factor(self) -> float:
        """By which factor predictions are typically off; 1 is perfect."""
        return math.exp(self.log_error)


def learn(estimate: Estimate | None, seconds: float) -> Estimate:
    """The estimate after one more job of the family took `seconds`."""
    sample = math.log(max(seconds, SHORTEST_S))
    if estimate is None:
        return Estimate(log_s=sample, longest_s=seconds, samples=1)
    samples, off = estimate.samples + 1, sample - estimate.log_s
    return Estimate(
        log_s=estimate.log_s + max(ALPHA, 1 / samples) * off,
        longest_s=max(seconds, FORGET * estimate.longest_s),
        samples=samples,
        var=_spread(estimate, off),
    )


def at_most(estimate: Estimate | None) -> float | None:
    """Seconds that a job of the family will hardly exceed; `None` while too few were seen to say."""
    if estimate is None or estimate.samples < TRUSTED_SAMPLES:
        return None
    return estimate.longest_s


def predict(levels: Sequence[Estimate | None], scale: float = 1.0) -> Prediction | None:
    """How long it will take, from estimates of its like, the most specific first; `None` if nothing is known.

    Only the first is of the model of device in question. The others hold seconds on a device of reference, of which it
    takes `scale` (> 0) times as many here: the power of that device by the power of this one.
    """
    longer = math.log(scale)
    known = [(level, 0.0 if depth == 0 else longer) for depth, level in enumerate(levels) if level is not None]
    if not known:
        return None
    pooled: _Pooled | None = None
    for level, shift in reversed(known):
        pooled = _drawn(level, shift, pooled)
    assert pooled is not None
    first = known[0][0]
    deviation = Z_90 * math.sqrt(pooled.var)
    return Prediction(
        p50_s=_seconds(pooled.log_s),
        p90_s=_seconds(pooled.log_s + deviation),
        samples=first.samples,
        source=_source(levels[0], pooled),
    )


def judge(accuracy: Accuracy | None, predicted_s: float, actual_s: float) -> Accuracy:
    """The running error after one more prediction turned out like this."""
    error = abs(math.log(max(actual_s, SHORTEST_S) / max(predicted_s, SHORTEST_S)))
    hit = 1.0 if error <= math.log(2) else 0.0
    if accuracy is None:
        return Accuracy(log_error=error, within_2=hit, samples=1)
    samples = accuracy.samples + 1
    weight = max(JUDGED_ALPHA, 1 / samples)
    return Accuracy(
        log_error=accuracy.log_error + weight * (error - accuracy.log_error),
        within_2=accuracy.within_2 + weight * (hit - accuracy.within_2),
        samples=samples,
    )


def family(name: str, program: str) -> str:
    """The group a script is expected to behave like: its program, and its name with numbers left out."""
    return f"{program} {_NUMBERS.sub('#', name)}"


@record
class _Pooled:
    """Mean and variance of the logarithm at a level, drawn towards all more general ones; and its own weight in it."""

    log_s: float
    var: float
    own: float


def _spread(estimate: Estimate, off: float) -> float:
    """The mean square of prediction errors: it holds the mean's own uncertainty, and that is what quantiles need."""
    if estimate.var is None:
        return off * off
    weight = max(SPREAD_ALPHA, 1 / estimate.samples)
    return estimate.var + weight * (off * off - estimate.var)


def _drawn(level: Estimate, shift: float, parent: _Pooled | None) -> _Pooled:
    """A level drawn towards its parent with the weight `n / (n + k)`.

    `k` is the variance within the level by that between levels of one parent, which the parent's own variance holds.
    """
    var = _usual_var(level)
    if parent is None:
        return _Pooled(log_s=level.log_s + shift, var=var, own=1.0)
    least, most = POOLING
    between = parent.var - var
    pooling = most if between <= 0 else min(max(var / between, least), most)
    own = level.samples / (level.samples + pooling)
    return _Pooled(
        log_s=own * (level.log_s + shift) + (1 - own) * parent.log_s,
        var=own * var + (1 - own) * parent.var,
        own=own,
    )


def _usual_var(level: Estimate) -> float:
    """A level's variance, drawn towards the usual one while it has few samples."""
    if level.var is None:
        return USUAL_VAR
    weight = (level.samples - 1) / (level.samples - 1 + VAR_SAMPLES)
    return weight * level.var + (1 - weight) * USUAL_VAR


def _seconds(log_s: float) -> float:
    return math.exp(min(log_s, math.log(SECONDS_MAX)))


def _source(own: Estimate | None, pooled: _Pooled) -> Source:
    if own is None:
        return "scaled"
    return "measured" if pooled.own >= OWN_SHARE else "blended"


_NUMBERS = re.compile(r"\d+")
