"""Training jobs in rounds, as Gavel's simulator runs them: devices change hands at round borders only.

A job that ends within a round has ended then, but its devices are free at the border; a round makes whole steps; where
starting costs something, that comes off the first round on a new type of device.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gavel_data import TYPES, Job
from hostler.model.planning import Demand, Instance, Plan
from hostler.model.rules import PlacementRules
from hostler.policy import placement, programme

ROUND_S = 360.0
LEAST_S = 60.0
OVERRUN = 0.05
"""What a job that runs longer than predicted is thought to need still, as a part of what it has had."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is known and what it costs: log-normal error of the predictions, seconds lost by each start."""

    sigma: float = 0.0
    restart_s: float = 0.0
    seed: int = 0


EXACT = Conditions()


@dataclass(slots=True)
class Running:
    """A job that has arrived and is not done."""

    job: Job
    rates: Mapping[str, float]
    predicted_s: float
    """How long it would take on its best type, as far as one knows."""
    steps_left: float
    served_s: float = 0.0
    """Seconds on its best type that it has had already."""
    held: str | None = None
    started: bool = False
    last_s: float = 0.0
    """When it last had devices, or arrived."""

    @property
    def remaining_s(self) -> float:
        """What it is thought to need still on its best type."""
        left_s = self.predicted_s - self.served_s
        return max(left_s if left_s > 0 else OVERRUN * self.served_s, LEAST_S)


class Scheduler(Protocol):
    """Decides at each round border."""

    def place(self, now: float, running: Mapping[int, Running], arrived_s: float) -> Mapping[int, str]:
        """Type of device for each job that is to run in this round; the last job came at `arrived_s`."""


@dataclass(slots=True)
class Outcome:
    """What a run gave. Times in hours."""

    completion_h: dict[int, float] = field(default_factory=dict)
    makespan_h: float = 0.0
    rounds: int = 0
    starts: int = 0
    busy: float = 0.0
    """Device rounds used, over device rounds there were."""
    decision_ms: list[float] = field(default_factory=list)
    active: list[int] = field(default_factory=list)
    """Jobs that each decision was about."""
    cpu_s: float = 0.0

    @property
    def mean_h(self) -> float:
        """Average completion time."""
        return sum(self.completion_h.values()) / len(self.completion_h)

    def quantile_h(self, part: float) -> float:
        """Completion time that this part of the jobs stays below."""
        ranked = sorted(self.completion_h.values())
        return ranked[min(int(part * len(ranked)), len(ranked) - 1)]


class PriceGuided:
    """The product's two loops: the programme over families of jobs for prices, the plan for each round."""

    def __init__(self, capacity: Mapping[str, int], conditions: Conditions, every_s: float = 3600.0) -> None:
        self.capacity = capacity
        self.restart_s = conditions.restart_s
        self.every_s = every_s
        """Time between two solutions of the programme, and between two plans while nothing comes or ends."""
        self.rules = PlacementRules(round_s=ROUND_S)
        self.solver = programme.Solver()
        self.slow: Plan | None = None
        self.solved_at = -math.inf
        self.planned_at = -math.inf
        self.seen: frozenset[int] = frozenset()
        self.placed: dict[int, str] = {}

    def place(self, now: float, running: Mapping[int, Running], arrived_s: float) -> Mapping[int, str]:
        """The plan; that of the last round again if nobody has come or gone since and it is not old."""
        jobs = frozenset(running)
        if jobs == self.seen and now - self.planned_at < self.every_s:
            return self.placed
        if now - self.solved_at >= self.every_s or self.slow is None:
            self.slow = self.solver.solve(self._instance(running))
            self.solved_at = now
        self.seen, self.planned_at = jobs, now
        bids = [self._bid(now, number, job) for number, job in running.items()]
        plan = placement.plan(bids, self.capacity, self._market(now, bids, arrived_s), self.rules)
        self.placed = {int(name): cls for name, cls in plan.items()}
        return self.placed

    def _instance(self, running: Mapping[int, Running]) -> Instance:
        work: dict[tuple[str, int], float] = {}
        rates: dict[tuple[str, int], Mapping[str, float]] = {}
        for each in running.values():
            family = (each.job.model, each.job.devices)
            work[family] = work.get(family, 0.0) + each.remaining_s * each.job.devices
            rates[family] = each.rates
        demands = tuple(
            Demand(
                name=f"{family[0]} x {family[1]}",
                worth=dict.fromkeys(rates[family], 0.0),
                rates=rates[family],
                devices=family[1],
                work=seconds,
            )
            for family, seconds in work.items()
        )
        return Instance(classes=self.capacity, demands=demands)

    def _market(self, now: float, bids: Sequence[placement.Bid], arrived_s: float) -> placement.Market:
        prices = {} if self.slow is None else self.slow.prices
        drain_s = placement.drain_s(bids, self.capacity, prices)
        return placement.Market(
            prices=prices,
            pressure=sum(bid.devices for bid in bids) / sum(self.capacity.values()),
            drain_s=placement.closing(drain_s, len(bids), now - arrived_s),
        )

    def _bid(self, now: float, number: int, each: Running) -> placement.Bid:
        return placement.Bid(
            job=str(number),
            group=each.job.model,
            priority=0,
            value=1.0,
            waited_s=now - each.last_s,
            rates=each.rates,
            remaining_s=each.remaining_s,
            devices=each.job.devices,
            held=each.held,
            restart_s=self.restart_s,
            late=placement.is_late(
                now - each.job.arrival_s,
                each.remaining_s,
                each.predicted_s,
                placement.equal_share(each.rates, self.capacity),
            ),
        )


def run(
    jobs: Sequence[Job],
    capacity: Mapping[str, int],
    scheduler: Scheduler,
    conditions: Conditions = EXACT,
    window: range | None = None,
) -> Outcome:
    """Rounds until all jobs of the window are done; jobs outside of it are run as well, but not counted."""
    started = time.process_time()
    world = _World(jobs, conditions)
    wanted = set(window if window is not None else (job.number for job in jobs))
    outcome = Outcome()
    used = 0.0
    while wanted:
        world.arrive()
        if world.running:
            before = time.process_time()
            plan = scheduler.place(world.now, world.running, world.arrived_s)
            outcome.decision_ms.append((time.process_time() - before) * 1e3)
            outcome.active.append(len(world.running))
            outcome.starts += world.apply(plan)
            used += sum(each.job.devices for each in world.running.values() if each.held)
            ended = world.round(conditions.restart_s)
            outcome.completion_h.update(
                {n: (at - world.jobs[n].arrival_s) / 3600 for n, at in ended.items() if window is None or n in window}
            )
            outcome.makespan_h = max([outcome.makespan_h, *(at / 3600 for at in ended.values())])
            wanted -= set(ended)
        world.now += ROUND_S
        outcome.rounds += 1
    outcome.busy = used / (outcome.rounds * sum(capacity.values()))
    outcome.cpu_s = time.process_time() - started
    return outcome


def isolated_h(jobs: Sequence[Job], capacity: Mapping[str, int], window: range) -> dict[int, float]:
    """Completion times with an equal share of every type for every job, all the time: what fairness is measured by."""
    world = _World(jobs, EXACT)
    wanted, found = set(window), dict[int, float]()
    devices = sum(capacity.values())
    while wanted:
        world.arrive()
        active = len(world.running)
        part = {cls: count / max(active, devices, 1) for cls, count in capacity.items()}
        for number, each in list(world.running.items()):
            per_s = sum(part[cls] * speed for cls, speed in each.job.per_s.items())
            if each.steps_left <= per_s * ROUND_S:
                found[number] = (world.now + each.steps_left / per_s - each.job.arrival_s) / 3600
                wanted.discard(number)
                del world.running[number]
            each.steps_left -= per_s * ROUND_S
        world.now += ROUND_S
    return {number: hours for number, hours in found.items() if number in window}


def relative(per_s: Mapping[str, float]) -> dict[str, float]:
    """Relative speeds by type, the best 1."""
    best = max(per_s.values())
    return {cls: per_s[cls] / best for cls in TYPES if cls in per_s}


class _World:
    """The jobs that are there, and the clock."""

    def __init__(self, jobs: Sequence[Job], conditions: Conditions) -> None:
        self.jobs = {job.number: job for job in jobs}
        self.coming = sorted(jobs, key=lambda job: -job.arrival_s)
        self.errors = random.Random(conditions.seed)
        self.sigma = conditions.sigma
        self.tables: dict[tuple[str, int], Mapping[str, float]] = {}
        self.running: dict[int, Running] = {}
        self.now = 0.0
        self.arrived_s = 0.0

    def arrive(self) -> None:
        """Let in who has come by now."""
        while self.coming and self.coming[-1].arrival_s <= self.now:
            job = self.coming.pop()
            self.arrived_s = job.arrival_s
            self.running[job.number] = Running(
                job=job,
                rates=self.tables.setdefault((job.model, job.devices), relative(job.per_s)),
                predicted_s=job.best_s * self.errors.lognormvariate(0.0, self.sigma),
                steps_left=job.steps,
                last_s=job.arrival_s,
            )

    def apply(self, plan: Mapping[int, str]) -> int:
        """Give the devices out; how many jobs start or change the type."""
        for number, each in self.running.items():
            cls = plan.get(number)
            each.started = cls is not None and cls != each.held
            each.held = cls
        return sum(each.started for each in self.running.values())

    def round(self, restart_s: float) -> dict[int, float]:
        """One round of work; who ends, and when."""
        ended: dict[int, float] = {}
        for number, each in self.running.items():
            if each.held is None:
                continue
            lost_s = restart_s if each.started else 0.0
            per_s = each.job.per_s[each.held]
            each.last_s = self.now + ROUND_S
            if each.steps_left <= per_s * (ROUND_S - lost_s):
                ended[number] = self.now + lost_s + each.steps_left / per_s
            else:
                each.steps_left -= int(per_s * (ROUND_S - lost_s))
                each.served_s += (ROUND_S - lost_s) * each.rates[each.held]
        for number in ended:
            del self.running[number]
        return ended
