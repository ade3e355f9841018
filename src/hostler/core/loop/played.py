"""What was played of a config: of segments that are in the state, and in sums of those that have left it.

Sums of all of them stay, and those of the newest hours: as many as are shown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from hostler.core.loop.state import RECORDED, Config, Hour, Segment
from hostler.model.views import HourView

HOUR_S = 3600.0
HOURS_KEPT = 31 * 24
"""The newest hours with games that are shown; of older ones only their part of the whole stays."""
LEAST_SPAN_S = 60.0
"""A rate is not told of less time than this."""


def games(config: Config) -> int:
    """All games, those that evaluations recorded too."""
    return config.past_games + config.past_recorded + sum(each.games for each in config.segments.values())


def selfplay_games(config: Config) -> int:
    """Games of self-play alone."""
    return config.past_games + sum(each.games for each in config.segments.values() if each.player != RECORDED)


def games_since(config: Config, at: float) -> int:
    """Games that came after that time; of segments that have left, those of hours that began after it."""
    past = sum(each.games for number, each in config.past_hours.items() if number * HOUR_S >= at)
    return past + sum(each.games for each in _since(config, at))


def games_per_h(config: Config, now: float) -> float | None:
    """Over the last hour or, of a younger config, since its first segment; `None` where that is no time yet."""
    span_s = _span_s(config, now)
    if span_s is None:
        return None
    # The games of the first segment were played before it came in: they do not count in a younger span.
    return sum(each.games for each in _since(config, now - span_s)) * HOUR_S / span_s


def hours(config: Config) -> Sequence[HourView]:
    """The newest hours in which games came, oldest first."""
    summed = {number: replace(each) for number, each in config.past_hours.items()}
    for segment in config.segments.values():
        _add(summed, segment)
    return [
        HourView(at=number * HOUR_S, games=each.games, positions=each.positions, cpu_s=each.cpu_s)
        for number, each in sorted(summed.items())[-HOURS_KEPT:]
    ]


def lately(config: Config, now: float) -> Iterator[Segment]:
    """What the rate of the last hour is told of: this much has to be in the state."""
    return _since(config, now - HOUR_S)


def keep_sums(config: Config, left: Collection[Segment]) -> None:
    """Keep what is shown of segments that leave the state."""
    for each in left:
        if each.player == RECORDED:
            config.past_recorded += each.games
        else:
            config.past_games += each.games
        _add(config.past_hours, each)
    for number in sorted(config.past_hours)[:-HOURS_KEPT]:
        del config.past_hours[number]


def _since(config: Config, at: float) -> Iterator[Segment]:
    return takewhile(lambda each: each.at > at, reversed(config.segments.values()))


def _span_s(config: Config, now: float) -> float | None:
    if config.past_games or config.past_recorded:
        return HOUR_S  # what has left is older than that
    first = next(iter(config.segments.values()), None)
    if first is None or now - first.at < LEAST_SPAN_S:
        return None
    return min(now - first.at, HOUR_S)


def _add(summed: dict[int, Hour], segment: Segment) -> None:
    hour = summed.setdefault(int(segment.at // HOUR_S), Hour())
    hour.games += segment.games
    hour.positions += segment.positions
    hour.cpu_s = None if hour.cpu_s is None or segment.cpu_s is None else hour.cpu_s + segment.cpu_s
