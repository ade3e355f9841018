"""How long a decision takes: 100, 1,000 and 10,000 devices, 200 training configs, 100,000 jobs that wait.

    python benchmarks/decisions.py [--quick] [--json FILE]

The production core is told a stream of events on a virtual fleet whose devices are all busy: attempts end and start,
jobs arrive, nodes tell how they are, vanish and come back, trainings and evaluations take devices from self-play. Every
figure is CPU time in milliseconds. `full re-plan` is the slow loop's decision for the whole fleet: the question made
from the state, its programme solved from the last solution, and the first jobs of all groups placed on all classes.
`fill` is the longest single step while an empty fleet gets its first work. The peer sorts its queue and takes the first
device that fits, at each event; it was given nothing else to think about.
"""

import gc
import math
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from random import Random

import naive_queue
from common import Bar, Row, arguments, report
from hostler.core import planning
from hostler.core.bidding import bid_of, market
from hostler.policy import placement, programme
from virtual_fleet import SLOW, World, nodes, scripts, taken

SIZES = (100, 1_000, 10_000)
CONFIGS, JOBS = 200, 100_000
QUICK_CONFIGS, QUICK_JOBS = 40, 2_000
WARM_UP, EVENTS = 2_500, 2_000
QUICK_WARM_UP, QUICK_EVENTS = 200, 200
NAIVE_EVENTS = 30
PLANS = 15
URGENT = 0.02
"""Share of the scripts that arrive which go before everything else."""
EVENT_MS, PLAN_MS, BIG_PLAN_MS, MOST_EXPONENT = 5.0, 50.0, 200.0, 1.1


def main() -> None:
    """Measure, print, write."""
    options = arguments(__doc__)
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, max_tasks_per_child=1, mp_context=fresh) as pool:
        found = list(pool.map(measured, SIZES, [options.quick] * len(SIZES)))
    events = [row for one in found for row in one[0]]
    whole = [one[1] for one in found]
    report("decisions", [*whole, *events], list(bars(whole)), options.json)


def measured(devices: int, quick: bool) -> tuple[list[Row], Row]:
    """Rows by kind of event, and one of the whole, for a fleet of this size."""
    configs, jobs = (QUICK_CONFIGS, QUICK_JOBS) if quick else (CONFIGS, JOBS)
    warm_up, events = (QUICK_WARM_UP, QUICK_EVENTS) if quick else (WARM_UP, EVENTS)
    world = World(devices, configs)
    world.times.clear()
    world.submit(jobs)
    fill_s = max(taken(world.times.values()))
    play(world, warm_up)
    world.times.clear()
    gc.collect()
    play(world, events)
    slow, fast = world.times.pop(SLOW, []), taken(world.times.values())
    rows = [_of_kind(devices, kind, times) for kind, times in sorted(world.times.items())]
    plans = replanned(world)
    filled_s, naive = _peer(devices, jobs)
    core = world.core
    core.validate()
    return rows, {
        "devices": devices,
        "classes": len(core.index.members),
        "pending": jobs,
        "event p50": _ms(statistics.median(fast)),
        "event p99": _ms(_p99(fast)),
        "event mean": _ms(statistics.fmean(fast)),
        **plans,
        "largest question in a step": _ms(max(slow, default=0.0)),
        "fill": _ms(fill_s),
        "naive event p50": _ms(statistics.median(naive)),
        "naive event p99": _ms(_p99(sorted(naive))),
        "naive fill": _ms(filled_s),
    }


def play(world: World, events: int) -> None:
    """So many attempts end, with everything else that happens meanwhile."""
    for _ in range(events):
        number, world.steps = world.steps, world.steps + 1
        world.end_next()
        world.submit(1, URGENT)
        world.measure_node()
        if number % 20 == 0:
            world.submit_training()
        if number % 100 == 0:
            world.lose_node()
        if number % 100 == 50:
            world.return_nodes()


def replanned(world: World) -> dict[str, float | None]:
    """Milliseconds of the slow loop: its parts cold and warm, and the whole re-plan; medians of several."""
    if not programme.available():
        return dict.fromkeys(("question", "cold", "warm", "full re-plan"))
    solver = programme.Solver()
    cold_s = _timed(lambda: solver.solve(planning.instance(world.core.state, world.core.index), 10.0))
    parts: list[tuple[float, float, float]] = []
    for _ in range(PLANS):
        play(world, 10)
        parts.append(_replan(world, solver))
    question_s, warm_s, _ = (statistics.median(part) for part in zip(*parts, strict=True))
    return {
        "question": _ms(question_s),
        "cold": _ms(cold_s - question_s),
        "warm": _ms(warm_s),
        "full re-plan": _ms(statistics.median(sum(part) for part in parts)),
    }


def bars(rows: Sequence[Row]) -> Iterator[Bar]:
    """What the issue asks for."""
    of = {row["devices"]: row for row in rows}
    yield Bar("1,000 devices, p99 per event, ms", of[1_000]["event p99"], EVENT_MS, "<")
    yield Bar("1,000 devices, full re-plan, ms", of[1_000]["full re-plan"], PLAN_MS, "<")
    yield Bar("10,000 devices, full re-plan, ms", of[10_000]["full re-plan"], BIG_PLAN_MS, "<")
    for what in ("event mean", "full re-plan"):
        yield Bar(f"growth exponent over devices, {what}", exponent(rows, what), MOST_EXPONENT, "<=")


def exponent(rows: Sequence[Row], what: str) -> float | None:
    """Slope of log(time) over log(devices) by least squares."""
    points = [(math.log(row["devices"]), math.log(row[what])) for row in rows if row[what]]
    return statistics.linear_regression(*zip(*points, strict=True)).slope if len(points) > 1 else None


def _replan(world: World, solver: programme.Solver) -> tuple[float, float, float]:
    """CPU seconds of: making the question, solving it, placing the first jobs of all groups on all classes."""
    state, index = world.core.state, world.core.index
    began = time.process_time()
    instance = planning.instance(state, index)
    asked = time.process_time()
    plan = solver.solve(instance, 10.0)
    solved = time.process_time()
    heads = [job for group in list(index.ready) if (job := index.head(state, group)) is not None]
    capacity = {cls: int(room) for cls, room in instance.classes.items()}
    bids = [bid_of(state, index, job) for job in heads]
    now = placement.Market(prices=plan.prices, pressure=market(state, index).pressure)
    placement.plan(bids, capacity, now, state.rules.placement)
    return asked - began, solved - asked, time.process_time() - solved


def _peer(devices: int, jobs: int) -> tuple[float, list[float]]:
    random = Random(1)
    fleet = nodes(devices, random)
    return naive_queue.timed(fleet, scripts(0, jobs, random), NAIVE_EVENTS, random)


def _of_kind(devices: int, kind: str, times: Sequence[float]) -> Row:
    ordered = sorted(times)
    return {
        "devices": devices,
        "event": kind,
        "count": len(ordered),
        "p50 ms": _ms(statistics.median(ordered)),
        "p99 ms": _ms(_p99(ordered)),
        "largest ms": _ms(ordered[-1]),
    }


def _p99(ordered: Sequence[float]) -> float:
    return ordered[int(len(ordered) * 0.99)]


def _ms(seconds: float) -> float:
    return seconds * 1e3


def _timed(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
