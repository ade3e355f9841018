"""Training configs as they are written in a fleet file. Nothing here does anything but refuse contradictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import (
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationInfo,
    field_validator,
    model_validator,
    with_config,
)
from pydantic_core import CoreSchema
from typing_extensions import TypedDict

from hostler.model.learning import ConfigName, Natural, Positive, Share
from hostler.model.work import Priority, Retry, Seconds
from hostler.settings.descriptions import descriptions
from hostler.settings.section import Command, JobEnvironment, Needs, Section
from hostler.settings.slurm import SlurmJob

Elo: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Chance: TypeAlias = Annotated[float, Field(gt=0, lt=0.5)]
Reuse: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Factory: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")]
AnchorName: TypeAlias = Annotated[str, Field(pattern=r"^[^@\x00]+$")]

OPTIONS = ConfigDict(extra="forbid", strict=True)


@with_config(OPTIONS)
class SelfplayOptions(TypedDict, total=False):
    """Options of Hostler's own self-play."""

    considered: Positive
    """Actions that the search looks at from its root; 16 by default."""
    sampled_plies: Natural | None
    """Plies in which the move is drawn from the improved policy; by default a third of the longest game."""
    parallel: Positive
    """Games played at once."""


@with_config(OPTIONS)
class ExportOptions(TypedDict, total=False):
    """Hostler's own export has no options."""


@with_config(OPTIONS)
class TrainingOptions(TypedDict, total=False):
    """Options of Hostler's own training."""

    learning_rate: Annotated[float, Field(gt=0, le=10)]
    """Of the optimiser."""
    weight_decay: Annotated[float, Field(ge=0, le=10)]
    """Of the optimiser."""
    validation: Annotated[float, Field(gt=0, le=0.5)]
    """Share of the games that is held out."""
    patience: Positive
    """Validations without improvement until it stops early."""
    validate_every: Positive
    """Steps between two validations."""
    checkpoint_every: Positive
    """Steps between two checkpoints: what a kill costs at most."""
    root_weight: Share
    """How much of the value's target is what the search thought, not how the game ended; 0 by default."""


@with_config(OPTIONS)
class EvaluationOptions(TypedDict, total=False):
    """Options of Hostler's own evaluation."""

    opening_plies: Natural
    """Random plies at the start of a game; 2 by default."""
    considered: Positive
    """Actions that the search looks at from its root; 16 by default."""


@dataclass(frozen=True, slots=True)
class _Described:
    """The options that Hostler's own stage knows, for editors and the reference; other programs have others."""

    known: type

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        parts = TypeAdapter(self.known).json_schema().get("properties", {})
        texts = descriptions(self.known)
        plain = {name: {key: value for key, value in each.items() if key != "title"} for name, each in parts.items()}
        described = {name: {**each, "description": texts[name]} for name, each in plain.items()}
        return {"type": "object", "properties": described, "additionalProperties": True}


class Stage(Section):
    """What the stages of a loop have in common."""

    own_options: ClassVar[type]

    command: Command | None = None
    """A program of your own that keeps to docs/reference/learning.md, started in the folder of this file; a first word
    `{python}` is the node's Python. It gets all `options` unread. By default Hostler's own."""
    env: JobEnvironment = {}
    """Environment variables on top of the node's; `{secret: NAME}` as a value is that secret, and values under names
    that look like credentials are stored as secrets."""
    resources: Needs | None = None
    """What it needs of its device. By default what games and networks of its board are known to need, which
    `hostler plan` shows, and nothing for a board that Hostler does not know."""
    retry: Retry = Retry()
    """How often a job may fail, and how long it rests before it tries again."""
    walltime_s: Seconds | None = None
    """Longest time an attempt may run, in seconds."""
    slurm: SlurmJob | None = None
    """What its jobs want of a cluster, where they run on one."""

    @field_validator("options", check_fields=False)
    @classmethod
    def _known_to_the_stage(cls, options: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Whoever brings a program knows its options; those of Hostler's own are checked here."""
        if info.data.get("command") is None:
            TypeAdapter(cls.own_options).validate_python(options, strict=True)
        return options


class Selfplay(Stage):
    """Self-play: who plays, and how many games a job and a segment hold."""

    own_options = SelfplayOptions

    engine: Literal["gumbel", "heuristic"] = "gumbel"
    """`gumbel` searches with the current model, `heuristic` is the game's fast engine, for weak nodes."""
    search: Literal["gumbel", "heuristic", "parallel"] | None = None
    """Which devices suit it, where `resources` say nothing: `gumbel` the large ones, `heuristic` the small ones,
    `parallel` any, with many games on each. By default as the `engine`."""
    simulations: Positive = 64
    """Simulations of the search for each move; `heuristic` makes none."""
    games: Positive = 64
    """Games of a job."""
    segment_games: Positive = 16
    """Games of a segment: what is lost at most when a node vanishes."""
    options: Annotated[dict[str, Any], _Described(SelfplayOptions)] = {}
    """Options of the program."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.segment_games > self.games:
            raise ValueError(f"segment_games {self.segment_games} is above games {self.games}; no segment would fill")
        return self


class Export(Stage):
    """Datasets: when one is made, of what window, and what the quality gate lets pass."""

    own_options = ExportOptions

    min_games: Positive = 1000
    """Fewest accepted games of a dataset."""
    fresh_games: Positive = 500
    """Games that must have come since the last dataset."""
    window_games: Positive = 20_000
    """Newest games that a dataset is chosen from."""
    quality: Share = 0.7
    """Least score of a segment, the least of its measured properties."""
    max_gap_elo: Annotated[Elo, Field(ge=0)] = 400.0
    """Games of a player rated further below the current model are refused, once there is a promoted one."""
    include_evaluation: bool = False
    """Whether games of evaluations may be trained on."""
    options: Annotated[dict[str, Any], _Described(ExportOptions)] = {}
    """Options of the program; Hostler's own has none."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.min_games > self.window_games:
            raise ValueError(
                f"min_games {self.min_games} is above window_games {self.window_games}; there would never be a dataset"
            )
        return self


class Training(Stage):
    """Training: the network's size, and how much of it new games allow and demand."""

    own_options = TrainingOptions

    channels: Positive = 32
    """Width of the network."""
    blocks: Positive = 3
    """Residual blocks of the network."""
    batch: Positive | None = None
    """Positions of an optimiser step. By default 256, or what is nearest to it of what makes sense on its board."""
    max_steps: Positive = 2000
    """Most optimiser steps of a job."""
    reuse: tuple[Reuse, Reuse] = (0.25, 8.0)
    """Least and most often that a new position is trained on, on average: steps × batch / new positions."""
    options: Annotated[dict[str, Any], _Described(TrainingOptions)] = {}
    """Options of the program."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        low, high = self.reuse
        if low > high:
            raise ValueError(f"reuse [{low:g}, {high:g}] has its least above its most; swap them")
        return self


class Evaluation(Stage):
    """Evaluation: the search budget of everybody, the size of a job, and how well a model is to be rated."""

    own_options = EvaluationOptions

    simulations: Positive = 64
    """Simulations of every model's search for each move."""
    groups: Positive = 16
    """Groups of games (one from every seat) in a job."""
    precision_elo: Annotated[Elo, Field(gt=0)] = 75.0
    """Half width of the current model's 95 % interval that is good enough."""
    max_groups: Positive = 64
    """Groups spent on rating one model at most."""
    options: Annotated[dict[str, Any], _Described(EvaluationOptions)] = {}
    """Options of the program."""


class Promotion(Section):
    """The sequential test between candidate and current model."""

    elo0: Elo = 0.0
    """A candidate that is no more than this better is not to be promoted."""
    elo1: Elo = 50.0
    """One that is at least this better is."""
    alpha: Chance = 0.05
    """Probability to promote one that is not better than `elo0`, at most."""
    beta: Chance = 0.05
    """Probability to reject one that is better than `elo1`, at most."""
    min_groups: Positive = 8
    """Groups of games before a decision."""
    max_groups: Positive = 400
    """Groups after which an undecided candidate is rejected."""

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        if self.elo1 <= self.elo0:
            raise ValueError(f"elo1 {self.elo1:g} must be above elo0 {self.elo0:g}: the test tells them apart")
        if self.min_groups > self.max_groups:
            raise ValueError(f"min_groups {self.min_groups} is above max_groups {self.max_groups}")
        return self


class IdleAfter(Section):
    """When `hostler up --until-idle` takes a loop for over; without that it goes on for ever."""

    promotions: Positive = 1
    """Promotions after which it has ended well."""
    candidates: Positive = 10
    """Candidates decided without enough promotions after which it has ended badly."""
    failures: Positive = 3
    """Jobs of one stage that fail in a row after which it has ended badly."""


class Config(Section):
    """A training config: one learning problem and the loop that works on it."""

    name: ConfigName
    """Its name; letters, digits, dots, dashes and underscores. For the game `beacons` it says board and players."""
    game: Annotated[str, Field(min_length=1)] | None = None
    """An installed game; by default `beacons`, unless `players` tells of a game of your own."""
    params: dict[str, Any] = {}
    """Parameters of the game."""
    factory: Factory | None = None
    """Of a game of your own: `module:function` that makes it of `params`; needed unless every stage has a command."""
    players: Annotated[int, Field(ge=2, le=16)] | None = None
    """Of a game of your own: how many play it."""
    anchors: Annotated[dict[AnchorName, Elo], Field(min_length=1)] | None = None
    """Of a game of your own: players whose rating is fixed, and their Elo; by default `{random: 0}`."""
    weight: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """Its place in the curriculum, against the other configs."""
    priority: Priority = 0
    """Of its self-play, higher goes first; the other stages go one before."""
    target_elo: Elo | None = None
    """Once the current model is rated so high, only a trickle of games goes on; by default there is no such mark."""
    seed: Natural = 0
    """What all chance in its loop comes from."""
    selfplay: Selfplay = Selfplay()
    """Games of the current model against itself."""
    export: Export = Export()
    """Games that pass the quality gate, to datasets."""
    training: Training = Training()
    """Datasets to candidates."""
    evaluation: Evaluation = Evaluation()
    """Games that rate and test models."""
    promotion: Promotion = Promotion()
    """The test that a candidate must pass."""
    idle_after: IdleAfter = IdleAfter()
    """When `hostler up --until-idle` takes the loop for over; without that it goes on for ever."""

    @property
    def stages(self) -> dict[str, Stage]:
        """The stages by their names, in the order of the loop."""
        return {
            "selfplay": self.selfplay,
            "export": self.export,
            "training": self.training,
            "evaluation": self.evaluation,
        }

    @model_validator(mode="after")
    def _one_game(self) -> Self:
        own = {"factory": self.factory, "players": self.players, "anchors": self.anchors}
        given = [name for name, value in own.items() if value is not None]
        if self.game is not None and given:
            raise ValueError(
                f"{', '.join(given)}: only for a game of your own; the installed {self.game!r} knows its own"
            )
        if given and self.players is None:
            raise ValueError(f"{', '.join(given)}: a game of your own needs `players`, too")
        hostlers = [name for name, stage in self.stages.items() if stage.command is None]
        if self.players is not None and self.factory is None and hostlers:
            raise ValueError(
                f"give the `factory` of your own game: Hostler's own {', '.join(hostlers)} must make it "
                "(or give these stages a `command`)"
            )
        return self
