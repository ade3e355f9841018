"""What is known of a training config: segments, datasets, models, matches, ratings, and what its stages are at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from hostler.learning.sprt import Evidence
from hostler.model.learning import (
    ConfigSpec,
    DatasetRef,
    Lengths,
    Match,
    ModelStatus,
    Rating,
    SegmentRef,
    TrainingResult,
    player_of,
)
from hostler.model.record import entity, record
from hostler.model.work import WorkKind

RECORDED = "evaluation"
"""In the place of a player, of games that an evaluation played and recorded: they are games of two."""


@entity
class Segment:
    """Games that were played. `accepted` is `None` until the quality gate has seen them."""

    sha256: str
    games: int
    positions: int
    player: str
    """Who played them; `RECORDED` for recorded matches."""
    job: str
    at: float
    cpu_s: float | None = None
    accepted: int | None = None
    refused: str | None = None
    bytes: int | None = None
    """`None`: from before it was kept here."""
    numbers: str | None = None
    """Which games of its order it holds, as `0-7,9`; `None`: nobody said."""

    @property
    def promising(self) -> int:
        """Games that were accepted, or may be."""
        return self.games if self.accepted is None else self.accepted


@entity
class Hour:
    """What came in within an hour."""

    games: int = 0
    positions: int = 0
    cpu_s: float | None = 0.0
    """`None`: of a part of it that is unknown."""


@entity
class Closing:
    """What an attempt has closed on a node with files of its own, and is not here yet."""

    node: str
    segments: dict[str, SegmentRef] = field(default_factory=dict)
    cpu_s: float | None = None
    """Processor time that these took."""


@record
class Judgement:
    """What the quality gate said of a window; `rejected` counts games by reason."""

    at: float
    job: str
    offered: int
    accepted: int
    rejected: Mapping[str, int]
    quality: Mapping[str, float | None]
    bootstrap: bool


@entity
class Dataset:
    """A dataset, and the judgement it rests on."""

    ref: DatasetRef
    at: float
    segments: int
    newest: str
    """The newest segment of its window."""
    judgement: Judgement
    trained: bool = False
    """Whether a training has used it."""
    failures: int = 0
    """Trainings that failed on it, by no fault of a node."""


@entity
class Model:
    """A model and what became of it. `number` counts from 0."""

    number: int
    made_at: float
    training: TrainingResult
    status: ModelStatus
    decided_at: float | None = None
    why: str | None = None

    @property
    def sha256(self) -> str:
        """Its name."""
        return self.training.model.sha256


@entity
class Trial:
    """A candidate's test against what was the current model when it began."""

    candidate: str
    against: str
    evidence: Evidence = field(default_factory=Evidence)
    failures: int = 0
    """Evaluations for it that failed in a row, by no fault of a node."""


@record
class Rest:
    """A stage failed so often in a row and rests until then; not once where somebody cancelled its job."""

    failures: int
    since: float
    until: float
    why: str


@record
class Pause:
    """Nothing new is ordered for a config until then, because somebody said so."""

    since: float
    until: float
    who: str
    why: str


@record
class Spawned:
    """Who asked for a job beyond what the loop orders, and what for."""

    who: str
    why: str
    games: int | None
    """`None`: as many as the loop orders."""


@record
class Switch:
    """The current model became this one."""

    at: float
    model: str
    why: str


@record
class Rated:
    """A player's rating as it was fitted then."""

    at: float
    player: str
    rating: Rating


@entity
class Config:
    """A training config. Dicts keep the order in which things came."""

    spec: ConfigSpec
    retired: bool = False
    ordered: int = 0
    """Jobs queued so far; each gets a seed of its own from it."""
    jobs: dict[str, WorkKind] = field(default_factory=dict)
    """Its jobs that are not over."""
    segments: dict[str, Segment] = field(default_factory=dict)
    """Those of jobs that have not left the state."""
    past_games: int = 0
    """Games of self-play of those that have."""
    past_recorded: int = 0
    """Recorded games of those that have."""
    past_hours: dict[int, Hour] = field(default_factory=dict)
    """Sums of those that have, by the hour in which they came (Unix time // 3600): of the newest hours."""
    closing: dict[str, Closing] = field(default_factory=dict)
    """By attempt."""
    datasets: dict[str, Dataset] = field(default_factory=dict)
    judgements: list[Judgement] = field(default_factory=list)
    models: dict[str, Model] = field(default_factory=dict)
    switches: list[Switch] = field(default_factory=list)
    trial: Trial | None = None
    matches: list[Match] = field(default_factory=list)
    """Those that fits ask for."""
    past_matches: int = 0
    past_match_games: int = 0
    """Of those that they ask for no more."""
    ladder_groups: dict[str, int] = field(default_factory=dict)
    """Groups spent on rating each player."""
    rated_matches: int = 0
    ratings: dict[str, Rating | None] = field(default_factory=dict)
    rating_history: list[Rated] = field(default_factory=list)
    """Of the current model, whenever it was fitted."""
    unrated_why: str | None = None
    """Why the newest matches could not be fitted."""
    lengths: Lengths | None = None
    rests: dict[WorkKind, Rest] = field(default_factory=dict)
    served_at: float | None = None
    """When a device last began or ended self-play of it."""
    explored_at: float | None = None
    """When self-play, an export or a training was last queued."""
    fresh_games: int = 0
    """Games since the last export: of segments that are newer than all that were judged."""
    paused: Pause | None = None
    spawned: dict[str, Spawned] = field(default_factory=dict)
    """Of its jobs those that somebody asked for beyond what the loop orders."""

    @property
    def current(self) -> str | None:
        """SHA-256 of the current model."""
        return self.switches[-1].model if self.switches else None

    @property
    def played(self) -> int:
        """Matches that there were."""
        return self.past_matches + len(self.matches)

    @property
    def promotions(self) -> int:
        """Models that won their test and were not rolled back; the untrained first one won none."""
        return sum(model.status is ModelStatus.PROMOTED and model.number > 0 for model in self.models.values())

    @property
    def is_bootstrapped(self) -> bool:
        """Whether a trained model was ever current, be it rolled back: from then on strength is asked of generators."""
        return any(self.models[switch.model].number > 0 for switch in self.switches)

    @property
    def candidates(self) -> int:
        """Models that were trained."""
        return sum(model.number > 0 for model in self.models.values())

    def evaluated_as(self, model: str) -> str:
        """The name under which a model is rated."""
        return player_of("gumbel", self.spec.evaluation.simulations, model)
