"""What the journal of a loop says of its costs: CPU-seconds and games over time, attempts by stage; for learning.py."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Entry = Mapping[str, Any]
EVALUATION_PLAYER = "evaluation"  # who is named for recorded games of evaluations, which are not self-play


@dataclass(slots=True)
class Sum:
    """A quantity that only grows: what it was at any time."""

    times: list[float] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)

    def add(self, at: float, amount: float) -> None:
        """So much more from `at` on; times never fall."""
        self.times.append(at)
        self.sums.append(self.total + amount)

    @property
    def total(self) -> float:
        """All of it."""
        return self.sums[-1] if self.sums else 0.0

    def until(self, at: float) -> float:
        """What there was then."""
        known = bisect_right(self.times, at)
        return self.sums[known - 1] if known else 0.0


@dataclass(slots=True)
class StageCost:
    """Attempts of a stage that have ended, those of them that failed, and their CPU-seconds."""

    ended: int = 0
    failed: int = 0
    cpu_s: float = 0.0
    unknown: int = 0
    """Attempts of which the CPU-seconds are not known."""


@dataclass(slots=True)
class Story:
    """A loop's costs over time. `cpu_s` is that of jobs, at their ends; `games` those of self-play."""

    began: float
    cpu_s: Sum = field(default_factory=Sum)
    games: Sum = field(default_factory=Sum)
    positions: Sum = field(default_factory=Sum)
    stages: dict[str, StageCost] = field(default_factory=dict)


def tell(entries: Sequence[Entry]) -> Story:
    """Fold a journal, from its first entry on."""
    story = Story(began=entries[0]["at"])
    kinds: dict[str, str] = {}
    jobs: dict[str, str] = {}
    for entry in entries:
        event, at = entry["event"], entry["at"]
        match event["kind"]:
            case "job.submitted":
                kinds[event["job"]] = event["spec"]["payload"]["kind"]
            case "attempt.leased":
                jobs[event["attempt"]] = event["job"]
            case "attempt.ended":
                _count(story, kinds[jobs[event["attempt"]]], event, at)
            case "config.segments" if event["player"] != EVALUATION_PLAYER:
                _add_segments(story, event["segments"], at)
    return story


def _count(story: Story, stage: str, event: Entry, at: float) -> None:
    cost = story.stages.setdefault(stage, StageCost())
    cost.ended += 1
    cost.failed += event["exit_code"] != 0
    if event["cpu_s"] is None:
        cost.unknown += 1
        return
    cost.cpu_s += event["cpu_s"]
    story.cpu_s.add(at, event["cpu_s"])


def _add_segments(story: Story, segments: Iterable[Entry], at: float) -> None:
    for segment in segments:
        story.games.add(at, segment["games"])
        story.positions.add(at, segment["positions"])
