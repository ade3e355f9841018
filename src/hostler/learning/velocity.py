"""How fast does a config learn? The slope of its ratings over time, with an interval; in Elo per day, and nothing else.

Every point counts by the certainty of its rating. The points are taken as they are: a maximum over noisy ratings
would only ever rise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hostler.model.learning import INTERVAL_SD, Rating
from hostler.model.record import record

DAY_S = 86_400.0
SD_MIN = 1.0
"""Elo; no rating is taken for better known than this, so that a fixed one does not outweigh all others."""


@record
class Point:
    """The rating of whoever stood for the config at a time (seconds, of any one clock)."""

    at_s: float
    rating: Rating


@record
class Velocity:
    """Slope with its 95 % interval, in Elo per day; `days` is the time from the first point to the last."""

    elo_per_day: float
    low: float
    high: float
    points: int
    days: float


def velocity(points: Sequence[Point]) -> Velocity | None:
    """Weighted least squares over the points; `None` with fewer than two, or with no time between them.

    The interval is that of the ratings' own. Where the points scatter about the line by more than their intervals
    explain (a curve, a setback), it is widened by the square root of chi² per degree of freedom.
    """
    if len(points) < 2:
        return None
    times = [point.at_s / DAY_S for point in points]
    days = max(times) - min(times)
    weights = [1 / max(point.rating.sd, SD_MIN) ** 2 for point in points]
    elos = [point.rating.elo for point in points]
    centre, level = _mean(times, weights), _mean(elos, weights)
    leverage = math.fsum(weight * (time - centre) ** 2 for weight, time in zip(weights, times, strict=True))
    if days <= 0 or leverage <= 0:
        return None
    moments = zip(weights, times, elos, strict=True)
    slope = math.fsum(weight * (time - centre) * (elo - level) for weight, time, elo in moments) / leverage
    misfits = zip(weights, times, elos, strict=True)
    chi2 = math.fsum(weight * (elo - level - slope * (time - centre)) ** 2 for weight, time, elo in misfits)
    half = INTERVAL_SD * math.sqrt(max(1.0, chi2 / max(len(points) - 2, 1)) / leverage)
    return Velocity(elo_per_day=slope, low=slope - half, high=slope + half, points=len(points), days=days)


def gain(ratings: tuple[Rating, Rating] | None, since: float, until: float) -> Velocity:
    """What was gained from the first rating to the second, over that time (seconds); `None`: it is the same player's.

    The interval is that of the difference of two ratings that err independently, which is wide rather than narrow.
    """
    days = (until - since) / DAY_S
    if ratings is None:
        return Velocity(elo_per_day=0.0, low=0.0, high=0.0, points=2, days=days)
    before, after = ratings
    slope, half = (after.elo - before.elo) / days, INTERVAL_SD * math.hypot(before.sd, after.sd) / days
    return Velocity(elo_per_day=slope, low=slope - half, high=slope + half, points=2, days=days)


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    weighted = (value * weight for value, weight in zip(values, weights, strict=True))
    return math.fsum(weighted) / math.fsum(weights)
