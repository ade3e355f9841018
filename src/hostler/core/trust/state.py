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
class Proof:
    """Whether the canary of a device has given the right answer: in this boot of its node, and under this agent."""

    ok: bool = False
    since: float
    """Since when it is as `ok` says."""
    why: str | None = None
    """What was wrong last; `None` where nothing was, or nothing is known yet."""
    failures: int = 0
    """In a row."""
    again_at: float = 0.0
    """When it is to be proved, at the soonest."""


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
    proofs: dict[str, Proof] = field(default_factory=dict)
    """By device; those that need none have none."""
    records: dict[str, Record] = field(default_factory=dict)
    """By family, the one heard of last at the end."""

    def takes(self, device: str, now: float, *, busy: bool) -> bool:
        """Whether a device may be given something: one in quarantine once it has rested, and one thing at a time.

        One that must be proved and has not been is given nothing.
        """
        if not self.is_proved(device):
            return False
        doubt = self.doubts.get(device)
        return doubt is None or doubt.until is None or (now >= doubt.until and not busy)

    def is_proved(self, device: str) -> bool:
        """Whether its canary has given the right answer, or need not."""
        proof = self.proofs.get(device)
        return proof is None or proof.ok

    def provable_at(self, device: str) -> float:
        """When a device that must be proved may be, at the soonest: once it has rested."""
        doubt = self.doubts.get(device)
        until = 0.0 if doubt is None or doubt.until is None else doubt.until
        return max(self.proofs[device].again_at, until)
