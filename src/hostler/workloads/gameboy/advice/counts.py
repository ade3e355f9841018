"""What became of calls: counted in workers, added up by the learner, told to people."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Came(StrEnum):
    """What a call came to."""

    ANSWERED = "answered"
    GARBAGE = "garbage"
    """An answer that does not keep to the schema."""
    LIMITED = "limited"
    """Too many calls (429)."""
    FAILED = "failed"
    """The server could not (5xx)."""
    DENIED = "denied"
    """It would not: wrong path, wrong model, wrong token (other 4xx, redirections)."""
    TIMEOUT = "timeout"
    REFUSED = "refused"
    """There was no connection, or it broke off."""
    BROKEN = "broken"
    """A defect of ours."""


@dataclass(slots=True)
class Calls:
    """Calls that came to the same."""

    number: int = 0
    seconds: float = 0.0
    longest_s: float = 0.0

    def add(self, other: Calls) -> None:
        """Count others as well."""
        self.number += other.number
        self.seconds += other.seconds
        self.longest_s = max(self.longest_s, other.longest_s)


BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
WAITED = frozenset([Came.ANSWERED, Came.GARBAGE, Came.TIMEOUT])
"""Calls that were answered somehow, or given up: what else they come to is no measure of how fast a model is."""


@dataclass(slots=True)
class Waits:
    """How long calls were waited for that came to one of `WAITED`."""

    between: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    """Up to each of `BOUNDS_S`, from the one before; and longer."""
    seconds: float = 0.0

    def add(self, other: Waits) -> None:
        """Count others as well."""
        self.between = [mine + its for mine, its in zip(self.between, other.between, strict=True)]
        self.seconds += other.seconds

    def waited(self, seconds: float) -> None:
        """A call was waited for so long."""
        self.between[bisect_left(BOUNDS_S, seconds)] += 1
        self.seconds += seconds


@dataclass(slots=True)
class Counts:
    """Of a fragment, or of all of them."""

    asked: int = 0
    cached: int = 0
    """Steps of machines for which there was advice."""
    unknown: int = 0
    """Steps for which there was none."""
    stale: int = 0
    """Advice that came too late, or became too old."""
    passed_over: int = 0
    """Questions that were never asked, since newer ones came."""
    cpu_s: float = 0.0
    """CPU-seconds of the threads that asked."""
    calls: dict[str, Calls] = field(default_factory=dict)
    """By what they came to (`Came`)."""
    waits: Waits = field(default_factory=Waits)

    @property
    def finished(self) -> int:
        """Calls that have come to anything."""
        return sum(each.number for each in self.calls.values())

    @property
    def answered(self) -> int:
        """Calls that were answered as they should be."""
        return self.calls.get(Came.ANSWERED, Calls()).number

    def came(self, to: Came, seconds: float) -> None:
        """A call came to that."""
        self.calls.setdefault(to.value, Calls()).add(Calls(1, seconds, seconds))
        if to in WAITED:
            self.waits.waited(seconds)

    def add(self, other: Counts) -> None:
        """Count those of others as well."""
        self.asked += other.asked
        self.cached += other.cached
        self.unknown += other.unknown
        self.stale += other.stale
        self.passed_over += other.passed_over
        self.cpu_s += other.cpu_s
        for to, each in other.calls.items():
            self.calls.setdefault(to, Calls()).add(each)
        self.waits.add(other.waits)

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Counts:
        """From what `asdict` makes of it."""
        calls = {to: Calls(**each) for to, each in plain["calls"].items()}
        waits = Waits(**plain["waits"]) if "waits" in plain else Waits()  # checkpoints are older than that
        return Counts(**{**plain, "calls": calls, "waits": waits})


@dataclass(frozen=True, slots=True)
class News:
    """What a worker tells with a fragment."""

    counts: Counts
    """Since the last one."""
    is_resting: bool
    """It leaves the endpoint alone for now."""
    trouble: str | None
    """What the last call that failed came to, in words; `None`: none did."""
