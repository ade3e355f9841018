"""Facts of the self-improvement loops; they are journalled with all others (`events.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from hostler.model.learning import (
    ConfigName,
    ConfigSpec,
    DatasetRef,
    Lengths,
    Match,
    Rating,
    SegmentRef,
    SegmentVerdict,
    Sha256,
    TrainingResult,
)
from hostler.model.record import record
from hostler.model.work import WorkKind


@record
class ConfigDeclared:
    """Settings describe a training config; a later one of the same name replaces it."""

    kind: Literal["config.declared"] = "config.declared"
    config: ConfigName
    spec: ConfigSpec


@record
class ConfigRetired:
    """The settings name the config no more: nothing new is queued for it, and all that is known of it stays."""

    kind: Literal["config.retired"] = "config.retired"
    config: ConfigName


@record
class SegmentsMade:
    """Self-play closed these segments; each is told once, whatever becomes of the job."""

    kind: Literal["config.segments"] = "config.segments"
    config: ConfigName
    job: str
    player: str
    segments: tuple[SegmentRef, ...]
    cpu_s: float | None
    unread: bool = False
    """Whether nobody has read them back in the controller's own store yet, as `copies.verified` tells afterwards.
    Journals of before do not say it, and took them for read: there they are, as of this fact."""


@record
class SegmentsClosed:
    """Self-play that runs has closed these segments on a node with files of its own: they count once they are here."""

    kind: Literal["config.closed"] = "config.closed"
    config: ConfigName
    job: str
    attempt: str
    node: str
    segments: tuple[SegmentRef, ...]
    cpu_s: float | None
    """Processor time that these took."""


@record
class SegmentsLost:
    """These segments were closed, and will never come: their games are played again."""

    kind: Literal["config.lost"] = "config.lost"
    config: ConfigName
    job: str
    attempt: str
    segments: tuple[SegmentRef, ...]
    why: str


@record
class SegmentsJudged:
    """The quality gate measured these segments; what it refused is not offered to it again."""

    kind: Literal["config.judged"] = "config.judged"
    config: ConfigName
    job: str
    segments: tuple[SegmentVerdict, ...]
    quality: Mapping[str, float | None]
    lengths: Lengths | None
    bootstrap: bool


@record
class DatasetMade:
    """A dataset is published. `segments` is its window: what it was chosen from."""

    kind: Literal["config.dataset"] = "config.dataset"
    config: ConfigName
    job: str
    dataset: DatasetRef
    segments: tuple[Sha256, ...]
    unread: bool = False
    """As of `config.segments`."""


@record
class ModelMade:
    """Training published a model: the first of its config, or a candidate."""

    kind: Literal["config.model"] = "config.model"
    config: ConfigName
    job: str
    training: TrainingResult
    unread: bool = False
    """As of `config.segments`."""


@record
class MatchesPlayed:
    """An evaluation's games. They never enter training unless asked."""

    kind: Literal["config.played"] = "config.played"
    config: ConfigName
    job: str
    matches: tuple[Match, ...]


@record
class ConfigRated:
    """Ratings fitted to the first `matches` matches of the config; `None`: nothing connects the player to an anchor."""

    kind: Literal["config.rated"] = "config.rated"
    config: ConfigName
    matches: int
    ratings: Mapping[str, Rating | None]


@record
class ModelPromoted:
    """Decision: from now on the config's current model is this one."""

    kind: Literal["model.promoted"] = "model.promoted"
    config: ConfigName
    model: Sha256
    over: Sha256 | None
    groups: int
    llr: float | None
    why: str


@record
class ModelRejected:
    """Decision: the candidate was not shown to be better."""

    kind: Literal["model.rejected"] = "model.rejected"
    config: ConfigName
    model: Sha256
    over: Sha256
    groups: int
    llr: float | None
    why: str


@record
class ModelRolledBack:
    """Somebody made an earlier model the current one again."""

    kind: Literal["model.rolled_back"] = "model.rolled_back"
    config: ConfigName
    model: Sha256
    was: Sha256
    why: str


@record
class StageResting:
    """Decision: after `failures` failures in a row the stage rests until then."""

    kind: Literal["config.resting"] = "config.resting"
    config: ConfigName
    stage: WorkKind
    failures: int
    until: float
    why: str


@record
class ConfigPaused:
    """Somebody wants nothing new ordered for a config until then; what runs runs on. A later one replaces it."""

    kind: Literal["config.paused"] = "config.paused"
    config: ConfigName
    who: str
    why: str
    until: float


@record
class ConfigResumed:
    """A config orders what it needs again."""

    kind: Literal["config.resumed"] = "config.resumed"
    config: ConfigName
    who: str | None
    """`None`: the time of its pause was over."""


@record
class StageSpawned:
    """Somebody asked for this job beyond what the loop orders by itself; it was submitted just before."""

    kind: Literal["config.spawned"] = "config.spawned"
    config: ConfigName
    job: str
    who: str
    why: str
    games: int | None = None
    """Games that were asked for; `None`: as many as the loop orders."""


@record
class RatingFailed:
    """Ratings could not be fitted to the first `matches` matches; they stay as they were until there are more."""

    kind: Literal["config.unrated"] = "config.unrated"
    config: ConfigName
    matches: int
    why: str
