"""Training configs of a fleet file, to the specs that the core works on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
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
from hostler.settings.games import GameProgram, find_game
from hostler.settings.jobsfile import PYTHON
from hostler.settings.loading import Loaded
from hostler.settings.loops import Config, Stage
from hostler.settings.reading import show
from hostler.settings.section import Section

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
    stages = {name: _stage(name, stage, loaded.base_dir) for name, stage in config.stages.items()}
    return ConfigSpec(
        name=config.name,
        game=_game(loaded, index, find),
        selfplay=SelfplaySpec(stage=stages["selfplay"], **_own(config.selfplay)),
        export=ExportSpec(stage=stages["export"], **_own(config.export)),
        training=TrainingSpec(stage=stages["training"], **_own(config.training)),
        evaluation=EvaluationSpec(stage=stages["evaluation"], **_own(config.evaluation)),
        promotion=PromotionSpec(**_values(config.promotion)),
        weight=config.weight,
        priority=config.priority,
        seed=config.seed,
        goal=Goal(**_values(config.idle_after)) if until_idle else None,
    )


def _stage(name: str, stage: Stage, base_dir: Path) -> StageSpec:
    """Hostler's own programs need no folder; somebody's own are looked for in that of the fleet file."""
    own = stage.command is None
    return StageSpec(
        command=(PYTHON, "-m", OWN_STAGES, name) if stage.command is None else stage.command,
        cwd=None if own else str(base_dir),
        env=stage.env,
        resources=stage.resources,
        retry=stage.retry,
        walltime_s=stage.walltime_s,
        options=_values(stage)["options"],
    )


def _own(stage: Stage) -> dict[str, Any]:
    """What a stage has beyond all others."""
    shared = {*Stage.model_fields, "options"}
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
