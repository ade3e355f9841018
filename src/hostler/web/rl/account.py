"""What a training has told so far, folded line by line: its last numbers, a curve, its pictures and its troubles.

It never grows beyond a bound, whatever is told.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hostler.web.rl.lines import Ending, Faulty, Trouble, Update, read
from hostler.web.rl.pictures import Picture

POINTS_MAX = 400
PICTURES_KEPT = 256
TROUBLES_KEPT = 50
NOW_S = 30.0
"""What is called now, in the training's own seconds."""
RECENT = 64
"""Lines that are kept for it."""


class Mark(NamedTuple):
    """Where a training was."""

    steps: int
    seconds: float
    spent: Mapping[str, float]


class Point(NamedTuple):
    """What a line told, for a curve."""

    steps: int
    seconds: float
    reward: float | None
    places: float | None


class Shown(NamedTuple):
    """A picture, and when it was told."""

    picture: Picture
    steps: int
    at: float | None


class Told(NamedTuple):
    """A trouble, and when it was heard."""

    says: str
    at: float | None


@dataclass
class Account:
    """What was told."""

    last: Update | None = None
    ending: Ending | None = None
    told_at: float | None = None
    """When it told something last; `None`: nobody knows."""
    lines: int = 0
    skipped: int = 0
    points: list[Point] = field(default_factory=list)
    recent: deque[Mark] = field(default_factory=lambda: deque(maxlen=RECENT))
    pictures: OrderedDict[int, Shown] = field(default_factory=OrderedDict)
    troubles: deque[Told] = field(default_factory=lambda: deque(maxlen=TROUBLES_KEPT))
    troubles_told: int = 0

    def take(self, line: bytes, now: float, *, is_new: bool) -> None:
        """The next line of output, read at `now`; `is_new` where it was not there a moment before."""
        try:
            told = read(line)
        except Faulty:
            self.skipped += 1
            return
        if told is None:
            return
        self.lines += 1
        at = now if is_new else None
        match told:
            case Update():
                self._update(told, _written(told.at, now, at))
            case Trouble():
                self.told_at = at or self.told_at
                self.troubles_told += 1
                self.troubles.append(Told(told.says, at))
            case Ending():
                self.told_at = at or self.told_at
                self.ending = told

    @property
    def window(self) -> tuple[Mark, Mark] | None:
        """From where to where it went in the last `NOW_S`; `None` where two lines are not known yet."""
        if len(self.recent) < 2:
            return None
        end = self.recent[-1]
        begin = next(each for each in self.recent if each.seconds >= end.seconds - NOW_S or each is self.recent[-2])
        return begin, end

    def _update(self, told: Update, at: float | None) -> None:
        before = self.last
        if before is not None and (told.steps < before.steps or told.seconds <= before.seconds):
            # Another training in the same output, or one that went back to a checkpoint: a curve of its own.
            self.points.clear()
            self.recent.clear()
        self.last, self.ending, self.told_at = told, None, at
        self.points.append(Point(told.steps, told.seconds, told.reward, told.places))
        if len(self.points) > POINTS_MAX:
            self.points = thinned(self.points)
        self.recent.append(Mark(told.steps, told.seconds, told.spent))
        for env, each in told.pictures.items():
            self.pictures[env] = Shown(each, told.steps, at)
            self.pictures.move_to_end(env)
        while len(self.pictures) > PICTURES_KEPT:
            self.pictures.popitem(last=False)


def thinned(points: Sequence[Point]) -> list[Point]:
    """Every other one of them, the first and the last among them."""
    return [*points[:-1:2], points[-1]]


def _written(at: float | None, now: float, heard: float | None) -> float | None:
    """When a line was written. Clocks differ: not after it was read."""
    return heard if at is None else min(at, now)
