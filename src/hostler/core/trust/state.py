"""What speaks against devices, and which families of jobs are believed. Folded from events, like all of the state."""

from __future__ import annotations

from dataclasses import field

from hostler.model.record import entity
from hostler.policy.quarantine import Strike


@entity
class Doubt:
    """What speaks against one device. `until` is `None` while it is trusted all the same.

    At `until` its rest is over; it is half open from then on, until one job has succeeded on it.
    """

    strikes: list[Strike] = field(default_factory=list)
    """Failures of its own kind since its last success, oldest first; not all, if there are very many."""
    bans: int = 0
    """How often in a row it was quarantined."""
    since: float | None = None
    until: float | None = None
    why: str = ""
    proved: str | None = None
    """The attempt or chunk that succeeded though the device is in quarantine."""


@entity
class Record:
    """How a family of jobs has done: when it succeeded and failed last, by device. Of many devices, on the newest."""

    succeeded: dict[str, float] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)


@entity
class Trust:
    """What is known of devices and of families of jobs that failed or succeeded on them."""

    doubts: dict[str, Doubt] = field(default_factory=dict)
    """By device; those of which nothing bad is known have none."""
    records: dict[str, Record] = field(default_factory=dict)
    """By family, the one heard of last at the end."""

    def takes(self, device: str, now: float, *, busy: bool) -> bool:
        """Whether a device may be given something: one in quarantine once it has rested, and one thing at a time."""
        doubt = self.doubts.get(device)
        return doubt is None or doubt.until is None or (now >= doubt.until and not busy)
