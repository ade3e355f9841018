"""How Slurm writes spans of time, moments, numbers, and the tasks of an array."""

from __future__ import annotations

import math
import re

from hostler.model.record import record

TASKS_MAX = 4_000_001
"""No array of Slurm has more tasks."""
UNLIMITED = frozenset({"infinite", "unlimited"})
MINUTE, HOUR, DAY = 60, 3600, 86400


@record
class Tasks:
    """Some tasks of an array."""

    indices: tuple[int, ...] = ()
    more: bool = False
    """Whether the list was cut off."""


def duration_s(text: str) -> float | None:
    """`1-00:00:00`, `1-12`, `2:30:00`, `30:00` (minutes and seconds) or `90` (minutes); `UNLIMITED` is infinite."""
    text = text.strip()
    if text.lower() in UNLIMITED:
        return math.inf
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    days, parts = found[1], [int(part) for part in found[2].split(":")]
    if days is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
        return float(int(days) * DAY + hours * HOUR + minutes * MINUTE + seconds)
    hours, minutes, seconds = {1: (0, *parts, 0), 2: (0, *parts), 3: tuple(parts)}[len(parts)]
    return float(hours * HOUR + minutes * MINUTE + seconds)


def duration_text(seconds: float) -> str:
    """For `--time`, rounded up to whole minutes, as Slurm would by itself: `1-02:30:00`."""
    minutes = max(1, math.ceil(seconds / MINUTE))
    hours, days = minutes // 60 % 24, minutes // (60 * 24)
    return f"{days}-{hours:02d}:{minutes % 60:02d}:00" if days else f"{hours:02d}:{minutes % 60:02d}:00"


def moment(text: str) -> float | None:
    """Unix seconds; `None` for `N/A`, `Unknown`, and whatever else is no moment."""
    value = number(text)
    return None if not value else float(value)


def number(text: str) -> int | None:
    """A whole number; `None` for anything else."""
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def counted(text: str) -> int | None:
    """A number that may end in K, M, G or T, which are powers of 1024 here."""
    scale = _SCALES.get(text[-1:].upper())
    value = number(text if scale is None else text[:-1])
    return None if value is None else value * (scale or 1)


def tasks_of(text: str) -> Tasks | None:
    """Tasks as `3`, `[2-4,7%2]`, `1-9:2` or `2,4,...`; `None` where they are none that Slurm would write.

    What stands right before `...` may be half a number, and does not count.
    """
    parts = text.strip().removeprefix("[").removesuffix("]").partition("%")[0].split(",")
    more = parts[-1].endswith("...")
    indices: list[int] = []
    for part in parts[: len(parts) - more]:
        found = _RANGE.fullmatch(part)
        first, last, step = (0, -1, 1) if found is None else _numbers(found)
        if last < first or not step or len(indices) + (last - first) // step >= TASKS_MAX:
            return None
        indices.extend(range(first, last + 1, step))
    return Tasks(indices=tuple(dict.fromkeys(indices)), more=more) if indices else None


def _numbers(found: re.Match[str]) -> tuple[int, int, int]:
    return int(found[1]), int(found[2] or found[1]), int(found[3] or 1)


_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,8}(?::\d{1,2}){0,2})", re.ASCII)
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_SCALES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
