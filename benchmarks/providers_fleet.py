"""The fleet of `providers.py`: what there is, what comes, and when nodes are gone. Drawn once, for everybody."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

from hostler.core.loop.stages import WINDOW_SEGMENTS
from hostler.model.fleet import NodeSpec
from hostler.model.learning import ConfigSpec
from hostler.model.rules import Rules
from hostler.model.work import JobSpec
from hostler.policy import fit
from hostler.settings import config_specs, load, node_spec, rules
from hostler.sim import fleet as sim
from hostler.sim.faults import DAY_S, HOUR_S, lives_of
from hostler.sim.nature import START_S, SYNC_S, Habits, game_seconds
from hostler.sim.programs import script_of

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "examples" / "multi-provider.yaml"
TRACE = Path("bamboo") / "p3-trace.csv"
REPLACE_S = 1200.0
USUAL_LOAD = 0.3
SELFPLAY_S = 4 * HOUR_S
"""How long a job of self-play lasts on an A100. The fleet file says how many games: no device is asked."""
HABITS = Habits(start_s=START_S, sync_s=SYNC_S, small_share=1.0)


@dataclass(frozen=True, slots=True)
class Case:
    """One week: whose lives, how much training, which chance."""

    seed: int
    scale: float
    """Ephemeral nodes live as in the trace, times this."""
    load: float = USUAL_LOAD
    """Trainings would keep this share of the power of tiers 1 and 2 busy."""
    days: float = 7.0

    @property
    def span_s(self) -> float:
        """How long it is played."""
        return self.days * DAY_S


@dataclass(frozen=True, slots=True)
class Gone:
    """A node dies, and another one stands in for it later (seconds)."""

    node: str
    at: float
    back: float


@dataclass(frozen=True, slots=True)
class Training:
    """A training that is submitted at a moment; it lasts so many seconds on an A100."""

    name: str
    config: str
    at: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Week:
    """All that is the same for every scheduler."""

    case: Case
    scenario: sim.Scenario
    gone: tuple[Gone, ...]

    @property
    def nodes(self) -> tuple[NodeSpec, ...]:
        """The machines with GPUs."""
        return tuple(node for node in self.scenario.nodes if fit.tier(vram_gb(node)) is not None)

    @property
    def power(self) -> Mapping[str, float]:
        """True power of every device."""
        return sim.powers(self.scenario)

    @property
    def trainings(self) -> tuple[Training, ...]:
        """What arrives, in order."""
        return tuple(_training(at, spec) for at, spec in self.scenario.jobs)

    def up(self, node: str) -> list[tuple[float, float]]:
        """From when to when a node is there."""
        edges = [0.0]
        for each in self.gone:
            if each.node == node:
                edges += [each.at, each.back]
        edges.append(max(self.case.span_s, edges[-1]))
        return [(begin, min(end, self.case.span_s)) for begin, end in zip(edges[::2], edges[1::2], strict=True)]

    def up_s(self, node: str) -> float:
        """How long a node is there."""
        return sum(max(end - begin, 0.0) for begin, end in self.up(node))


def data() -> Path | None:
    """The spot trace; `None` where it is not."""
    asked = os.environ.get("HOSTLER_BENCH_DATA")
    places = [Path(asked)] if asked else [ROOT.parent / "shared" / "data"]
    return next((place / TRACE for place in places if (place / TRACE).exists()), None)


def week(case: Case, lives_s: Sequence[float], selfplay_s: float = SELFPLAY_S) -> Week:
    """The week of a case; nodes live as long as the trace has it."""
    scenario = _scenario(case, selfplay_s)
    needs = {config.name: config.training.stage.resources for config in scenario.configs}
    scenario = replace(scenario, jobs=sim.trainings(scenario, case.load, needs))
    return Week(case, scenario, tuple(_gone(case, scenario.nodes, lives_s)))


def traced(path: Path) -> tuple[float, ...]:
    """Lives of the instances of the trace, in seconds."""
    return lives_of(path.read_text("utf-8").splitlines())


def vram_gb(node: NodeSpec) -> float | None:
    """The memory of all GPUs of a node; `None`: it has none."""
    known = [device.vram_gb for device in node.devices if device.vram_gb is not None]
    return sum(known) if known else None


@cache
def _file() -> tuple[tuple[NodeSpec, ...], tuple[ConfigSpec, ...], Rules]:
    loaded = load(FILE, {})
    nodes = tuple(node_spec(node.model_copy(update={"backend": "virtual"})) for node in loaded.fleet.nodes)
    return nodes, config_specs(loaded, until_idle=False), rules(loaded)


def _scenario(case: Case, selfplay_s: float) -> sim.Scenario:
    nodes, configs, said = _file()
    return sim.Scenario(
        name="multi-provider",
        nodes=nodes,
        configs=tuple(_endless(config, selfplay_s) for config in configs),
        rules=said,
        days=case.days,
        seed=case.seed,
        habits=HABITS,
        telemetry_every_s=None,
    )


def _endless(config: ConfigSpec, selfplay_s: float) -> ConfigSpec:
    """A config that plays and plays: no dataset is ever due, and nothing has to be rated."""
    games = max(round(selfplay_s / game_seconds(config.name)), 1)
    most = games * WINDOW_SEGMENTS
    return replace(
        config,
        game=replace(config.game, anchors={}),
        selfplay=replace(config.selfplay, games=games, segment_games=games),
        export=replace(config.export, min_games=most, fresh_games=most, window_games=most),
    )


def _gone(case: Case, nodes: Sequence[NodeSpec], lives_s: Sequence[float]) -> Iterator[Gone]:
    for node in nodes:
        if not node.ephemeral:
            continue
        random, at = Random(f"{case.seed} {case.scale:g} {node.name}"), 0.0
        while True:
            at += random.choice(lives_s) * case.scale
            if at >= case.span_s:
                break
            back = at + random.expovariate(1 / REPLACE_S)
            yield Gone(node.name, at, back)
            at = back


def _training(at: float, spec: JobSpec) -> Training:
    assert spec.payload.kind == "script"
    assert spec.config is not None
    return Training(spec.name, spec.config, at, script_of(spec.payload.argv).seconds)
