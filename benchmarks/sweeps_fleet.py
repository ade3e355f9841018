"""The fleet of benchmark A: 26 GPUs on three machines, how fast each of them really is, and when it is down.

Everything is drawn once, from a seed, before anybody searches: each rule meets the same fleet.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import exp
from random import Random
from typing import Literal

Condition = Literal["noise", "strag", "fail"]

FAST_PER_S, SLOW_PER_S = 29_000.0, 5_000.0
NODES = {"zeus": [FAST_PER_S] * 2, "rig-a": [SLOW_PER_S] * 12, "rig-b": [SLOW_PER_S] * 12}
FLEET_PER_S = sum(sum(profiles) for profiles in NODES.values())
SPEED_SIGMA = 0.12
CHUNK_SIGMA = 0.15
STRAGGLERS, STRAGGLING = 3, 0.35
REBOOTS_S, REBOOT_S = 6 * 3600.0, (300.0, 900.0)
HANGS_S, HANG_S = 24 * 3600.0, (120.0, 600.0)
HORIZON = 14.0
"""For so many times as long as the work takes at best something may happen; nothing does afterwards."""


@dataclass(slots=True)
class Gpu:
    """One device: its speed by profile, and its true speed from `times[i]` to `times[i + 1]` (0 while it is down)."""

    name: str
    node: str
    profile_per_s: float
    random: Random
    times: list[float]
    rates: list[float]
    sums: list[float] = field(default_factory=list)
    """What could be searched until `times[i]`."""

    def capacity(self, at: float) -> float:
        """Items it could have searched until then."""
        which = bisect_right(self.times, at) - 1
        return self.sums[which] + self.rates[which] * (at - self.times[which])

    def reaches(self, capacity: float) -> float:
        """When it could have searched so many items."""
        which = bisect_right(self.sums, capacity) - 1
        while self.rates[which] == 0.0:
            which -= 1
        return self.times[which] + (capacity - self.sums[which]) / self.rates[which]

    def outages(self) -> Iterator[tuple[float, float]]:
        """When it is down."""
        for which, rate in enumerate(self.rates):
            if rate == 0.0:
                yield self.times[which], self.times[which + 1]

    def chunk_noise(self) -> float:
        """Of one chunk: how many times as long it takes as it should; 1 on average."""
        return exp(self.random.gauss(-(CHUNK_SIGMA**2) / 2, CHUNK_SIGMA))


@dataclass(frozen=True, slots=True)
class Fleet:
    """All of it, and when whole machines are down."""

    gpus: Sequence[Gpu]
    reboots: dict[str, list[tuple[float, float]]]

    def bound(self, work: int) -> float:
        """The earliest moment at which the fleet can have searched `work`, if it knew everything and lost nothing."""
        low, high = 0.0, 2 * HORIZON * work / FLEET_PER_S + 86400.0
        while high - low > 1e-6 * high:
            middle = (low + high) / 2
            done = sum(gpu.capacity(middle) for gpu in self.gpus)
            low, high = (middle, high) if done < work else (low, middle)
        return high


def fleet(work: int, condition: Condition, seed: int) -> Fleet:
    """Draw one."""
    random = Random(f"{condition} {work} {seed}")
    span_s = work / FLEET_PER_S
    until = HORIZON * span_s
    names = [(node, f"{node}/cuda{at}", per_s) for node, all_s in NODES.items() for at, per_s in enumerate(all_s)]
    slow = random.sample([name for _, name, _ in names], STRAGGLERS) if condition != "noise" else []
    reboots: dict[str, list[tuple[float, float]]] = {node: [] for node in NODES}
    if condition == "fail":
        reboots |= {node: list(_outages(random, REBOOTS_S, REBOOT_S, until)) for node in ("rig-a", "rig-b")}
    gpus = []
    for node, name, profile in names:
        hangs = list(_outages(random, HANGS_S, HANG_S, until)) if condition == "fail" else []
        true_per_s = profile * exp(random.gauss(0.0, SPEED_SIGMA))
        drops_at = random.uniform(0.0, span_s) if name in slow else None
        own = Random(f"{condition} {work} {seed} {name}")
        gpus.append(_gpu(name, node, profile, own, true_per_s, drops_at, _merged([*hangs, *reboots[node]])))
    return Fleet(gpus=gpus, reboots=reboots)


def _outages(random: Random, every_s: float, lasts: tuple[float, float], until: float) -> Iterator[tuple[float, float]]:
    at = random.expovariate(1 / every_s)
    while at < until:
        end = at + random.uniform(*lasts)
        yield at, end
        at = end + random.expovariate(1 / every_s)


def _merged(outages: list[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(outages):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _gpu(
    name: str,
    node: str,
    profile: float,
    random: Random,
    per_s: float,
    drops_at: float | None,
    outages: list[tuple[float, float]],
) -> Gpu:
    edges = sorted({0.0, *([] if drops_at is None else [drops_at]), *(edge for outage in outages for edge in outage)})
    rates = []
    for edge in edges:
        down = any(start <= edge < end for start, end in outages)
        straggles = drops_at is not None and edge >= drops_at
        rates.append(0.0 if down else per_s * (STRAGGLING if straggles else 1.0))
    gpu = Gpu(name=name, node=node, profile_per_s=profile, random=random, times=edges, rates=rates)
    total = 0.0
    for at, edge in enumerate(edges):
        total += 0.0 if at == 0 else rates[at - 1] * (edge - edges[at - 1])
        gpu.sums.append(total)
    return gpu
