"""How does advice fare of late? From counts of a training's whole life, as they were told from time to time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

from hostler.model.record import record
from hostler.model.rl_telemetry import ANSWERED, AdviceTold, Waits

KEPT = 128
"""Counts that are kept of a training; of more, every other one of the older half goes."""
SURE = 1.96
"""Standard deviations: an interval holds in 19 of 20 cases."""


@record
class Count:
    """Counts, and when they were told."""

    at: float
    told: AdviceTold


@record
class Success:
    """Calls of late, and how many were answered as they should be."""

    calls: int
    answered: int

    @property
    def share(self) -> tuple[float, float, float]:
        """The share, and its interval (Wilson 1927). Raises `ZeroDivisionError` where there were no calls."""
        n, p = self.calls, self.answered / self.calls
        middle, half = p + SURE**2 / (2 * n), SURE * sqrt(p * (1 - p) / n + SURE**2 / (4 * n * n))
        whole = 1 + SURE**2 / n
        return p, max((middle - half) / whole, 0.0), min((middle + half) / whole, 1.0)


def added(counts: Sequence[Count], new: Count) -> tuple[Count, ...]:
    """One more. Where something is less than before, it is another life, and what was before says nothing of it."""
    kept = () if counts and _fell(counts[-1].told, new.told) else tuple(counts)
    if len(kept) >= KEPT:
        half = KEPT // 2
        kept = (*kept[:half:2], *kept[half:])
    return (*kept, new)


def span(counts: Sequence[Count], now: float, window_s: float) -> tuple[Count, Count] | None:
    """What to compare for the last `window_s`: the counts as it began, and the newest; `None`: there is one at most."""
    if len(counts) < 2:
        return None
    before = [each for each in counts[:-1] if each.at <= now - window_s]
    return (before[-1] if before else counts[0]), counts[-1]


def success(first: Count, last: Count) -> Success:
    """What came of the calls between two counts."""
    grown = _grown(first.told.calls, last.told.calls)
    return Success(calls=sum(grown.values()), answered=grown.get(ANSWERED, 0))


def waits(first: Count, last: Count) -> Waits | None:
    """How long calls between two counts were waited for; `None`: that was not told, or not alike."""
    old, new = first.told.waits, last.told.waits
    if new is None or old is None or [each for each, _ in old.within] != [each for each, _ in new.within]:
        return None
    within = tuple((bound, now - then) for (bound, now), (_, then) in zip(new.within, old.within, strict=True))
    return Waits(within=within, calls=new.calls - old.calls, seconds=new.seconds - old.seconds)


def _grown(old: Mapping[str, int], new: Mapping[str, int]) -> Mapping[str, int]:
    return {name: count - old.get(name, 0) for name, count in new.items()}


def _fell(old: AdviceTold, new: AdviceTold) -> bool:
    if any(new.calls.get(name, 0) < count for name, count in old.calls.items()):
        return True
    return old.waits is not None and (new.waits is None or new.waits.calls < old.waits.calls)
