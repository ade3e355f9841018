"""Sweeps on 26 GPUs: how long the whole takes, by Hostler's core and by published rules of chunk size.

    python benchmarks/sweeps.py [--quick] [--json FILE]

The fleet of `seeds/003` (2 × 29,000 and 24 × 5,000 seeds/s, two rigs of 12) searches 2^32, 10^9 and 10^8 seeds, in
virtual time. The true speed of a GPU is that of its profile × lognormal(0.12), a chunk takes 15 % more or less, and
starting one costs 0.5, 4 or 15 s. `noise` has nothing else; in `strag` three GPUs drop to 35 % at some moment; in
`fail` each rig also reboots (6 h apart on average, 5 to 15 min) and single GPUs hang (24 h apart, 2 to 10 min).

The figure is the makespan ÷ that of a fleet which knows everything, loses nothing and starts chunks for free; mean and
95th percentile of 20 fleets (4 with --quick). Hostler is the production core, driven by virtual agents
(sweeps_ours.py): nothing tells it the profile. The published rules (sweeps_rules.py) know the profile, and recover as
published. What a chunk takes more or less is luck, which the bound does not know: few chunks with much of it can end
below 1. That what was accepted is exactly the range, and was searched by whom it was accepted from, is asserted.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from typing import Any

import sweeps_ours
import sweeps_rules
from common import Bar, arguments, report
from sweeps_fleet import NODES, Condition, Fleet, fleet

WORKS = {"2^32": 2**32, "10^9": 10**9, "10^8": 10**8}
CONDITIONS: tuple[Condition, ...] = ("noise", "strag", "fail")
OVERHEADS_S = (0.5, 4.0, 15.0)
JUDGED_S = 4.0
BARS = {"2^32": (1.015, 1.03), "10^9": (1.03, 1.05), "10^8": (1.09, 1.13)}
MOST_CHUNKS = 60
HOSTLER, PEER = "Hostler", "hashtopolis"
FLEETS, FEW = 20, 4
GPUS = sum(len(profiles) for profiles in NODES.values())
COSTLY = "seed 003, 2 s"
"""Its chunks are so many that it is run at one overhead only."""


@dataclass(frozen=True, slots=True)
class Case:
    """What one row measures."""

    method: str
    overhead_s: float
    work: str
    condition: Condition
    fleets: int


@dataclass(frozen=True, slots=True)
class Figure:
    """Makespan ÷ bound, mean and 95th percentile; the most chunks per GPU; CPU seconds of all runs together."""

    case: Case
    mean: float
    p95: float
    chunks: float
    cpu_s: float


def main() -> None:
    """Run the command line described above."""
    options = arguments(__doc__)
    cases = list(_cases(FEW if options.quick else FLEETS))
    with ProcessPoolExecutor() as pool:
        figures = list(pool.map(measure, cases))
    bars = list(_bars({figure.case: figure for figure in figures}))
    cpu_s = sum(figure.cpu_s for figure in figures)
    ours_s = sum(figure.cpu_s for figure in figures if figure.case.method == HOSTLER)
    print(f"{cpu_s:.0f} CPU-s in all, {ours_s:.0f} of them in Hostler's core and its virtual agents", file=sys.stderr)
    report("sweeps", list(_rows(figures)), bars, options.json)


def measure(case: Case) -> Figure:
    """Search on all fleets."""
    work, run = WORKS[case.work], _runner(case.method)
    began, ratios, chunks = time.process_time(), [], 0.0
    for seed in range(case.fleets):
        drawn = fleet(work, case.condition, seed)
        makespan_s, count = run(drawn, work, case.overhead_s)
        ratios.append(makespan_s / drawn.bound(work))
        chunks = max(chunks, count / GPUS)
    ratios.sort()
    return Figure(
        case=case,
        mean=sum(ratios) / len(ratios),
        p95=_quantile(ratios, 0.95),
        chunks=chunks,
        cpu_s=time.process_time() - began,
    )


def _cases(fleets: int) -> Iterator[Case]:
    """The long ones first."""
    methods = [each.name for each in sweeps_rules.METHODS if each.name != COSTLY]
    for work, condition in product(WORKS, CONDITIONS):
        yield Case(COSTLY, JUDGED_S, work, condition, fleets)
    for overhead_s, work, condition in product(OVERHEADS_S, WORKS, CONDITIONS):
        for name in (*methods, HOSTLER):
            yield Case(name, overhead_s, work, condition, fleets)


def _runner(name: str) -> Callable[[Fleet, int, float], tuple[float, int]]:
    if name == HOSTLER:
        return _ours
    method = next(each for each in sweeps_rules.METHODS if each.name == name)

    def run(drawn: Fleet, work: int, overhead_s: float) -> tuple[float, int]:
        came = sweeps_rules.run(method, drawn, work, overhead_s)
        return came.makespan_s, came.chunks

    return run


def _ours(drawn: Fleet, work: int, overhead_s: float) -> tuple[float, int]:
    came = sweeps_ours.run(drawn, work, overhead_s)
    return came.makespan_s, came.chunks


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear between the neighbours."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _rows(figures: Sequence[Figure]) -> Iterator[dict[str, Any]]:
    known = {figure.case: figure for figure in figures}
    fleets = figures[0].case.fleets
    names = [each.name for each in sweeps_rules.METHODS] + [HOSTLER]
    for overhead_s in (JUDGED_S, *(each for each in OVERHEADS_S if each != JUDGED_S)):
        for name in names:
            row: dict[str, Any] = {"overhead s": overhead_s, "rule": name}
            for work, condition in product(WORKS, CONDITIONS):
                figure = known.get(Case(name, overhead_s, work, condition, fleets))
                row[f"{work} {condition}"] = None if figure is None else f"{figure.mean:.3f} / {figure.p95:.3f}"
            longest = known.get(Case(name, overhead_s, "2^32", "fail", fleets))
            row["chunks per GPU, 2^32 fail"] = None if longest is None else round(longest.chunks, 1)
            if longest is not None:
                yield row


def _bars(known: dict[Case, Figure]) -> Iterator[Bar]:
    fleets = next(iter(known)).fleets
    for work, condition in product(WORKS, CONDITIONS):
        ours = known[Case(HOSTLER, JUDGED_S, work, condition, fleets)]
        mean, p95 = BARS[work]
        yield Bar(f"{work} {condition}: mean makespan over the bound, %", _percent(ours.mean), _percent(mean), "<=")
        yield Bar(f"{work} {condition}: p95 over the bound, %", _percent(ours.p95), _percent(p95), "<=")
    most = max(known[Case(HOSTLER, JUDGED_S, "2^32", each, fleets)].chunks for each in CONDITIONS)
    yield Bar("most chunks per GPU, 2^32", most, MOST_CHUNKS, "<=")
    for work in WORKS:
        excess = [_excess(known, name, work, fleets) for name in (HOSTLER, PEER)]
        yield Bar(f"{work}: excess over the bound ÷ hashtopolis'", excess[0] / excess[1], 0.5, "<=", "all conditions")


def _percent(ratio: float) -> float:
    return round(100 * (ratio - 1), 6)


def _excess(known: dict[Case, Figure], name: str, work: str, fleets: int) -> float:
    return sum(known[Case(name, JUDGED_S, work, each, fleets)].mean - 1 for each in CONDITIONS)


if __name__ == "__main__":
    main()
