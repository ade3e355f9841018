"""Training configs of a fleet file: what becomes of them, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from hostler.model import codec
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
from hostler.model.work import FailureClass, Resources, Retry, WorkKind
from hostler.policy.fit import stage_need
from hostler.settings import config_specs, describe, load, specs
from hostler.settings.games import GameProgram, find_game

Configs = Callable[..., tuple[ConfigSpec, ...]]


class Hex:
    """A game that knows two boards."""

    name = "hex"
    factory = "hex.game:make"

    def prepare(self, config: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if config.partition("_")[0] not in ("small", "large"):
            raise ValueError(f"the config {config!r} names no board; there are small and large")
        return {"board": config.partition("_")[0], "players": 2, **params}

    def players(self, params: Mapping[str, Any]) -> int:
        return int(params["players"])

    def anchors(self, params: Mapping[str, Any]) -> dict[str, float]:
        return {"random": 0.0, "greedy": 412.5}


def game(name: str) -> GameProgram:
    """The games of these tests."""
    if name not in ("hex", "beacons"):
        raise SpecError(f"no game {name!r} is installed (installed: hex)")
    return Hex()


@pytest.fixture
def configs(tmp_path: Path) -> Configs:
    """Specs of the configs of a fleet file with this text."""

    def made(text: str, *, until_idle: bool = False) -> tuple[ConfigSpec, ...]:
        path = tmp_path / "fleet.yaml"
        path.write_text(text, encoding="utf-8")
        return config_specs(load(path, {}), until_idle=until_idle, find=game)

    return made


def test_a_name_is_enough_and_the_rest_is_as_the_model_has_it(configs: Configs) -> None:
    def stage(name: str) -> StageSpec:
        return StageSpec(command=("{python}", "-m", "hostler.workloads.alphazero", name))

    (spec,) = configs("configs: [{name: small_2p}]")
    params = {"board": "small", "players": 2}
    anchors = {"random": 0.0, "greedy": 412.5}
    assert spec == ConfigSpec(
        name="small_2p",
        game=GameRef(factory="hex.game:make", params=params, players=2, anchors=anchors),
        selfplay=SelfplaySpec(stage=stage("selfplay")),
        export=ExportSpec(stage=stage("export")),
        training=TrainingSpec(stage=stage("training")),
        evaluation=EvaluationSpec(stage=stage("evaluation")),
    )


FULL = """
configs:
- name: small_3p
  game: hex
  params: {players: 3}
  weight: 2
  priority: -5
  seed: 7
  target_elo: 1500
  selfplay:
    engine: heuristic
    simulations: 8
    games: 32
    segment_games: 4
    command: [./play, --fast]
    env: {A: b}
    resources: {device: gpu, vram_gb: 8}
    retry: {max_attempts: {exit: 5}}
    walltime_s: 60
    options: {anything: [1, {b: null}]}
  export: {min_games: 100, fresh_games: 50, window_games: 900, quality: 1, max_gap_elo: 0, include_evaluation: true}
  training: {channels: 8, blocks: 1, batch: 32, max_steps: 9, reuse: [1, 2], options: {learning_rate: 0.5, patience: 3}}
  evaluation: {simulations: 4, groups: 2, precision_elo: 10, max_groups: 8, options: {opening_plies: 0}}
  promotion: {elo0: -5, elo1: 5, alpha: 0.1, beta: 0.2, min_groups: 1, max_groups: 2}
  idle_after: {promotions: 2, candidates: 3, failures: 4}
"""


def test_everything_that_is_written_arrives(configs: Configs, tmp_path: Path) -> None:
    (spec,) = configs(FULL, until_idle=True)
    assert (spec.name, spec.weight, spec.priority, spec.seed) == ("small_3p", 2.0, -5, 7)
    assert spec.target_elo == 1500
    assert spec.game.params == {"board": "small", "players": 3}
    assert spec.game.players == 3
    assert spec.selfplay == SelfplaySpec(
        stage=StageSpec(
            command=("./play", "--fast"),
            cwd=str(tmp_path),
            env={"A": "b"},
            resources=Resources(device="gpu", vram_gb=8.0),
            retry=Retry(max_attempts={FailureClass.EXIT: 5}),
            walltime_s=60.0,
            options={"anything": [1, {"b": None}]},
        ),
        engine="heuristic",
        simulations=8,
        games=32,
        segment_games=4,
    )
    assert (spec.export.stage.cwd, spec.export.quality, spec.export.include_evaluation) == (None, 1.0, True)
    assert (spec.export.min_games, spec.export.fresh_games, spec.export.window_games) == (100, 50, 900)
    assert spec.export.max_gap_elo == 0
    assert (spec.training.channels, spec.training.blocks, spec.training.batch) == (8, 1, 32)
    assert (spec.training.max_steps, spec.training.reuse) == (9, (1.0, 2.0))
    assert spec.training.stage.options == {"learning_rate": 0.5, "patience": 3}
    assert (spec.evaluation.simulations, spec.evaluation.groups) == (4, 2)
    assert (spec.evaluation.precision_elo, spec.evaluation.max_groups) == (10.0, 8)
    assert spec.evaluation.stage.options == {"opening_plies": 0}
    assert spec.promotion == PromotionSpec(elo0=-5.0, elo1=5.0, alpha=0.1, beta=0.2, min_groups=1, max_groups=2)
    assert spec.goal == Goal(promotions=2, candidates=3, failures=4)


def test_every_field_of_the_model_can_be_set(configs: Configs) -> None:
    """`test_everything_that_is_written_arrives` sets each of them to something that is not its default."""
    (full,) = configs(FULL, until_idle=True)
    (bare,) = configs("configs: [{name: small_2p}]", until_idle=True)
    for part in ("selfplay", "export", "training", "evaluation", "promotion", "goal"):
        for field in fields(getattr(full, part)):
            if field.name != "stage":
                there, usual = (getattr(getattr(spec, part), field.name) for spec in (full, bare))
                assert there != usual, f"{part}.{field.name}"


BOARD = "configs: [{name: small_2p, params: {board: square19}, "


@pytest.mark.parametrize(
    ("more", "search"),
    [
        ("selfplay: {}", "gumbel"),
        ("selfplay: {engine: heuristic}", "heuristic"),
        ("selfplay: {search: parallel}", "parallel"),
        ("selfplay: {engine: heuristic, search: gumbel}", "gumbel"),
    ],
)
def test_a_board_that_is_known_says_what_its_stages_need(configs: Configs, more: str, search: Any) -> None:
    (spec,) = configs(f"{BOARD}{more}}}]")
    assert spec.selfplay.stage.resources == stage_need(WorkKind.SELFPLAY, "square19", search)
    assert spec.training.stage.resources == stage_need(WorkKind.TRAINING, "square19")
    assert spec.evaluation.stage.resources == stage_need(WorkKind.EVALUATION, "square19")
    assert spec.export.stage.resources == Resources()
    assert spec.training.stage.resources.vram_gb == 16


@pytest.mark.parametrize(("more", "batch"), [("training: {}", 128), ("training: {batch: 99}", 99)])
def test_a_board_says_how_many_positions_a_step_has_unless_its_owner_does(
    configs: Configs, more: str, batch: int
) -> None:
    (spec,) = configs(f"{BOARD.replace('square19', 'hexagonal')}{more}}}]")
    assert spec.training.batch == batch


def test_what_a_stage_says_itself_is_all_that_counts(configs: Configs) -> None:
    (spec,) = configs(BOARD + "training: {resources: {memory_gb: 4}}}]")
    assert spec.training.stage.resources == Resources(memory_gb=4.0)


def test_the_limit_of_memory_holds_where_nobody_said_another(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text(
        "limits: {memory_gb: 80}\njobs: [{name: a, run: [x]}, {name: b, run: [x], resources: {memory_gb: 4}}]\n"
        "sweeps: [{name: s, worker: [w], range: [0, 9]}]\nconfigs: [{name: small_2p}]\n"
    )
    loaded = load(path, {})
    assert [spec.resources.memory_gb for spec in specs(loaded)] == [80.0, 80.0, 4.0]
    (config,) = config_specs(loaded, until_idle=False, find=game)
    assert config.export.stage.resources == Resources(memory_gb=80.0)


def test_specs_are_read_back_as_they_are(configs: Configs) -> None:
    (spec,) = configs(FULL, until_idle=True)
    assert codec.record_fault(spec) is None
    assert configs(FULL, until_idle=True) == (spec,)


def test_a_loop_has_an_end_only_where_somebody_waits_for_it(configs: Configs) -> None:
    text = "configs: [{name: small_2p}, {name: large_2p, idle_after: {promotions: 5}}]"
    assert [spec.goal for spec in configs(text)] == [None, None]
    assert [spec.goal for spec in configs(text, until_idle=True)] == [Goal(), Goal(promotions=5)]


OWN = "configs:\n- name: mine\n  players: 4\n"
COMMANDS = "".join(f"  {stage}: {{command: [x]}}\n" for stage in ("selfplay", "export", "training", "evaluation"))


def test_a_game_of_ones_own_needs_no_program(configs: Configs) -> None:
    (spec,) = configs(OWN + "  factory: my.games:make\n  params: {size: 9}\n  anchors: {random: 0, mc-50: 300}\n")
    anchors = {"random": 0.0, "mc-50": 300.0}
    assert spec.game == GameRef(factory="my.games:make", params={"size": 9}, players=4, anchors=anchors)
    (spec,) = configs(OWN + COMMANDS)
    assert spec.game == GameRef(factory="", params={}, players=4, anchors={"random": 0.0})


FAULTS = [
    ("[{name: small_2p}, {name: §small_2p}]", "the name 'small_2p' is used twice; the first is at"),
    ("[{name: §'a b'}]", "configs[0].name: the text should match pattern"),
    ("[§{}]", "configs[0].name: is missing"),
    ("[{name: a, §wieght: 1}]", "configs[0].wieght: is no setting; did you mean 'weight'?"),
    ("[{name: a, weight: §0}]", "configs[0].weight: should be greater than 0 (found 0)"),
    ("[{name: a, selfplay: {§simulatons: 1}}]", "configs[0].selfplay.simulatons: is no setting; did you mean"),
    ("[{name: a, selfplay: {simulations: §1.5}}]", "configs[0].selfplay.simulations: should be a valid integer"),
    ("[{name: a, selfplay: {engine: §alphabeta}}]", "configs[0].selfplay.engine: should be 'gumbel' or"),
    (
        "[{name: a, selfplay: §{games: 4}}]",
        "configs[0].selfplay: segment_games 16 is above games 4; no segment would fill",
    ),
    ("[{name: a, selfplay: {command: §[]}}]", "configs[0].selfplay.command: the list should have at least 1"),
    (
        "[{name: a, selfplay: {options: {§considerd: 4}}}]",
        "configs[0].selfplay.options.considerd: is no setting; did you mean 'considered'? (allowed here: considered,",
    ),
    (
        "[{name: a, selfplay: {options: {parallel: §0}}}]",
        "configs[0].selfplay.options.parallel: should be greater than or equal to 1 (found 0)",
    ),
    (
        "[{name: a, training: {options: {validation: §'0.1'}}}]",
        "configs[0].training.options.validation: should be a valid number (found '0.1')",
    ),
    ("[{name: a, export: {options: {§x: 1}}}]", "configs[0].export.options.x: is no setting (allowed here: nothing)"),
    ("[{name: a, evaluation: {options: §[1]}}]", "configs[0].evaluation.options: should be a mapping"),
    ("[{name: a, export: {quality: §1.1}}]", "configs[0].export.quality: should be less than or equal to 1"),
    (
        "[{name: a, export: §{window_games: 10}}]",
        "configs[0].export: min_games 1000 is above window_games 10; there would never be a dataset",
    ),
    ("[{name: a, training: §{reuse: [3, 1]}}]", "configs[0].training: reuse [3, 1] has its least above its most"),
    ("[{name: a, training: {reuse: [§0, 1]}}]", "configs[0].training.reuse[0]: should be greater than 0"),
    ("[{name: a, promotion: §{elo1: 0}}]", "configs[0].promotion: elo1 0 must be above elo0 0"),
    ("[{name: a, promotion: §{min_groups: 500}}]", "configs[0].promotion: min_groups 500 is above max_groups 400"),
    ("[{name: a, promotion: {alpha: §0.5}}]", "configs[0].promotion.alpha: should be less than 0.5"),
    (
        "[§{name: a, game: hex, players: 2}]",
        "configs[0]: players: only for a game of your own; the installed 'hex' knows its own",
    ),
    ("[§{name: a, factory: 'm:f'}]", "configs[0]: factory: a game of your own needs `players`, too"),
    ("[{name: a, factory: §m.f, players: 2}]", "configs[0].factory: the text should match pattern"),
    ("[{name: a, players: §1}]", "configs[0].players: should be greater than or equal to 2"),
    (
        "[§{name: a, players: 2, export: {command: [x]}}]",
        "configs[0]: give the `factory` of your own game: Hostler's own selfplay, training, evaluation must make it",
    ),
    (
        "[{name: a, players: 2, factory: 'm:f', anchors: {x@1: §0}}]",
        "configs[0].anchors.x@1: the text should match pattern",
    ),
    ("[{name: a, players: 2, factory: 'm:f', anchors: §{}}]", "configs[0].anchors: the mapping should have at"),
    ("[{name: a, target_elo: §.inf}]", "configs[0].target_elo: should be a valid number"),
    ("[{name: a, selfplay: {search: §deep}}]", "configs[0].selfplay.search: should be 'gumbel', 'heuristic' or"),
    ("[{name: a, training: {resources: §{shards: true}}}]", "configs[0].training.resources: shards spreads vram_gb"),
    ("[{name: a, game: §chess}]", "configs[0].game: no game 'chess' is installed (installed: hex)"),
    ("[§{name: a}]", "configs[0].params: the config 'a' names no board; there are small and large"),
    ("[{name: a, params: §{b: 1}}]", "configs[0].params: the config 'a' names no board"),
]


@pytest.mark.parametrize(("text", "message"), FAULTS, ids=[text for text, _ in FAULTS])
def test_a_fault_is_told_with_its_place(configs: Configs, tmp_path: Path, text: str, message: str) -> None:
    """`§` marks the place."""
    text = f"configs: {text}"
    with pytest.raises(SettingsError) as caught:
        configs(text.replace("§", ""))
    place = f"{tmp_path / 'fleet.yaml'}:1:{text.index('§') + 1}"
    assert str(caught.value).startswith(f"{place}: {message}")


def test_faults_of_many_stages_are_told_at_once(configs: Configs) -> None:
    with pytest.raises(SettingsError) as caught:
        configs("configs: [{name: a, promotion: {elo0: 60}, selfplay: {games: 1, options: {x: 1}}, weight: -1}]")
    assert [line.split(": ")[1] for line in str(caught.value).splitlines()] == [
        "configs[0].weight",
        "configs[0].selfplay.options.x",
        "configs[0].promotion",
    ]


def test_settings_of_configs_have_their_origin(tmp_path: Path) -> None:
    path = tmp_path / "fleet.yaml"
    path.write_text("configs:\n- name: small_2p\n  selfplay: {games: 32, options: {parallel: 4}}\n")
    described = {setting.path: setting for setting in describe(load(path, {}))}
    assert (described["configs[0].selfplay.games"].value, described["configs[0].selfplay.games"].origin) == (
        32,
        f"{path}:3:21",
    )
    assert described["configs[0].selfplay.options"].value == {"parallel": 4}
    assert (described["configs[0].export.quality"].value, described["configs[0].export.quality"].origin) == (
        0.7,
        "default",
    )
    assert "configs[0].game" not in described
    assert all(setting.doc for setting in described.values())


def test_games_are_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "made_up-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1\n")
    (tmp_path / "made_up_hex.py").write_text(
        "from tests.settings.test_configs import Hex\nHEX = Hex()\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(
        "[hostler.games]\nhex = made_up_hex:HEX\ngone = made_up_gone:GAME\nwrong = json:dumps\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert find_game("hex").name == "hex"
    with pytest.raises(SpecError, match=r"no game 'hax' is installed \(installed: .*hex.*\); a game of your own needs"):
        find_game("hax")
    with pytest.raises(SpecError, match="'gone' cannot be loaded"):
        find_game("gone")
    with pytest.raises(SpecError, match=re.escape("json:dumps is no game")):
        find_game("wrong")
