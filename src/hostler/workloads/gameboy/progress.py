"""How far a training has come."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from hostler.workloads.gameboy.advice.counts import Counts
from hostler.workloads.gameboy.batch import Episode
from hostler.workloads.gameboy.game import MICRO
from hostler.workloads.gameboy.spent import Spent

RECENT = 32
"""Episodes that means are of."""


@dataclass(slots=True)
class Progress:
    """How far a training has come; all of it is in its checkpoints."""

    steps: int = 0
    episodes: int = 0
    stale: int = 0
    """Steps that were too old to be learnt from."""
    seconds: float = 0.0
    """Of learning and waiting, in all its lives."""
    spent: Spent = field(default_factory=Spent)
    """By all who sampled and learnt, in all its lives."""
    parts: dict[str, int] = field(default_factory=dict)
    """What each component of the reward has paid in all episodes, in millionths."""
    moved: dict[str, int] = field(default_factory=dict)
    """What each component has paid and taken together, in millionths."""
    places: dict[int, int] = field(default_factory=dict)
    """In how many episodes each place was come to."""
    advice: Counts = field(default_factory=Counts)
    """What has become of calls for advice."""
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=RECENT))
    """Of the last episodes: places, and the sum of rewards in millionths."""

    def add(self, names: Sequence[str], episodes: Sequence[Episode]) -> None:
        """Episodes that are over."""
        for each in episodes:
            self.episodes += 1
            self.recent.append((len(each.places), each.total))
            for name, paid in zip(names, each.parts, strict=True):
                self.parts[name] = self.parts.get(name, 0) + paid
            for name, amount in zip(names, each.amounts, strict=True):
                self.moved[name] = self.moved.get(name, 0) + abs(amount)
            for place in each.places:
                self.places[place] = self.places.get(place, 0) + 1

    @property
    def mean_places(self) -> float | None:
        """Of the last episodes; `None`: there were too few."""
        return sum(each for each, _ in self.recent) / len(self.recent) if len(self.recent) == RECENT else None

    @property
    def mean_reward(self) -> float | None:
        """Of the last episodes; `None`: there was none."""
        return sum(each for _, each in self.recent) / len(self.recent) / MICRO if self.recent else None
