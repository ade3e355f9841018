"""What is deleted from the controller's disk, by which rule and on which proof; as facts, and as it is shown.

Paths are relative to the state directory: `artifacts/objects/ab/ab….segment.npz`, `logs/j7.1/out`. What was deleted
lies in a tombstone until its grace is over, and can be brought back as long as it does.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hostler.model.artifacts import Copy, Sha256
from hostler.model.numbers import Count, Some
from hostler.model.record import record
from hostler.model.telemetry import Level

Mode = Literal["dry-run", "clean"]
DAY_S = 86_400.0
FilePath = Annotated[str, Field(min_length=1, max_length=4096)]


@record
class RetentionRules:
    """What is kept for how long."""

    logs_s: Annotated[float, Field(ge=0)] = 7 * DAY_S
    caches_s: Annotated[float, Field(ge=0)] = 3600.0
    """A cache that was used of late is kept."""
    empty_s: Annotated[float, Field(ge=0)] = DAY_S
    checkpoints: Some = 3
    """Newest checkpoints of each training that stay."""
    checkpoints_s: Annotated[float, Field(ge=0)] = DAY_S
    copies: Annotated[int, Field(ge=1, le=16)] = 2
    """Copies elsewhere of what is deleted for being exported, or spare."""
    read_within_s: Annotated[float, Field(gt=0)] = 30 * DAY_S
    """These copies must have been read back not longer ago; with less than the scrubber takes, few ever were."""
    artifacts_s: Annotated[float, Field(ge=0)] = DAY_S
    """An artifact that came here, or was brought back, less long ago is kept."""


@record
class Keeping:
    """What is kept for how long on the controller's disk, and whether it is cleaned without being asked."""

    mode: Mode = "dry-run"
    grace_s: Annotated[float, Field(ge=0)] = DAY_S
    """How long what was deleted can be brought back."""
    rules: RetentionRules = RetentionRules()


@record
class DoomedFile:
    """A file that may go, or went."""

    path: FilePath
    bytes: Count
    rule: str
    """The rule that allows it: `cache`, `log`, `empty`, `checkpoint`, `exported` or `spare`."""
    why: str
    """The rule in words."""
    used_at: float
    """When it was written last (Unix time)."""
    sha256: Sha256 | None = None
    """Of an artifact."""
    proof: tuple[Copy, ...] = ()
    """Copies elsewhere that were read back; none for what needs none."""


@record
class KeptView:
    """Files that stay for the same reason."""

    why: str
    files: int
    bytes: int


@record
class GoingView:
    """Files that may go by the same rule."""

    rule: str
    why: str
    files: int
    bytes: int


@record
class StoreDisk:
    """The disk that the state directory lies on. What cannot be measured is `null`."""

    total_bytes: int | None
    free_bytes: int | None
    used: float | None
    """Share of it that is taken."""
    level: Level
    says: str
    """The same in words, with the limit."""


@record
class RetentionView:
    """What may go from the controller's disk, what waits in tombstones, and what stays, by reason. Costs nothing."""

    mode: Mode
    grace_s: float
    disk: StoreDisk
    looked_at: float | None
    """When the disk was looked through last; `null`: not yet, and the lists below are empty."""
    may_go: tuple[GoingView, ...]
    stays: tuple[KeptView, ...]
    buried_files: int
    """Files in tombstones."""
    buried_bytes: int
    next_at: float | None
    """When the next of these are deleted for good."""
    trouble: str | None
    """What kept the last cleaning from its work."""


@record
class TombView:
    """A file in a tombstone."""

    path: FilePath
    bytes: int
    rule: str
    why: str
    who: str
    buried_at: float
    until: float
    """When it is deleted for good."""
    sha256: Sha256 | None
    proof: tuple[Copy, ...]


@record
class LeftView:
    """A file that stayed where it was, and why."""

    path: str
    why: str


@record
class CleanView:
    """What a cleaning, or an undoing, has moved."""

    files: tuple[FilePath, ...]
    bytes: int
    left: tuple[LeftView, ...]
    """What was asked for, or planned, and stayed where it is."""
    more: int
    """Files that may go still and were not looked at: there were too many for one time."""
    until: float | None
    """When what was moved is deleted for good; `null` where nothing was moved, or it was brought back."""
