"""A big virtual fleet for benchmarks of the core: devices of many classes, training configs, scripts of many families.

Nothing runs: `World` is the shell. It carries out what the core commands in virtual time, lets attempts end, machines
vanish and come back, and takes the CPU time of every call of `handle`, by what it was told.
"""

import heapq
import itertools
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from hostler.core import Core
from hostler.model.commands import AttemptOrder, Command, Fit, Launch, Solve, Stop
from hostler.model.fleet import DeviceSpec, NodeLimits, NodeSpec
from hostler.model.inputs import (
    Begin,
    Configure,
    Declare,
    Ended,
    Input,
    Launched,
    LinkDown,
    LinkUp,
    NodeFound,
    Planned,
    Started,
    Submit,
    Telemetry,
    Tick,
)
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
from hostler.model.planning import Instance
from hostler.model.rules import Cost, Quota, Rules
from hostler.model.telemetry import DeviceTelemetry
from hostler.model.work import DeviceKind, JobSpec, Resources, ScriptPayload, WorkKind
from hostler.policy import cost, fit, power, programme
from hostler.sim.lab import Lab


@dataclass(frozen=True, slots=True)
class Model:
    """GPUs that can be rented: `counts` to a node, `price` for one of them per hour."""

    name: str
    vram_gb: float
    counts: tuple[int, ...]
    price: float
    providers: tuple[str, ...]


MODELS = (
    Model("H100", 80, (1, 2, 8), 2.5, ("runpod", "nebius")),
    Model("A100", 80, (1, 4, 8), 1.8, ("runpod", "nebius")),
    Model("GH200", 96, (1,), 2.0, ("lambda",)),
    Model("L40S", 48, (1, 2), 1.2, ("runpod", "nebius")),
    Model("A40", 46, (1, 2), 0.5, ("vast",)),
    Model("RTX 5090", 32, (1, 2, 4), 0.8, ("vast", "runpod")),
    Model("RTX 4090", 24, (1, 2, 8), 0.45, ("vast", "runpod")),
    Model("RTX 3090", 24, (1, 4, 8), 0.3, ("vast",)),
    Model("RTX 5080", 16, (1, 2), 0.35, ("vast",)),
    Model("RTX 4060 Ti", 16, (1,), 0.15, ("vast",)),
    Model("RTX 3060", 12, (1, 4, 12), 0.1, ("vast", "home")),
    Model("RTX 2080 Ti", 11, (1,), 0.1, ("vast",)),
    Model("RTX 3060 Ti", 8, (1,), 0.1, ("vast",)),
    Model("A100 vGPU", 20, (1,), 0.45, ("vultr",)),
)
EPHEMERAL = frozenset({"vast"})
BOARDS = tuple(fit.BOARDS)
"""Quotas go by their names."""
NEEDS = (
    Resources(device="gpu"),
    Resources(device="gpu", vram_gb=8.0),
    Resources(device="gpu", vram_gb=16.0),
    Resources(device="gpu", vram_gb=24.0, cpus=2.0),
    Resources(device="gpu", vram_gb=40.0),
    Resources(device="gpu", vram_gb=20.0, gpus=2),
)
FAMILIES = 40
SLOW = "slow loop is asked"
MEAN_S = {"selfplay": 1200.0, "export": 120.0, "training": 3600.0, "evaluation": 600.0}
SCRIPT_MEAN_S = 1800.0
FIRST_MODEL_S = 20.0
GRACE_S = 5.0
BATCH = 10_000


def nodes(devices: int, random: Random) -> list[NodeSpec]:
    """A fleet of about so many devices, one in fifty of them a CPU slot."""
    made: list[NodeSpec] = []
    slots = max(devices // 50, 1)
    for number in range(math.ceil(slots / 4)):
        made.append(_cpu_node(f"host-{number}"))
    left = devices - sum(len(node.devices) for node in made)
    while left > 0:
        model = random.choice(MODELS)
        made.append(_gpu_node(f"n{len(made)}", model, min(random.choice(model.counts), left), random))
        left -= len(made[-1].devices)
    return made


def configs(count: int) -> tuple[ConfigSpec, ...]:
    """So many training configs, on all boards in turn."""
    return tuple(_config(BOARDS[number % len(BOARDS)], number) for number in range(count))


def rules() -> Rules:
    """What the owner of such a fleet would say."""
    return Rules(
        quotas=(Quota(pattern="hexagonal_*", share=0.25), Quota(pattern="square8_*", share=0.1)),
        cost=Cost(providers=cost.SEED_PREFERENCES, max_price_per_h={WorkKind.SELFPLAY: 3.0}),
    )


def scripts(first: int, count: int, random: Random, urgent: float = 0.0) -> tuple[JobSpec, ...]:
    """Scripts of some dozens of families; this share of them goes before everything, a third of the others last."""
    return tuple(_script(number, random, urgent) for number in range(first, first + count))


class World:
    """A core, a fleet, and a shell that does everything at once and perfectly. `times` are CPU seconds by event."""

    def __init__(self, devices: int, config_count: int, seed: int = 1) -> None:
        self.random = Random(seed)
        self.core = Core()
        self.now = 1_000_000.0
        self.times: dict[str, list[float]] = defaultdict(list)
        self.nodes = {node.name: node for node in nodes(devices, self.random)}
        self.lab = Lab({}, known=True)
        self._power = {device.id: power.prior(device.model) or 50.0 for device in self._devices()}
        self._running: dict[str, AttemptOrder] = {}
        self._place: dict[str, str] = {}
        self._agenda: list[tuple[float, int, str, str]] = []
        self._ticket = itertools.count()
        self._submitted = 0
        self._down: set[str] = set()
        self.steps = 0
        """How far the stream of events is (`decisions.play`)."""
        self.tell("begin", Begin(version="bench", epoch=1), Configure(rules=rules()))
        for node in self.nodes.values():
            self.tell("node found", NodeFound(node=node))
            self.tell("link up", self._hello(node.name, "first"))
        specs = configs(config_count)
        self.lab = Lab({spec.name: spec.game.anchors for spec in specs}, known=True)
        self.tell("declare", Declare(configs=specs))

    def tell(self, kind: str, *inputs: Input) -> None:
        """Give inputs to the core; carry out what follows, each start an event of its own.

        A call in which the slow loop was asked counts as that: the question is made within it.
        """
        began = time.process_time()
        outcome = self.core.handle(self.now, *inputs)
        spent_s = time.process_time() - began
        asked = any(isinstance(each, Solve) for each in outcome.commands)
        self.times[SLOW if asked else kind].append(spent_s)
        refused = [each for each in outcome.answers if isinstance(each, Exception)]
        if refused:
            raise refused[0]
        for command in outcome.commands:
            self._obey(command)

    def submit(self, count: int, urgent: float = 0.0) -> None:
        """So many scripts more."""
        while count > 0:
            batch = min(count, BATCH)
            specs = scripts(self._submitted, batch, self.random, urgent)
            self._submitted += batch
            count -= batch
            self.tell("scripts arrive", Submit(specs=specs))

    def submit_training(self) -> None:
        """A training that nobody's loop asked for; it goes before self-play."""
        name = self.random.choice(list(self.core.state.configs))
        self._submitted += 1
        spec = _script(self._submitted, self.random, 0.0)
        need = fit.stage_need(WorkKind.TRAINING, name.partition("_")[0])
        spec = replace(
            spec, work_as=WorkKind.TRAINING, config=name, resources=need, priority=1, checkpoints=True
        )  # fmt: skip
        self.tell("training arrives", Submit(specs=(spec,)))

    def end_next(self) -> None:
        """Time goes on to whatever ends next, or is due."""
        while True:
            due = self.core.wake_at()
            if due is not None and (not self._agenda or due < self._agenda[0][0]):
                self.now = max(self.now, due)
                self.tell("timer", Tick())
                continue
            at, _, attempt, reason = heapq.heappop(self._agenda)
            order = self._running.pop(attempt, None)
            if order is not None and self._place.get(attempt) not in self._down:
                self.now = max(self.now, at)
                self._end(order, reason)
                return

    def measure_node(self) -> None:
        """A node tells how it is."""
        node = self.nodes[self.random.choice(list(self.nodes))]
        if node.name in self._down:
            return
        told = {
            each.id: DeviceTelemetry(utilization=self.random.uniform(0.5, 0.9), vram_used_gb=4.0)
            for each in node.devices
        }
        self.tell("telemetry", Telemetry(
            node=node.name, at=self.now, load=0.5, memory_total_gb=64.0, memory_free_gb=self.random.uniform(20, 40),
            disk_total_gb=500.0, disk_free_gb=400.0, backlog_s=0.0, devices=told,
        ))  # fmt: skip

    def lose_node(self) -> None:
        """A node with GPUs vanishes, if there is more than one."""
        up = [each for each in self.nodes if each not in self._down]
        if len(up) < 2:
            return
        name = self.random.choice(up)
        self._down.add(name)
        self.tell("node lost", LinkDown(node=name, why="it vanished"))

    def return_nodes(self) -> None:
        """Nodes that vanished come back empty: whatever ran there is lost."""
        for name in sorted(self._down):
            gone = [attempt for attempt, place in self._place.items() if place == name]
            for attempt in gone:
                self._running.pop(attempt, None)
                del self._place[attempt]
            self._down.discard(name)
            self.tell("node returns", self._hello(name, f"at {self.now}"))

    def _obey(self, command: Command) -> None:
        match command:
            case Launch(node=node, order=order):
                self._begin(node, order)
            case Stop(attempt=attempt):
                heapq.heappush(self._agenda, (self.now + GRACE_S, next(self._ticket), attempt, "stopped"))
            case Solve(instance=instance):
                self.tell("plan arrives", *self._planned(instance))
            case Fit():
                self.tell("ratings fitted", self.lab.fit(command))

    def _planned(self, instance: Instance) -> Iterator[Planned]:
        """The slow loop's answer: prices are enough for the fast one."""
        plan = programme.plan_without_solver(instance)
        if plan is not None:
            yield Planned(plan=plan)

    def _begin(self, node: str, order: AttemptOrder) -> None:
        if node in self._down:
            return
        self._running[order.id], self._place[order.id] = order, node
        ends_at = self.now + self._seconds(node, order)
        heapq.heappush(self._agenda, (ends_at, next(self._ticket), order.id, ""))
        self.tell("attempt started", Launched(attempts=(order.id,)), Started(attempt=order.id, pid=1, pid_start=1))

    def _end(self, order: AttemptOrder, reason: str) -> None:
        self._place.pop(order.id, None)
        stage = (order.inputs or {}).get("stage")
        status, result = (0, {"n": 1}) if stage is None else self.lab.report(order.inputs or {})
        stopped = reason == "stopped"
        told = Ended(
            attempt=order.id, started_at=self.now - 60.0, ended_at=self.now, exit_code=None if stopped else status,
            signal=15 if stopped else None, reason=reason or None, result=None if stopped else result,
        )  # fmt: skip
        self.tell(f"{stage or 'script'} ends" if not stopped else "attempt stopped", told)

    def _seconds(self, node: str, order: AttemptOrder) -> float:
        inputs = order.inputs or {}
        mean_s = MEAN_S.get(inputs.get("stage", ""), SCRIPT_MEAN_S)
        if inputs.get("stage") == "training" and not inputs["steps"]:
            mean_s = FIRST_MODEL_S
        device = f"{node}/{order.queue.partition('+')[0].partition('.')[0]}"
        speed = min(max(math.sqrt(self._power[device] / 330.0), 0.3), 3.0)
        return mean_s * self.random.lognormvariate(0.0, 0.5) / speed

    def _hello(self, node: str, agent: str) -> LinkUp:
        return LinkUp(node=node, agent=f"{node} {agent}", incarnation=1, boot=None, attempts=(), chunks=())

    def _devices(self) -> Iterator[DeviceSpec]:
        return (device for node in self.nodes.values() for device in node.devices)


def _gpu_node(name: str, model: Model, count: int, random: Random) -> NodeSpec:
    provider = random.choice(model.providers)
    devices = (
        DeviceSpec(
            id=f"{name}/cuda{at}", node=name, kind=DeviceKind.CUDA, index=at, model=model.name, vram_gb=model.vram_gb
        )
        for at in range(count)
    )
    return NodeSpec(
        name=name,
        backend="bench",
        devices=tuple(devices),
        provider=provider,
        ephemeral=provider in EPHEMERAL,
        price_per_h=model.price * count,
        cpus=8.0 * count if model.vram_gb > 12 else 4.0,
        limits=NodeLimits(scripts=4) if count > 8 else NodeLimits(),
    )


def _cpu_node(name: str) -> NodeSpec:
    devices = (DeviceSpec(id=f"{name}/cpu{at}", node=name, kind=DeviceKind.CPU, index=at) for at in range(4))
    return NodeSpec(name=name, backend="bench", devices=tuple(devices), provider="home", cpus=8.0)


def _config(board: str, number: int) -> ConfigSpec:
    def stage(kind: WorkKind) -> StageSpec:
        return StageSpec(command=("virtual",), resources=fit.stage_need(kind, board))

    players = 2 + number % 3
    return ConfigSpec(
        name=f"{board}_{players}p_{number}",
        game=GameRef(
            factory="virtual:game",
            params={"board": board, "players": players},
            players=players,
            anchors={"random": 0.0, "greedy": 300.0},
        ),
        selfplay=SelfplaySpec(stage=stage(WorkKind.SELFPLAY), games=64, segment_games=16),
        export=ExportSpec(stage=stage(WorkKind.EXPORT), min_games=128, fresh_games=192, window_games=1024),
        training=TrainingSpec(stage=stage(WorkKind.TRAINING), batch=256, max_steps=2000),
        evaluation=EvaluationSpec(stage=stage(WorkKind.EVALUATION), groups=8, max_groups=16),
        promotion=PromotionSpec(max_groups=40),
        weight=1.0 + number % 4,
        seed=number,
    )


def _script(number: int, random: Random, urgent: float) -> JobSpec:
    family = random.randrange(FAMILIES)
    return JobSpec(
        name=f"sweep-{chr(97 + family % 26)}{chr(97 + family // 26)} {number}",
        payload=ScriptPayload(schema=1, argv=("run", str(number))),
        resources=NEEDS[family % len(NEEDS)],
        priority=1 if random.random() < urgent else -int(family % 3 == 0),
        expected_s={"*": SCRIPT_MEAN_S} if family % 2 else {},
    )


def taken(times: Iterable[Sequence[float]]) -> list[float]:
    """All of some lists of times, in order of size."""
    return sorted(itertools.chain.from_iterable(times))
