"""What the learner makes of its workers' news: how many of the last calls were answered, and when that is too few."""

from __future__ import annotations

from collections import deque
from dataclasses import asdict
from itertools import accumulate
from typing import Any

from hostler.workloads.gameboy.advice.counts import BOUNDS_S, Counts, News, Waits
from hostler.workloads.gameboy.advice.settings import COMPONENT, Alarm, Asking

ALARM = "advice calls"
"""What stands among the alarms of a training."""


class Watch:
    """Looks at the last calls of all workers. No fewer than `least` calls are judged."""

    def __init__(self, alarm: Alarm, least: int) -> None:
        self._alarm = alarm
        self._least = min(least, alarm.calls)
        self._latest: deque[tuple[int, int]] = deque()
        """Of each piece of news: calls, and how many of them were answered."""
        self._calls = self._answered = 0
        self.trouble: str | None = None
        """What was told last of a call that failed."""

    def add(self, news: News) -> None:
        """What a worker has told."""
        self.trouble = news.trouble or self.trouble
        finished, answered = news.counts.finished, news.counts.answered
        if not finished:
            return
        self._latest.append((finished, answered))
        self._calls, self._answered = self._calls + finished, self._answered + answered
        while self._calls - self._latest[0][0] >= self._alarm.calls:
            calls, good = self._latest.popleft()
            self._calls, self._answered = self._calls - calls, self._answered - good

    @property
    def success(self) -> float | None:
        """Share of the last calls that were answered as they should be; `None`: there was none."""
        return self._answered / self._calls if self._calls else None

    @property
    def alarm(self) -> str | None:
        """Why people are told; `None`: all is well, or there were too few calls to say."""
        if self._calls < self._least or self._answered >= self._alarm.share * self._calls:
            return None
        why = "" if self.trouble is None else f"; the last failure: {self.trouble}"
        return (
            f"{self._answered} of the last {self._calls} calls were answered as they should be, "
            f"fewer than {self._alarm.share:.0%}{why}"
        )


class Report:
    """What a training tells of advice."""

    def __init__(self, asked: Asking) -> None:
        self._asked = asked
        self._watch = Watch(asked.alarm, asked.rests.after)
        self._told_of: list[bool] = []
        """Of each piece of news since the last line: whether its worker leaves the endpoint alone."""
        self.components = () if asked.shaping is None else (COMPONENT,)

    def add(self, news: News) -> None:
        """What a worker has told."""
        self._watch.add(news)
        self._told_of.append(news.is_resting)

    @property
    def alarms(self) -> tuple[str, ...]:
        """What stands among the alarms of the training."""
        return () if self._watch.alarm is None else (ALARM,)

    def line(self, counts: Counts, updates: int) -> dict[str, Any]:
        """For a line of the training, with all its `counts`, when its policy was updated so often."""
        resting, self._told_of = self._told_of, []
        shaping = self._asked.shaping
        return {
            **_plain(counts),
            "success": self._watch.success,
            "resting": sum(resting) / len(resting) if resting else None,
            "weight": None if shaping is None or not shaping.weight else shaping.weight_at(updates) / shaping.weight,
            "trouble": self._watch.trouble,
            "alarm": self._watch.alarm,
        }


def _plain(counts: Counts) -> dict[str, Any]:
    """As people and programs read it, with the mean latency of what calls came to."""
    calls = {
        to: {"calls": each.number, "mean_s": each.seconds / each.number, "longest_s": each.longest_s}
        for to, each in counts.calls.items()
        if each.number
    }
    numbers = {name: each for name, each in asdict(counts).items() if name not in ("calls", "waits")}
    return {**numbers, "calls": calls, "waits": _waits(counts.waits)}


def _waits(waits: Waits) -> dict[str, Any]:
    """With how many took no longer than each of some bounds."""
    within = accumulate(waits.between)
    return {
        "within": {f"{bound:g}": count for bound, count in zip(BOUNDS_S, within, strict=False)},
        "calls": sum(waits.between),
        "seconds": waits.seconds,
    }
