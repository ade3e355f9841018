"""What others do: published rules of chunk size on the fleet of benchmark A, with recovery as published.

A chunk on a device that goes down is lost as a whole and handed out again when that is noticed, after a minute;
hashtopolis alone notices after half a minute, and keeps what was reported.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

from sweeps_fleet import FLEET_PER_S, SLOW_PER_S, Fleet, Gpu

DETECTED_S = 60.0
SHORTEST = int(20 * SLOW_PER_S)
"""Rules that shrink stop at 20 s of a slow GPU: with no limit they would end in chunks of one item."""


@dataclass(slots=True)
class Pool:
    """What is left of a sweep for a rule: intervals nobody has, and what is known of the devices."""

    work: int
    free: list[tuple[int, int]]
    gpus: int
    left: int
    rates: dict[str, float] = field(default_factory=dict)
    """Speed as learnt, where a rule learns; as in the profile at first."""
    served: dict[str, tuple[float, float]] = field(default_factory=dict)
    batch: list[int] = field(default_factory=list)
    step: int = 0


Rule = Callable[[Pool, Gpu], int]


@dataclass(frozen=True, slots=True)
class Method:
    """A rule, and what happens to a chunk whose device goes down."""

    name: str
    rule: Rule
    detected_s: float = DETECTED_S
    keeps_checkpoints: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """What came of it."""

    makespan_s: float
    chunks: int


def seed_003(pool: Pool, gpu: Gpu) -> int:
    """Two seconds: 10,000 seeds, or 58,000 on the fast ones."""
    return int(gpu.profile_per_s * 2)


def static(pool: Pool, gpu: Gpu) -> int:
    """One share for each, by profile; what is lost goes to whoever is free."""
    return int(pool.work * gpu.profile_per_s / FLEET_PER_S) + 1


def guided(pool: Pool, gpu: Gpu) -> int:
    """What is left, divided by the number of devices (Polychronopoulos and Kuck, 1987)."""
    return max(pool.left // pool.gpus, SHORTEST)


def trapezoid(pool: Pool, gpu: Gpu) -> int:
    """Linearly shrinking from half of an equal share (Tzen and Ni, 1993)."""
    first, last = pool.work / (2 * pool.gpus), min(SHORTEST, pool.work / (2 * pool.gpus))
    steps = max(int(2 * pool.work / (first + last)), 2)
    pool.step += 1
    return max(int(first - (pool.step - 1) * (first - last) / (steps - 1)), SHORTEST)


def factoring(pool: Pool, gpu: Gpu) -> int:
    """Batches of half of what is left, in equal chunks (Flynn Hummel, Schonberg and Flynn, 1992)."""
    return max(_batch(pool) // pool.gpus, SHORTEST)


def weighted_factoring(pool: Pool, gpu: Gpu) -> int:
    """The same, with chunks by the speed in the profile."""
    return max(int(_batch(pool) * gpu.profile_per_s / FLEET_PER_S), _shortest(gpu.profile_per_s))


def adaptive_weighted_factoring(pool: Pool, gpu: Gpu) -> int:
    """The same, with chunks by the speed as learnt."""
    rate = pool.rates[gpu.name]
    return max(int(_batch(pool) * rate / sum(pool.rates.values())), _shortest(rate))


def hashtopolis(pool: Pool, gpu: Gpu) -> int:
    """Ten minutes at the speed that a benchmark found; all that is left, if that is at most 1.2 times as much."""
    wanted = int(gpu.rates[0] * 600) if gpu.rates[0] else int(gpu.profile_per_s * 600)
    return pool.left if pool.left <= 1.2 * wanted else wanted


METHODS = (
    Method("seed 003, 2 s", seed_003),
    Method("static shares", static),
    Method("guided", guided),
    Method("trapezoid", trapezoid),
    Method("factoring", factoring),
    Method("weighted factoring", weighted_factoring),
    Method("adaptive weighted factoring", adaptive_weighted_factoring),
    Method("hashtopolis", hashtopolis, detected_s=30.0, keeps_checkpoints=True),
)


def run(method: Method, fleet: Fleet, work: int, overhead_s: float) -> Run:
    """Search everything by this rule."""
    pool = Pool(work=work, free=[(0, work)], gpus=len(fleet.gpus), left=work)
    pool.rates = {gpu.name: gpu.profile_per_s for gpu in fleet.gpus}
    outages = {gpu.name: list(gpu.outages()) for gpu in fleet.gpus}
    events: list[tuple[float, int, int, int]] = [(0.0, at, 0, 0) for at in range(pool.gpus)]
    waiting: list[int] = []
    done, end, chunks = 0, 0.0, 0
    while done < work:
        now, at, *lost = heapq.heappop(events)
        if lost[0] < lost[1]:
            pool.free.append((lost[0], lost[1]))
            pool.left += lost[1] - lost[0]
            events += [(now, idle, 0, 0) for idle in waiting]
            waiting.clear()
            heapq.heapify(events)
            continue
        if not pool.free:
            waiting.append(at)
            continue
        gpu, part = fleet.gpus[at], _take(pool, fleet.gpus[at], method.rule)
        chunks += 1
        finished, fails = _search(gpu, outages[gpu.name], now, overhead_s, part)
        if fails is None:
            done += part[1] - part[0]
            end = max(end, finished)
            _learn(pool, gpu, part[1] - part[0], finished - now)
            heapq.heappush(events, (finished, at, 0, 0))
            continue
        down, up, searched = fails
        kept = searched if method.keeps_checkpoints else 0
        done += kept
        heapq.heappush(events, (down + method.detected_s, at, part[0] + kept, part[1]))
        heapq.heappush(events, (max(up, down + method.detected_s), at, 0, 0))
    return Run(makespan_s=end, chunks=chunks)


def _search(
    gpu: Gpu, outages: list[tuple[float, float]], now: float, overhead_s: float, part: tuple[int, int]
) -> tuple[float, tuple[float, float, int] | None]:
    """When a chunk ends; or when its device goes down, comes up again, and what was searched by then."""
    while outages and outages[0][1] <= now:
        outages.pop(0)
    begins = now + overhead_s
    noise = gpu.chunk_noise()
    size = part[1] - part[0]
    finished = gpu.reaches(gpu.capacity(begins) + size * noise)
    if outages and outages[0][0] < finished:
        down, up = outages[0]
        searched = int((gpu.capacity(max(down, begins)) - gpu.capacity(begins)) / noise)
        return down, (max(down, now), up, min(searched, size - 1))
    return finished, None


def _take(pool: Pool, gpu: Gpu, rule: Rule) -> tuple[int, int]:
    wanted = max(rule(pool, gpu), 1)
    start, stop = pool.free.pop()
    part = (start, min(start + wanted, stop))
    if part[1] < stop:
        pool.free.append((part[1], stop))
    pool.left -= part[1] - part[0]
    return part


def _learn(pool: Pool, gpu: Gpu, items: int, seconds: float) -> None:
    before_items, before_s = pool.served.get(gpu.name, (0.0, 0.0))
    pool.served[gpu.name] = items + before_items / 2, seconds + before_s / 2
    pool.rates[gpu.name] = pool.served[gpu.name][0] / pool.served[gpu.name][1]


def _batch(pool: Pool) -> int:
    """Half of what was left when the round began; a round has one chunk for each device."""
    if not pool.batch:
        pool.batch = [pool.left // 2] * pool.gpus
    return pool.batch.pop()


def _shortest(per_s: float) -> int:
    return int(20 * per_s)
