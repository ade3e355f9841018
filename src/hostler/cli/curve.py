"""A curve with intervals, drawn in characters."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

ROWS = 12
"""About so many rows are drawn; the scale is chosen so that each is a round step."""
LEAST_SPAN = 100.0
"""A curve that moves less than this is not blown up to fill the height."""
STEPS = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
"""What a row may stand for, times a power of ten."""
LABELLED = 3
"""Every third row has its value beside it, 0 among them."""
RIGHT = 9
"""Columns for the names of levels."""

POINT, INTERVAL, ABOVE, BELOW, LEVEL, EVENT = "●", "│", "↑", "↓", "┈", "▲"


class Point(NamedTuple):
    """A value at a time (Unix seconds) with its interval."""

    at: float
    value: float
    low: float
    high: float


class Scale(NamedTuple):
    """Rows of `step` each, from `bottom` up."""

    bottom: float
    step: float
    rows: int

    def row(self, value: float) -> int:
        """The row a value falls in, 0 the lowest; may lie outside."""
        return round((value - self.bottom) / self.step)


def curve(points: Sequence[Point], levels: Mapping[str, float], events: Sequence[float], width: int) -> list[str]:
    """Lines of at most `width` (40 or more) columns: points over time (local), highest line first.

    `levels` are named horizontal lines, drawn where they fall into the picture; `events` are times, marked below it. Of
    several points in one column the newest is drawn. An interval that leaves the picture ends in an arrow. No points,
    no lines.
    """
    if not points:
        return []
    scale = _scale(points)
    left = max(len(_label(scale, row)) for row in range(scale.rows))
    columns = width - left - (RIGHT if levels else 0)
    begin, end = min([points[0].at, *events]), max([points[-1].at, *events])
    grid = [[" "] * columns for _ in range(scale.rows)]
    named = _draw_levels(grid, scale, levels)
    for column, point in {_column(each.at, begin, end, columns): each for each in points}.items():
        _draw_point(grid, scale, column, point)
    lines = [f"{_label(scale, row):>{left}}{''.join(cells)} {named.get(row, '')}" for row, cells in enumerate(grid)]
    axis = " " * (left - 1) + "└" + "─" * columns
    return [*(line.rstrip() for line in reversed(lines)), axis, *_below(left, columns, begin, end, events)]


def _scale(points: Sequence[Point]) -> Scale:
    """A scale that holds every value, and of the intervals as much as leaves the values readable."""
    least, most = min(point.value for point in points), max(point.value for point in points)
    room = max(most - least, LEAST_SPAN)
    low = max(min(point.low for point in points), least - room)
    high = min(max(point.high for point in points), most + room)
    step = _round_up(max(high - low, LEAST_SPAN) / (ROWS - 1))
    bottom = math.floor(low / step) * step
    return Scale(bottom, step, math.ceil((high - bottom) / step) + 1)


def _round_up(value: float) -> float:
    power = 10.0 ** math.floor(math.log10(value))
    return next(factor * power for factor in STEPS if factor * power >= value * (1 - 1e-9))


def _label(scale: Scale, row: int) -> str:
    """What stands left of a row."""
    step = round(scale.bottom / scale.step) + row
    return f"{step * scale.step:.0f} ┤" if step % LABELLED == 0 else "│"


def _column(at: float, begin: float, end: float, columns: int) -> int:
    """Where a time falls; a single one into the middle."""
    return columns // 2 if end <= begin else 1 + round((at - begin) / (end - begin) * (columns - 3))


def _draw_levels(grid: list[list[str]], scale: Scale, levels: Mapping[str, float]) -> dict[int, str]:
    """Draw the levels; returns their names by row."""
    crowd: dict[int, list[str]] = defaultdict(list)
    for name, value in sorted(levels.items(), key=lambda level: -level[1]):
        row = scale.row(value)
        if 0 <= row < scale.rows:
            grid[row][:] = LEVEL * len(grid[row])
            crowd[row].append(name)
    return {row: _named(names) for row, names in crowd.items()}


def _named(names: Sequence[str]) -> str:
    """The highest of the levels in one row, and how many more there are."""
    more = f"+{len(names) - 1}" if len(names) > 1 else ""
    return names[0][: RIGHT - 1 - len(more)] + more


def _draw_point(grid: list[list[str]], scale: Scale, column: int, point: Point) -> None:
    top = scale.rows - 1
    low, high = scale.row(point.low), scale.row(point.high)
    for row in range(max(low, 0), min(high, top) + 1):
        grid[row][column] = INTERVAL
    if low < 0:
        grid[0][column] = BELOW
    if high > top:
        grid[top][column] = ABOVE
    grid[scale.row(point.value)][column] = POINT


def _below(left: int, columns: int, begin: float, end: float, events: Sequence[float]) -> list[str]:
    """The marks of the events, and the times of both ends."""
    marks = [" "] * columns
    for at in events:
        marks[_column(at, begin, end, columns)] = EVENT
    margin = " " * left
    first, last = _clock(begin), _clock(end)
    times = f"{last:^{columns}}" if end <= begin else f"{first}{last:>{columns - len(first)}}"
    return [(margin + line).rstrip() for line in ("".join(marks), times) if line.strip()]


def _clock(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
