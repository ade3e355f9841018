"""Views of artifacts: what there is, where copies lie, what came of what, how far replication has come.

As in `views`: plain values with a JSON form, times are Unix seconds, unknown is `null`.
"""

from __future__ import annotations

from typing import Literal

from hostler.model.artifacts import ArtifactKind, Sha256, Standing
from hostler.model.record import record


@record
class Sought:
    """Which artifacts are asked for; what is `None` (`False`) makes no difference."""

    kind: ArtifactKind | None = None
    config: str | None = None
    standing: Standing | None = None
    place: str | None = None
    """Those with a copy noted there, damaged ones too."""
    short: bool = False
    """Those with fewer copies, or in fewer domains, than wanted, as far as the places there are could hold them."""


@record
class CopyView:
    """What is known of one copy."""

    place: str
    domain: str | None
    """What fails together with it; `None`: the place is no part of this fleet now."""
    verified_at: float | None
    """When its hash was last read back and was right; `None`: never, or not yet."""
    damaged: bool
    """Whether another hash was read: it was set aside."""
    counts: bool
    """Whether it is one of those that are wanted: read of late, in a place that keeps what it has."""


@record
class ArtifactView:
    """An artifact with its copies."""

    sha256: Sha256
    kind: ArtifactKind
    standing: Standing
    """What it is worth now; that decides how many copies are wanted."""
    bytes: int
    config: str | None
    job: str | None
    """Which job made it."""
    made_at: float
    games: int | None
    copies: tuple[CopyView, ...]
    counted: int
    """Copies that count."""
    wanted: int
    """Copies that there should be."""
    wanted_domains: int
    """Failure domains that these should be spread over."""
    why: str | None
    """Why nothing can be done now about what is missing; `None`: something can, or nothing is missing."""


@record
class ArtifactDetail:
    """Everything about one artifact."""

    artifact: ArtifactView
    attempt: str | None
    """The attempt of its job whose result was accepted; `None`: none was, or its job is not known."""
    exported: bool
    """Of games: whether a dataset was chosen from them, or the quality gate refused them."""
    parents: tuple[Sha256, ...]
    """What it was made from: at most 100 of them."""
    children: tuple[Sha256, ...]
    """What was made from it: at most 100 of them; where there are more, models and datasets are among these."""
    parents_more: bool
    children_more: bool
    """Whether there are others than these; `lineage` tells what they are."""
    missing: int
    """Copies that are wanted and not there."""
    missing_domains: int
    """Failure domains that a copy is wanted in, beyond those that have one."""


@record
class Kin:
    """An artifact in the lineage of another. What only its children know of has no kind."""

    sha256: Sha256
    depth: int
    """1: what is asked about was made from it, or it from that; 2: one step further."""
    via: Sha256
    """That of which it is a parent, or a child: one step nearer."""
    kind: ArtifactKind | None
    standing: Standing | None
    bytes: int | None
    config: str | None
    job: str | None
    made_at: float | None
    further: int
    """Its own parents (children) that are not told of here; 1000 stands for that many or more."""


@record
class LineageView:
    """What an artifact was made from, and what was made from it; each once, what is nearest first."""

    artifact: ArtifactView
    parents: tuple[Kin, ...]
    children: tuple[Kin, ...]
    parents_further: int
    children_further: int
    """Its own that are not told of here; 1000 stands for that many or more."""


@record
class CopyRead:
    """What was found where a copy should be."""

    place: str
    found: Literal["right", "damaged", "gone", "unread"]
    """`unread`: the place did not answer, or is no part of this fleet; of the copy nothing follows."""
    why: str | None
    """Of all that is not right: what was read, or what the place said."""
    at: float


@record
class ArtifactRead:
    """What was found as the copies of an artifact were read: each of them, or the one that was asked for."""

    artifact: ArtifactView
    """As it stands now."""
    copies: tuple[CopyRead, ...]


@record
class KeepingView:
    """A place where artifacts lie, and how it is."""

    name: str
    domain: str
    keeps: bool
    """Whether copies count there."""
    reachable: bool
    """Whether it did what it was asked for last; also before it was asked for anything."""
    full: bool
    """Whether nothing was put there of late for want of room."""
    trouble: str | None
    """What it said last, while that counts."""
    again_at: float | None
    """When it is asked again, where it is left alone now."""
    free_bytes: int | None
    """What may be put there still; `None`: unknown, as of a bucket."""
    looked_at: float | None
    """When it was asked for its room; `None`: not yet."""
    bytes_per_s: float | None
    """What its bandwidth is bounded to; `None`: it is not."""
    moved_bytes: int
    """Read and written there since the controller began."""
    copies: int | None
    damaged: int | None
    """Copies that are noted for it, and how many of them were set aside; `None`: not counted yet."""


@record
class BacklogView:
    """What lacks copies that the places there are could hold."""

    at: float
    """When it was looked."""
    artifacts: int
    bytes: int
    at_risk: int
    """Of these, what no place holds for certain; what is new does once it was read back."""
    oldest_due_at: float | None
    """Since when the oldest of these copies should have been there; `None`: nothing lacks any."""
    at_least: bool
    """Whether there may be more than was looked at."""
    shortfalls: tuple[str, ...]
    """Why nothing can be done about some of it, each reason once."""


@record
class StockRow:
    """All artifacts of one kind and standing."""

    kind: ArtifactKind
    standing: Standing
    artifacts: int
    bytes: int
    copies: int
    """That count, all together."""
    wanted: int
    """That there should be, all together."""
    possible: int
    """As many of these as the places there are could hold."""
    short: int
    """Artifacts with fewer than that."""
    at_risk: int
    """Artifacts without any."""


@record
class StockView:
    """All artifacts, counted: now and then, for it takes a while where there are many."""

    at: float
    rows: tuple[StockRow, ...]


@record
class ReplicationView:
    """How far replication has come."""

    at: float
    backlog: BacklogView | None
    """`None`: it was not looked yet since the controller began."""
    stock: StockView | None
    """`None`: nothing was counted yet since the controller began."""
    places: tuple[KeepingView, ...]
