"""Training configs for virtual fleets, with everything small; and small worlds of them, each made from its seed."""

from __future__ import annotations

from random import Random
from typing import Any

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
from hostler.model.record import record
from hostler.model.work import JobSpec
from hostler.sim import Faults, Script, World, script_job, sweep_job
from hostler.sim.lab import Lab
from tests.simulation.worlds import PATIENT, _node

ANCHORS = {"random": -200.0, "greedy": 100.0}
STAGE = StageSpec(command=("virtual",))


def config(
    name: str = "tiny_2p", *, players: int = 2, goal: Goal | None = None, quick: bool = False, **fields: Any
) -> ConfigSpec:
    """A config that comes to its first candidate within some hundred games; a `quick` one tests and rates less."""
    return ConfigSpec(
        name=name,
        game=GameRef(factory="virtual:game", params={"players": players}, players=players, anchors=ANCHORS),
        selfplay=SelfplaySpec(stage=STAGE, games=64 if quick else 32, segment_games=8),
        export=ExportSpec(stage=STAGE, min_games=60, fresh_games=60, window_games=400),
        training=TrainingSpec(stage=STAGE, batch=64, max_steps=400),
        evaluation=EvaluationSpec(stage=STAGE, groups=12, precision_elo=120.0, max_groups=24 if quick else 48),
        promotion=PromotionSpec(elo0=0.0, elo1=80.0, max_groups=48 if quick else 120),
        goal=goal,
        **fields,
    )


@record
class LoopPlan:
    """What a small world is asked to do beside its loops."""

    configs: tuple[ConfigSpec, ...]
    scripts: tuple[JobSpec, ...]
    sweeps: tuple[JobSpec, ...]
    planted: dict[str, tuple[int, ...]]


def loop_world(seed: int, faults: Faults, fails: float = 0.0, lies: float = 0.0) -> tuple[World, LoopPlan, Lab]:
    """Up to three configs on a few nodes, with scripts and a sweep beside them."""
    random = Random(seed)
    # Where it has been rented, a node has files of its own, and tells at once what is closed there.
    nodes = tuple(
        _node(f"n{number}", random.randint(1, 3), rented=number % 2 == 1) for number in range(random.randint(1, 3))
    )
    speeds = {device.id: random.choice([300.0, 1000.0, 4000.0]) for node in nodes for device in node.devices}
    lab = Lab(ANCHORS, fails=fails, lies=lies)
    world = World(seed, nodes, speeds, faults, lab=lab)
    plan = _loop_plan(random)
    world.declare(*plan.configs)
    world.submit(random.uniform(0.0, 60.0), plan.scripts)
    world.submit(random.uniform(0.0, 60.0), plan.sweeps)
    return world, plan, lab


def _loop_plan(random: Random) -> LoopPlan:
    goal = Goal(promotions=1, candidates=3, failures=100)
    configs = tuple(
        config(
            f"c{number}",
            players=random.randint(2, 4),
            goal=goal,
            quick=True,
            weight=random.choice([1.0, 2.0]),
            priority=random.choice([0, 0, 1]),
            seed=random.randrange(1000),
        )
        for number in range(random.choice([1, 1, 2, 3]))
    )
    scripts = tuple(
        script_job(f"s{n}", Script(seconds=random.choice([1.0, 20.0])), key=f"s{n}", retry=PATIENT) for n in range(2)
    )
    hits = tuple(sorted({random.randrange(40_000) for _ in range(3)}))
    sweep = sweep_job("w", 0, 40_000, hits, key="w", target_s=8.0, retry=PATIENT)
    return LoopPlan(configs=configs, scripts=scripts, sweeps=(sweep,), planted={"w": hits})
