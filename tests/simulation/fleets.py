"""Small rented fleets with loops, trainings and scripts, each made from its seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import fmean

from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.learning import (
    ConfigSpec,
    EvaluationSpec,
    ExportSpec,
    GameRef,
    PromotionSpec,
    SelfplaySpec,
    StageSpec,
    TrainingSpec,
)
from hostler.model.rules import PlacementRules, Quota, Rules
from hostler.model.work import DeviceKind, FailureClass, JobSpec, Resources, Retry, WorkKind
from hostler.policy import fit
from hostler.sim import Script, script_job
from hostler.sim.faults import HOUR_S, Lives, level
from hostler.sim.fleet import Scenario, prior, trainings
from hostler.sim.nature import REFERENCE_POWER, game_seconds

DAYS = 2.0
QUIET_S = 0.25 * 86_400
PATIENT = Retry(max_attempts=dict.fromkeys(FailureClass, 1000), backoff_s=5.0, backoff_max_s=60.0)
MODELS = (("H100", 80.0), ("A100", 80.0), ("RTX 4090", 24.0), ("RTX 3090", 24.0), ("RTX 3060", 12.0))
BOARDS = ("hex8", "square8", "square19")
GPU = Resources(device="gpu")
PAIR = Resources(device="gpu", gpus=2)
SPREAD = Resources(device="gpu", vram_gb=36.0, shards=True)
"""Two GPUs of 24 GB, three of 12, or one of 80."""


def fleet(seed: int, days: float = DAYS) -> Scenario:
    """A fleet of 6 to 9 GPUs and what it has to do; nothing goes wrong any more in the last quarter of a day.

    Half of the fleets have work that takes several GPUs of a node at once, scripts and self-play, and a pair at home.
    """
    random = Random(seed)
    gangs = Random(f"{seed} gangs") if has_gangs(seed) else None
    nodes = _nodes(random, 1 if gangs is None else 2)
    speed = fmean(prior(nodes).values()) / REFERENCE_POWER
    configs = tuple(_config(random, number, speed) for number in range(random.randint(2, 3)))
    if gangs is not None:
        configs = _spread(gangs, configs)
    scenario = Scenario(
        name=f"fleet-{seed}",
        nodes=nodes,
        configs=configs,
        rules=Rules(
            quotas=(Quota(pattern=configs[0].name, share=random.choice([0.2, 0.5])),),
            placement=PlacementRules(plan_every_s=1800.0),
        ),
        days=days,
        seed=seed,
        faults=level(random.choice(["light", "heavy", "heavy"]), len(nodes), days * 86_400 - QUIET_S),
        lives=Lives(mean_s=random.choice([2.0, 8.0]) * HOUR_S),
        validate=True,
        telemetry_every_s=random.choice([None, 300.0]),
    )
    need = {config.name: config.training.stage.resources for config in configs}
    arrivals = trainings(replace(scenario, days=days - 1.0), random.choice([0.02, 0.08]), need)
    return replace(scenario, jobs=(*_patient(arrivals), *_scripts(random, (days - 1.0) * 86_400, gangs)))


def has_gangs(seed: int) -> bool:
    """Whether the fleet has work for several devices at once."""
    return seed % 4 in (1, 2)


def _nodes(random: Random, home: int) -> tuple[NodeSpec, ...]:
    nodes, left = [_node("home", "RTX 3090", 24.0, home, ephemeral=False)], random.randint(5, 7)
    while left:
        model, vram_gb = random.choice(MODELS)
        count = min(random.choice([1, 2, 4]), left)
        nodes.append(_node(f"n{len(nodes)}", model, vram_gb, count, ephemeral=random.random() < 0.6))
        left -= count
    return tuple(nodes)


def _node(name: str, model: str, vram_gb: float, count: int, ephemeral: bool) -> NodeSpec:
    devices = tuple(
        DeviceSpec(id=f"{name}/cuda{at}", node=name, kind=DeviceKind.CUDA, index=at, model=model, vram_gb=vram_gb)
        for at in range(count)
    )
    provider = "vast" if ephemeral else "runpod"
    return NodeSpec(
        name=name,
        backend="virtual",
        devices=devices,
        ephemeral=ephemeral,
        provider=provider,
        price_per_h=0.3 * count,
        cpus=8.0,
    )


def _config(random: Random, number: int, speed: float) -> ConfigSpec:
    """One whose self-play takes two hours on a device of that speed, as a share of an A100's."""
    board = random.choice(BOARDS)
    players = 2 + number
    stages = {kind: _stage(kind, board) for kind in WorkKind}
    games = max(round(2 * HOUR_S * speed / game_seconds(board)), 8)
    return ConfigSpec(
        name=f"{board}_{players}p",
        game=GameRef(
            factory="virtual:game",
            params={"board": board, "players": players},
            players=players,
            anchors={"random": 0.0, "greedy": 300.0},
        ),
        selfplay=SelfplaySpec(stage=stages[WorkKind.SELFPLAY], games=games, segment_games=max(games // 8, 1)),
        export=ExportSpec(
            stage=stages[WorkKind.EXPORT], min_games=4 * games, fresh_games=4 * games, window_games=24 * games
        ),
        training=TrainingSpec(stage=stages[WorkKind.TRAINING], batch=256, max_steps=2000),
        evaluation=EvaluationSpec(stage=stages[WorkKind.EVALUATION], groups=20, max_groups=20),
        promotion=PromotionSpec(max_groups=40),
        seed=random.randrange(1000),
    )


def _spread(gangs: Random, configs: tuple[ConfigSpec, ...]) -> tuple[ConfigSpec, ...]:
    """The configs, one of them with self-play that is spread over several devices of a node."""
    chosen = gangs.choice(configs)
    stage = replace(chosen.selfplay.stage, resources=replace(SPREAD, gpus=gangs.choice([1, 2])))
    spread = replace(chosen, selfplay=replace(chosen.selfplay, stage=stage))
    return tuple(spread if each is chosen else each for each in configs)


def _stage(kind: WorkKind, board: str) -> StageSpec:
    """As a fleet file has it that says nothing of it."""
    return StageSpec(command=("virtual",), resources=fit.stage_need(kind, board))


def _scripts(random: Random, span_s: float, gangs: Random | None) -> tuple[tuple[float, JobSpec], ...]:
    made = []
    for number in range(6):
        need = GPU if gangs is None else gangs.choice([GPU, GPU, PAIR, SPREAD])
        script = Script(seconds=random.uniform(60.0, 3 * HOUR_S), fails=random.choice([0.0, 0.3]))
        spec = script_job(f"script-{number}", script, key=f"script-{number}", resources=need, retry=PATIENT)
        made.append((random.uniform(0.0, span_s), replace(spec, priority=random.choice([0, 1]))))
    return tuple(made)


def _patient(arrivals: tuple[tuple[float, JobSpec], ...]) -> tuple[tuple[float, JobSpec], ...]:
    return tuple((at_s, replace(spec, retry=PATIENT)) for at_s, spec in arrivals)
