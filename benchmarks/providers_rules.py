"""Simple schedulers for `providers.py`: the seed's idle daemon, a static split, greedy. Same fleet, lives and arrivals.

They see a death at once and place on the fastest device that fits; what an attempt loses, and how long it starts up, is
as for Hostler. Durations are exact: self-play lasts a segment, a training what it has left.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from random import Random

from hostler.model.fleet import NodeSpec
from hostler.model.work import Resources, WorkKind
from hostler.policy import fit, share
from hostler.policy.fit import Site
from hostler.sim.faults import HOUR_S
from hostler.sim.nature import CHECKPOINT_S, REFERENCE_POWER, START_S, SYNC_S
from providers_fleet import Training, Week


@dataclass(frozen=True, slots=True)
class Rule:
    """A scheduler."""

    name: str
    segment_s: float
    idle_s: float = 0.0
    """How long a device is idle before it gets self-play."""
    preempts: bool = False
    """Whether a training takes a device from self-play."""
    by_chance: bool = False
    """Whether the next config is drawn by its share; else it is who had least for its share of the tier."""
    split: bool = False
    """Whether tier 1 does nothing but train, and the rest nothing but play."""


RULES = (
    Rule("idle daemon (seed 000)", 4 * HOUR_S, idle_s=600.0, by_chance=True),
    Rule("static split", 4 * HOUR_S, split=True),
    Rule("greedy, 30 min", 0.5 * HOUR_S, preempts=True),
    Rule("greedy, 2 h", 2 * HOUR_S, preempts=True),
)


@dataclass(slots=True, eq=False)
class Job:
    """A training that is not done."""

    asked: Training
    left_s: float
    """On an A100."""
    since: float
    waited_s: float = 0.0


@dataclass(slots=True, eq=False)
class Run:
    """Work on devices of one node."""

    config: str
    devices: tuple[str, ...]
    begin: float
    job: Job | None
    """The training; `None`: self-play."""
    over: bool = False


@dataclass(slots=True)
class Outcome:
    """What came of a week: device seconds and power seconds."""

    busy_s: float = 0.0
    useful: float = 0.0
    had_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By config, in tier 1."""
    waits: list[float] = field(default_factory=list)
    spans: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    """When each config had a device."""
    trained_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """The longest that a training of each config had devices at a stretch."""


class Fleet:
    """What fits where; asked again and again."""

    def __init__(self, week: Week) -> None:
        self.power = week.power
        self.nodes: dict[str, NodeSpec] = {node.name: node for node in week.nodes}
        self.sites: dict[str, Site] = {
            device.id: fit.site(node, device) for node in week.nodes for device in node.devices
        }
        self.needs = {config.name: config.selfplay.stage.resources for config in week.scenario.configs}
        self.train = {config.name: config.training.stage.resources for config in week.scenario.configs}
        self._known: dict[tuple[str, WorkKind, str], int] = {}

    def wanted(self, config: str, work: WorkKind, device: str) -> int:
        """Devices that work of a config takes there; 0: it does not fit."""
        key = config, work, device
        if key not in self._known:
            need: Resources = (self.needs if work is WorkKind.SELFPLAY else self.train)[config]
            refused = fit.refusal(need, self.sites[device], work)
            self._known[key] = 0 if refused else fit.devices_needed(need, self.sites[device])
        return self._known[key]

    def tier(self, device: str) -> int | None:
        """The tier of its node."""
        return self.sites[device].tier


class Schedule:
    """One rule, one week."""

    def __init__(self, week: Week, rule: Rule, fleet: Fleet) -> None:
        self.week, self.rule, self.fleet = week, rule, fleet
        self.now = 0.0
        self.out = Outcome()
        self.free: dict[str, float] = {}
        """Devices that are there and do nothing, and since when."""
        self.runs: dict[str, Run] = {}
        self.queue: list[Job] = []
        self.training: set[str] = set()
        self.served: dict[tuple[int | None, str], float] = defaultdict(float)
        self._random = Random(f"{week.case.seed} {rule.name}")
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        names = sorted(fleet.needs)
        quotas = week.scenario.rules.quotas
        self.shares = {
            tier: {name: aim.share for name, aim in share.targets(quotas, names, tier or 0, {}).items()}
            for tier in (1, 2, 3, None)
        }

    def play(self) -> Outcome:
        """The whole week."""
        for node in self.week.nodes:
            for begin, end in self.week.up(node.name):
                self._at(begin, partial(self._rise, node))
                self._at(end, partial(self._die, node))
        for each in self.week.trainings:
            self._at(each.at, partial(self._want, each))
        span_s = self.week.case.span_s
        while self._due and self._due[0][0] < span_s:
            self.now, _, action = heapq.heappop(self._due)
            action()
            self._place()
        self.now = span_s
        for run in {id(run): run for run in self.runs.values()}.values():
            self._account(run, run.job is None, lost=False)
        self.out.waits += [job.waited_s + span_s - job.since for job in self.queue]
        self.out.waits += [run.job.waited_s for run in {id(r): r for r in self.runs.values()}.values() if run.job]
        return self.out

    def _at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), action))

    def _want(self, training: Training) -> None:
        self.queue.append(Job(training, training.seconds, self.now))

    def _rise(self, node: NodeSpec) -> None:
        for device in node.devices:
            self._release(device.id)

    def _die(self, node: NodeSpec) -> None:
        for run in {id(run): run for name, run in self.runs.items() if name.startswith(f"{node.name}/")}.values():
            self._stop(run, lost=True)
        for device in node.devices:
            self.free.pop(device.id, None)

    def _release(self, device: str) -> None:
        self.free[device] = self.now
        if self.rule.idle_s:
            self._at(self.now + self.rule.idle_s, lambda: None)

    def _place(self) -> None:
        for job in [job for job in self.queue if job.asked.config not in self.training]:
            if job.asked.config not in self.training and (devices := self._for_training(job)):
                self.queue.remove(job)
                self._begin(job.asked.config, devices, job)
        for name in sorted(self.free, key=lambda each: (-self.fleet.power[each], each)):
            if name in self.free and self.now >= self.free[name] + self.rule.idle_s - 1e-6:
                self._fill(name)

    def _for_training(self, job: Job) -> tuple[str, ...]:
        config, power = job.asked.config, self.fleet.power
        for taking in (False, True) if self.rule.preempts else (False,):
            able = [name for name in self.fleet.sites if self._may_train(name, taking)]
            for name in sorted(able, key=lambda each: (-power[each], each)):
                wanted = self.fleet.wanted(config, WorkKind.TRAINING, name)
                peers = [peer.id for peer in self.fleet.sites[name].peers if peer.id != name and peer.id in able]
                if wanted and len(peers) >= wanted - 1:
                    devices = (name, *peers[: wanted - 1])
                    for run in {id(r): r for each in devices if (r := self.runs.get(each))}.values():
                        self._stop(run, lost=False)
                    return devices
        return ()

    def _may_train(self, name: str, taking: bool) -> bool:
        if self.rule.split and self.fleet.tier(name) != 1:
            return False
        run = self.runs.get(name)
        return name in self.free or (taking and run is not None and run.job is None)

    def _fill(self, name: str) -> None:
        tier = self.fleet.tier(name)
        if self.rule.split and tier == 1:
            return
        peers = [peer.id for peer in self.fleet.sites[name].peers if peer.id != name and peer.id in self.free]
        fitting = [
            (config, wanted)
            for config in self.fleet.needs
            if 0 < (wanted := self.fleet.wanted(config, WorkKind.SELFPLAY, name)) <= 1 + len(peers)
        ]
        if not fitting:
            return
        shares = self.shares[tier if tier == 1 else None]
        if self.rule.by_chance:
            ((config, wanted),) = self._random.choices(fitting, [shares[each] for each, _ in fitting])
        else:
            config, wanted = min(fitting, key=lambda each: (self._had_s(tier, each[0]) / shares[each[0]], each[0]))
        self._begin(config, (name, *peers[: wanted - 1]), None)

    def _had_s(self, tier: int | None, config: str) -> float:
        """Device seconds a config had of a tier, what runs there included."""
        out = sum(
            self.now - run.begin + 60.0 for name, run in self.runs.items() if self._is_of(run, name, tier, config)
        )
        return self.served[tier, config] + out

    def _is_of(self, run: Run, name: str, tier: int | None, config: str) -> bool:
        return run.config == config and self.fleet.tier(name) == tier

    def _begin(self, config: str, devices: tuple[str, ...], job: Job | None) -> None:
        run = Run(config, devices, self.now, job)
        for name in devices:
            self.free.pop(name, None)
            self.runs[name] = run
        if job is None:
            self._at(self.now + START_S + self.rule.segment_s, lambda: self._end(run))
            return
        self.training.add(config)
        job.waited_s += self.now - job.since
        power = sum(self.fleet.power[name] for name in devices)
        self._at(self.now + START_S + job.left_s * REFERENCE_POWER / power, lambda: self._end(run))

    def _end(self, run: Run) -> None:
        if run.over:
            return
        if run.job is not None:
            self.out.waits.append(run.job.waited_s)
            run.job.left_s = 0.0
        self._stop(run, lost=False)

    def _stop(self, run: Run, lost: bool) -> None:
        """It ends, whyever; what is not kept is lost."""
        run.over = True
        kept_s = self._account(run, run.job is None, lost)
        for name in run.devices:
            del self.runs[name]
            self._release(name)
        if run.job is None:
            return
        self.training.discard(run.config)
        if run.job.left_s > 0:
            power = sum(self.fleet.power[name] for name in run.devices)
            run.job.left_s = max(run.job.left_s - kept_s * power / REFERENCE_POWER, 1.0)
            run.job.since = self.now
            self.queue.insert(0, run.job)

    def _account(self, run: Run, plays: bool, lost: bool) -> float:
        """Book what the run had; the seconds of it that count."""
        held_s = self.now - run.begin
        useful_s = max(held_s - START_S, 0.0)
        if lost:
            keeps_s = SYNC_S if plays else CHECKPOINT_S
            useful_s = useful_s // keeps_s * keeps_s
        for name in run.devices:
            tier = self.fleet.tier(name)
            self.served[tier, run.config] += held_s
            self.out.busy_s += held_s
            self.out.useful += useful_s * self.fleet.power[name]
            if tier == 1:
                self.out.had_s[run.config] += held_s
        self.out.spans[run.config].append((run.begin, self.now))
        if not plays:
            self.out.trained_s[run.config] = max(self.out.trained_s[run.config], held_s)
        return useful_s


def play(week: Week, rule: Rule) -> Outcome:
    """The week under a rule."""
    return Schedule(week, rule, Fleet(week)).play()


def gaps(spans: Sequence[tuple[float, float]], end: float) -> Iterator[float]:
    """Times within `[0, end]` that none of the spans covers."""
    reached = 0.0
    for begin, stop in sorted(spans):
        if begin > reached:
            yield begin - reached
        reached = max(reached, stop)
    yield end - reached
