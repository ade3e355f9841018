"""Self-improvement loops: what a training config is, and what its stages report.

The stages' orders and results are laid down in docs/reference/learning.md; the records here are their strict form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from hostler.model.record import record
from hostler.model.work import (
    ANYWHERE,
    SECRETS_MAX,
    USUAL_RETRY,
    BatchOptions,
    Priority,
    Resources,
    Retry,
    Seconds,
    SecretRef,
    VariableName,
)

Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Natural: TypeAlias = Annotated[int, Field(ge=0, lt=2**62)]
Positive: TypeAlias = Annotated[int, Field(ge=1, lt=2**62)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
INTERVAL_SD = 1.959963984540054
"""Half the width of a 95 % interval, in standard deviations."""

ConfigName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


@record
class GameRef:
    """A game, as stages load it (`factory(**params)`), and what the controller must know of it."""

    factory: str
    params: Mapping[str, Any]
    players: Annotated[int, Field(ge=2, le=16)]
    anchors: Mapping[str, float]
    """Players whose rating is fixed, by definition or by measurement; the scale hangs on them."""


@record
class StageSpec:
    """How a stage of a config runs: its command, what it needs, and options that go into its order unread."""

    command: Annotated[tuple[str, ...], Field(min_length=1)]
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    secrets: Annotated[Mapping[VariableName, SecretRef], Field(max_length=SECRETS_MAX)] = field(default_factory=dict)
    """Variables whose values are secrets, by the names of these."""
    resources: Resources = field(default_factory=lambda: ANYWHERE)
    retry: Retry = field(default_factory=lambda: USUAL_RETRY)
    walltime_s: Seconds | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    batch: BatchOptions | None = None
    """What its jobs want of a batch system, where one runs them."""


@record
class SelfplaySpec:
    """Self-play: who plays, and how many games a job and a segment hold."""

    stage: StageSpec
    engine: Literal["gumbel", "heuristic"] = "gumbel"
    simulations: Positive = 64
    games: Positive = 64
    segment_games: Positive = 16


@record
class ExportSpec:
    """Datasets: when one is made, of what window, and what the quality gate lets pass."""

    stage: StageSpec
    min_games: Positive = 1000
    fresh_games: Positive = 500
    """Games that must have come since the last export."""
    window_games: Positive = 20_000
    quality: Share = 0.7
    max_gap_elo: Annotated[float, Field(ge=0)] = 400.0
    """A generator rated further below the current model is too weak, once there is a promoted one."""
    include_evaluation: bool = False


@record
class TrainingSpec:
    """Training: the network's size, and how much of it new games allow and demand."""

    stage: StageSpec
    channels: Positive = 32
    blocks: Positive = 3
    batch: Positive = 256
    max_steps: Positive = 2000
    reuse: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = (0.25, 8.0)
    """Least and most often that a new position is trained on, on average: steps × batch / new positions."""


@record
class EvaluationSpec:
    """Evaluation: the search budget of everybody, the size of a job, and how well a model is to be rated."""

    stage: StageSpec
    simulations: Positive = 64
    groups: Positive = 16
    """Groups of games (one from every seat) in a job."""
    precision_elo: Annotated[float, Field(gt=0)] = 75.0
    """Half width of the current model's interval that is good enough."""
    max_groups: Positive = 64
    """Groups spent on rating one model at most."""


@record
class PromotionSpec:
    """The sequential test between candidate and current model."""

    elo0: float = 0.0
    elo1: float = 50.0
    alpha: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    beta: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    min_groups: Positive = 8
    max_groups: Positive = 400


@record
class Goal:
    """When a loop that is to end has ended: well by promotions, badly by candidates or failures."""

    promotions: Positive = 1
    candidates: Positive = 10
    failures: Positive = 3
    """Jobs of one stage that fail in a row."""


@record
class ConfigSpec:
    """A training config: one learning problem and the loop that works on it. Without a goal it goes on for ever."""

    name: ConfigName
    game: GameRef
    selfplay: SelfplaySpec
    export: ExportSpec
    training: TrainingSpec
    evaluation: EvaluationSpec
    promotion: PromotionSpec = field(default_factory=PromotionSpec)
    weight: Annotated[float, Field(gt=0)] = 1.0
    """Its place in the curriculum, against the other configs."""
    priority: Priority = 0
    """Of its self-play; the other stages go one before."""
    seed: Natural = 0
    goal: Goal | None = None
    target_elo: float | None = None
    """Rating of its current model from which on it gets but a trickle of games; `None`: there is always more to win."""


@record
class SegmentRef:
    """A segment of self-play games."""

    sha256: Sha256
    bytes: Natural
    games: Positive
    positions: Positive
    numbers: Annotated[str, Field(pattern=r"^\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*$")] | None = None
    """Which games of its order it holds, as `0-7,9`; `None`: its stage does not say."""


@record
class SelfplayResult:
    """What self-play reports, at its end and after every segment."""

    schema: Literal[1]
    segments: tuple[SegmentRef, ...]
    games: Natural
    positions: Natural
    cpu_s: float | None = None
    search_s: float | None = None
    network_s: float | None = None
    error: str | None = None


@record
class Lengths:
    """The distribution of game lengths, in plies."""

    mean: float
    sd: float
    games: Natural


@record
class SegmentVerdict:
    """What the quality gate measured of a segment; `None` is what could not be measured."""

    sha256: Sha256
    games: Natural
    accepted: Natural
    rejected: Mapping[str, Natural]
    quality: Mapping[str, Share | None]
    score: Share | None
    refused: str | None


@record
class DatasetRef:
    """A dataset, as training is told of it."""

    sha256: Sha256
    bytes: Natural
    games: Positive
    positions: Positive


@record
class ExportResult:
    """What an export reports; without enough accepted games there is no dataset, and `error` says so."""

    schema: Literal[1]
    dataset: DatasetRef | None
    segments: tuple[SegmentVerdict, ...]
    quality: Mapping[str, Share | None]
    lengths: Lengths | None
    bootstrap: bool
    """Whether the strength of generators was not asked, because there was no promoted model."""
    cpu_s: float | None = None
    error: str | None = None


@record
class ModelFile:
    """Weights with their manifest."""

    sha256: Sha256
    bytes: Natural


@record
class Losses:
    """Cross-entropies in nats on the games held out."""

    policy: float
    value: float


@record
class CurvePoint:
    """Losses on the way; those of validation where it was made."""

    step: Natural
    policy: float
    value: float
    validation_policy: float | None = None
    validation_value: float | None = None


@record
class TrainingResult:
    """What training reports. The losses are unknown of a model that was only initialised."""

    schema: Literal[1]
    model: ModelFile
    base: Sha256 | None
    dataset: Sha256 | None
    steps: Natural
    positions_in: Natural
    positions_used: Natural
    samples: Natural
    stopped: Literal["steps", "early"]
    before: Losses | None = None
    after: Losses | None = None
    uniform_policy: float | None = None
    curve: Annotated[tuple[CurvePoint, ...], Field(max_length=64)] = ()
    best_step: Natural | None = None
    """The step whose weights these are: the best on the games held out."""
    resumed_from: Natural | None = None
    damaged: Annotated[tuple[Annotated[str, Field(max_length=1000)], ...], Field(max_length=16)] = ()
    """Checkpoints that could not be read and were passed over."""
    cpu_s: float | None = None


Places: TypeAlias = tuple[int, ...]
"""Final place of every seat of one game, 0 the best; equal numbers are a tie."""
Group: TypeAlias = tuple[Places, ...]
"""The games of one opening: game `s` is the one in which `a` had seat `s`, and `b` all others."""


@record
class Match:
    """Groups of games between two players, of one config: `a` has one seat, `b` all others.

    Raises `ValueError` where the games are not those of whole groups of one number of players.
    """

    a: str
    b: str
    groups: tuple[Group, ...]

    def __post_init__(self) -> None:
        if self.a == self.b:
            raise ValueError(f"match of {self.a} against itself: it says nothing; leave it out")
        for number, group in enumerate(self.groups):
            _check(group, len(self.groups[0]), f"match {self.a} against {self.b}, group {number}")

    @property
    def players(self) -> int | None:
        """Seats of the game; `None` while nothing was played."""
        return len(self.groups[0]) if self.groups else None


@record
class EvaluationResult:
    """What an evaluation reports."""

    schema: Literal[1]
    matches: tuple[Match, ...]
    games: Natural
    segments: tuple[SegmentRef, ...] = ()
    cpu_s: float | None = None


@record
class Rating:
    """Strength of a player within one config in Elo, with its 95 % interval, and the games it rests on."""

    elo: float
    low: float
    high: float
    games: int

    @property
    def fixed(self) -> bool:
        """Whether this is an anchor: known by definition."""
        return self.low == self.high

    @property
    def sd(self) -> float:
        """Standard deviation, taking the interval for a normal one."""
        return (self.high - self.low) / (2 * INTERVAL_SD)


class ModelStatus(StrEnum):
    """What became of a model."""

    CANDIDATE = "candidate"
    PROMOTED = "promoted"
    REJECTED = "rejected"
    DROPPED = "dropped"
    """Its test was called off: the current model changed under it."""
    ROLLED_BACK = "rolled back"
    """It was the current model until somebody went back to an earlier one."""


def player_of(engine: str, simulations: int | None, model: str | None) -> str:
    """The name of a rated entity: engine, budget, model."""
    budget = "" if simulations is None else f"-{simulations}"
    return f"{engine}{budget}" + ("" if model is None else f"@{model}")


def model_of(player: str) -> str | None:
    """The model a player plays with; `None` for anchors and engines without one."""
    _, _, model = player.partition("@")
    return model or None


def _check(group: Group, players: int, what: str) -> None:
    if len(group) != players or players < 2:
        raise ValueError(f"{what}: {len(group)} games; a group is one from each of the {players} seats, 2 at least")
    for places in group:
        if len(places) != players or not all(0 <= place < players for place in places):
            raise ValueError(f"{what}: {places} are not the places 0..{players - 1} of {players} seats")
