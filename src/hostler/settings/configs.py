"""Training configs of a fleet file, to the specs that the core works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hostler.model.errors import SettingsError, SpecError
from hostler.model.learning import (
    ConfigSpec,
    EvaluationSpec,
    ExportSpec,
    GameRef,
    Goal,
    PromotionSpec,
    SelfplaySpec,
    StageSpec,
    TrainingSpec,
)
from hostler.model.schemas import show
from hostler.model.work import Resources, WorkKind
from hostler.policy import fit
from hostler.settings.clusters import batch_options
from hostler.settings.games import GameProgram, find_game
from hostler.settings.jobsfile import PYTHON, bounded
from hostler.settings.loading import Loaded
from hostler.settings.loops import Config, Selfplay, Stage
from hostler.settings.section import Section, secrets_in, values_in

USUAL_GAME = "beacons"
USUAL_ANCHORS: Mapping[str, float] = {"random": 0.0}
OWN_STAGES = "hostler.workloads.alphazero"

FindGame = Callable[[str], GameProgram]


def config_specs(loaded: Loaded, *, until_idle: bool, find: FindGame = find_game) -> tuple[ConfigSpec, ...]:
    """The training configs of a fleet file, in its order; with `until_idle` each has its goal.

    `find` gives a game by its name. Raises `SettingsError` where a game is not installed or refuses its parameters.
    """
    return tuple(_spec(loaded, i, until_idle, find) for i in range(len(loaded.fleet.configs)))


def _spec(loaded: Loaded, index: int, until_idle: bool, find: FindGame) -> ConfigSpec:
    config = loaded.fleet.configs[index]
    game = _game(loaded, index, find)
    stages = {name: _stage(name, stage, game, loaded) for name, stage in config.stages.items()}
    return ConfigSpec(
        name=config.name,
        game=game,
        selfplay=SelfplaySpec(stage=stages["selfplay"], **_own(config.selfplay)),
        export=ExportSpec(stage=stages["export"], **_own(config.export)),
        training=TrainingSpec(stage=stages["training"], **{**_own(config.training), "batch": _batch(config, game)}),
        evaluation=EvaluationSpec(stage=stages["evaluation"], **_own(config.evaluation)),
        promotion=PromotionSpec(**_values(config.promotion)),
        weight=config.weight,
        priority=config.priority,
        seed=config.seed,
        target_elo=config.target_elo,
        goal=Goal(**_values(config.idle_after)) if until_idle else None,
    )


def _batch(config: Config, game: GameRef) -> int:
    return config.training.batch or fit.usual_batch(game.params.get("board"))


def _stage(name: str, stage: Stage, game: GameRef, loaded: Loaded) -> StageSpec:
    """Hostler's own programs need no folder; somebody's own are looked for in that of the fleet file."""
    own = stage.command is None
    return StageSpec(
        command=(PYTHON, "-m", OWN_STAGES, name) if stage.command is None else stage.command,
        cwd=None if own else str(loaded.base_dir),
        env=values_in(stage.env),
        secrets=secrets_in(stage.env),
        resources=bounded(stage.resources or _usual(name, stage, game), loaded.fleet.limits),
        retry=stage.retry,
        walltime_s=stage.walltime_s,
        options=_values(stage)["options"],
        batch=batch_options(stage.slurm),
    )


def _usual(name: str, stage: Stage, game: GameRef) -> Resources:
    """What a stage needs that says nothing of it. Exports read and write files, whatever the board."""
    board = game.params.get("board")
    if board not in fit.BOARDS or name == "export":
        return Resources()
    search = (stage.search or stage.engine) if isinstance(stage, Selfplay) else "parallel"
    return fit.stage_need(WorkKind(name), board, search)


def _own(stage: Stage) -> dict[str, Any]:
    """What a stage has beyond all others."""
    shared = {*Stage.model_fields, "options", "search"}
    return {name: value for name, value in _values(stage).items() if name not in shared}


def _values(section: Section) -> dict[str, Any]:
    return {name: getattr(section, name) for name in type(section).model_fields}


def _game(loaded: Loaded, index: int, find: FindGame) -> GameRef:
    config = loaded.fleet.configs[index]
    if config.players is not None:
        return _unannounced(config, config.players)
    part = "game"
    try:
        program = find(config.game or USUAL_GAME)
        part = "params"
        params = program.prepare(config.name, config.params)
        return GameRef(
            factory=program.factory,
            params=params,
            players=program.players(params),
            anchors=program.anchors(params),
        )
    except (SpecError, ValueError) as error:
        path = ("configs", index, part)
        raise SettingsError(f"{loaded.tree.at(path)}: {show(path)}: {error}") from error


def _unannounced(config: Config, players: int) -> GameRef:
    anchors = USUAL_ANCHORS if config.anchors is None else config.anchors
    return GameRef(factory=config.factory or "", params=config.params, players=players, anchors=anchors)
