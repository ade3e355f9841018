"""What would this fleet make of its time? A described fleet, played for days through the real core and policies."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

from hostler.model.fleet import DeviceSpec, NodeSpec
from hostler.model.learning import ConfigSpec
from hostler.model.record import record
from hostler.model.rules import USUAL, Rules
from hostler.model.simulated import Measures
from hostler.model.work import DeviceKind, JobSpec, Resources, WorkKind
from hostler.policy import fit, power
from hostler.sim.faults import DAY_S, HOUR_S, Faults, Lives
from hostler.sim.lab import Lab
from hostler.sim.measures import Setting, measures
from hostler.sim.nature import REFERENCE_POWER, Habits, Rated, drawn_powers, is_gpu
from hostler.sim.programs import Script, script_job
from hostler.sim.world import Manner, World

TELEMETRY_S = 55.0
CHECKPOINT_S = 900.0
TRAINING_MEAN_S, TRAINING_SPREAD = 2 * HOUR_S, 0.8
ITEMS_PER_S = 1e6
"""What an A100 searches."""
USUAL_VRAM_GB: Mapping[str, float] = {
    "H200": 141, "H100": 80, "L40": 48, "A40": 48, "A10": 24, "T4": 16,
    "5090": 32, "5080": 16, "4090": 24, "4080": 16, "4070": 12, "3090": 24, "3080": 10, "3070": 8, "3060": 12,
    "3060 Ti": 8, "2080 Ti": 11,
}  # fmt: skip


@record
class Scenario:
    """A fleet, what it has to do, and what happens to it. One scenario is one history."""

    name: str
    nodes: tuple[NodeSpec, ...]
    configs: tuple[ConfigSpec, ...] = ()
    rules: Rules = USUAL
    jobs: tuple[tuple[float, JobSpec], ...] = ()
    """Jobs, all with keys and all virtual (`sim.programs`), with the seconds at which they are submitted."""
    days: float = 7.0
    seed: int = 0
    faults: Faults | None = None
    lives: Lives | None = None
    """How long ephemeral nodes live; `None`: for ever."""
    power: Mapping[str, float] | None = None
    """True power of devices; by default `policy.power`'s, each device times a factor of its own."""
    habits: Habits = Habits()
    cores: bool = False
    """Whether all devices are CPU slots, on which stages go as they were measured there (`sim.nature`)."""
    validate: bool = False
    telemetry_every_s: float | None = TELEMETRY_S

    @property
    def span_s(self) -> float:
        """How long it is played."""
        return self.days * DAY_S


def play(scenario: Scenario) -> Measures:
    """Play a scenario to its end."""
    begin = time.perf_counter()
    world = build(scenario)
    world.live(scenario.span_s)
    return measured(scenario, world, time.perf_counter() - begin)


def build(scenario: Scenario) -> World:
    """The world of a scenario, at its begin."""
    world = World(
        scenario.seed,
        scenario.nodes,
        Rated(
            powers(scenario),
            ITEMS_PER_S,
            scenario.seed,
            scenario.habits,
            models={device.id: device.speed_class for node in scenario.nodes for device in node.devices},
            cores=scenario.cores,
        ),
        scenario.faults,
        scenario.validate,
        Lab({config.name: config.game.anchors for config in scenario.configs}, known=True),
        rules=scenario.rules,
        lives=scenario.lives,
        manner=Manner(quick=True, telemetry_every_s=scenario.telemetry_every_s),
    )
    world.declare(*scenario.configs)
    for at_s, spec in scenario.jobs:
        world.submit(at_s, [spec])
    return world


def measured(scenario: Scenario, world: World, wall_s: float | None = None) -> Measures:
    """What has come of a scenario so far."""
    setting = Setting(
        fleet=scenario.name,
        seed=scenario.seed,
        nodes=scenario.nodes,
        power=powers(scenario),
        span_s=world.agenda.now,
        rules=scenario.rules,
        start_s=scenario.habits.start_s,
    )
    return measures(world.entries(), setting, world.happened, wall_s)


def powers(scenario: Scenario) -> dict[str, float]:
    """The true power of every device of a scenario."""
    if scenario.power is not None:
        return dict(scenario.power)
    return drawn_powers(scenario.nodes, prior(scenario.nodes), scenario.seed)


def prior(nodes: Sequence[NodeSpec]) -> dict[str, float]:
    """What the ranking table says of every device."""
    return {device.id: _prior(device) for node in nodes for device in node.devices}


def trainings(
    scenario: Scenario,
    load: float,
    resources: Mapping[str, Resources],
    mean_s: float = TRAINING_MEAN_S,
    spread: float = TRAINING_SPREAD,
) -> tuple[tuple[float, JobSpec], ...]:
    """Training jobs that arrive by chance (Poisson) and would keep `load` of the power of tiers 1 and 2 busy.

    They last `mean_s` on an A100 on average, log-normally with `spread`, save their work every 15 minutes and whenever
    they are asked to stop, and belong to the configs that `resources` names, in turn by chance.
    """
    random = Random(f"{scenario.seed} trainings")  # noqa: S311  reproducible, not secret
    known = powers(scenario)
    fast = [node for node in scenario.nodes if _tier(node) in (1, 2)]
    total = sum(known[device.id] for node in fast for device in node.devices if is_gpu(device)) / REFERENCE_POWER
    every_s = mean_s / (load * total) if load and total else math.inf
    models = sorted({device.speed_class for node in scenario.nodes for device in node.devices if is_gpu(device)})
    return tuple(_arrivals(random, every_s, scenario.span_s, resources, models, mean_s, spread))


def _arrivals(
    random: Random,
    every_s: float,
    span_s: float,
    resources: Mapping[str, Resources],
    models: Sequence[str],
    mean_s: float,
    spread: float,
) -> Iterator[tuple[float, JobSpec]]:
    names, at_s, number = sorted(resources), 0.0, 0
    while names and math.isfinite(every_s):
        at_s, number = at_s + random.expovariate(1 / every_s), number + 1
        if at_s >= span_s:
            return
        config = random.choice(names)
        seconds = mean_s * math.exp(random.gauss(0.0, spread) - spread**2 / 2)
        yield at_s, training_job(f"train-{number}", config, seconds, resources[config], models)


def training_job(
    name: str, config: str, seconds: float, need: Resources, models: Sequence[str], priority: int = 1
) -> JobSpec:
    """A script that counts as training and lasts so long on an A100."""
    script = Script(seconds=seconds, power=REFERENCE_POWER, checkpoint_s=CHECKPOINT_S)
    return script_job(
        name,
        script,
        key=name,
        work_as=WorkKind.TRAINING,
        config=config,
        resources=need,
        priority=priority,
        checkpoints=True,
        grace_s=30.0,
        expected_s=expected(seconds, models),
    )


def expected(seconds: float, models: Sequence[str]) -> dict[str, float]:
    """How long something that lasts so long on an A100 lasts on these models, by the ranking table."""
    known = {model: power.prior(model) for model in models}
    return {model: seconds * REFERENCE_POWER / rank for model, rank in known.items() if rank} | {"*": seconds}


def virtual(spec: JobSpec) -> JobSpec | None:
    """A job of a fleet file as a virtual one, if its owner says how long it lasts; `None` where nobody can."""
    if spec.payload.kind != "script" or not spec.expected_s:
        return None
    said = dict(spec.expected_s)
    script = Script(
        seconds=said.get("*", max(said.values())),
        checkpoint_s=CHECKPOINT_S if spec.checkpoints else None,
        by_model=None if set(said) == {"*"} else said,
    )
    made = script_job(spec.name, script)
    return replace(spec, payload=made.payload, key=spec.key or spec.name)


def added(name: str, model: str, count: int, vram_gb: float, provider: str, price_per_h: float | None) -> NodeSpec:
    """A node that is not there yet."""
    devices = (
        DeviceSpec(id=f"{name}/cuda{index}", node=name, kind=DeviceKind.CUDA, index=index, model=model, vram_gb=vram_gb)
        for index in range(count)
    )
    return NodeSpec(
        name=name,
        backend="virtual",
        devices=tuple(devices),
        provider=provider,
        price_per_h=None if price_per_h is None else price_per_h * count,
    )


def usual_vram_gb(model: str) -> float | None:
    """The memory of GPUs of a well-known model; `None` where it is not one, or comes in several sizes."""
    names = [name for name in USUAL_VRAM_GB if re.search(rf"(?<!\d){name}(?!\d)", model, re.IGNORECASE)]
    return USUAL_VRAM_GB[max(names, key=len)] if names else None


def _prior(device: DeviceSpec) -> float:
    known = power.prior(device.model) if is_gpu(device) else None
    return power.CPU_POWER if known is None else known


def _tier(node: NodeSpec) -> int | None:
    known = [device.vram_gb for device in node.devices if is_gpu(device)]
    return fit.tier(math.fsum(size for size in known if size is not None) if known else None)
