"""A week of a rented fleet with quotas: `examples/multi-provider.yaml`, by Hostler's core and by simple rules.

    python benchmarks/providers.py [--quick] [--json FILE]

33 GPUs in 18 nodes of four providers. Twelve training configs play without end (no dataset is ever due); trainings
arrive by chance (Poisson; log-normal, 2 h on an A100 in the mean, sigma 0.8; 30 % of the power of tiers 1 and 2 in
all, 10 and 60 % as well), one at a time of a config. Devices are as fast as the ranking table says × lognormal(0.12).
Ephemeral nodes live as in Bamboo's p3 spot trace × 4 (median 4 h) or × 1, and come back after 20 min in the mean. A
process starts up for 60 s; self-play is brought home every 60 s, training saves every 15 min. Seven days.

Hostler is the production core in its virtual world, without telemetry; a job of self-play is as many games as take an
A100 4 h. The rules (providers_rules.py) have the same fleet, lives and trainings. Nothing was tuned on these seeds (but
on 100 to 105).

The bound is that of the linear programme (`policy.programme`, HiGHS) over devices g and configs c: maximise the sum of
power(g) × hours(c, g), where a device has no more hours than its node was there (clairvoyant), work runs where it fits
(alone, or on several of its node), and each quota's configs have its share of the hours of tier 1, a missing hour
costing ten times what the best device does. Training and self-play are worth the same, and fit alike: that trainings
are no more than there are of them, and one at a time of a config, takes nothing from it. Useful work is power × time
without start-up, and without what was lost with a node. The cost per unit is compared with rent ÷ bound; the rent is
the same for everybody. A training's wait is all it waited, whenever it could not run. Data: `HOSTLER_BENCH_DATA`, or
`shared/data` beside the repository.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import ceil
from statistics import mean
from typing import Any

import providers_ours
import providers_rules
from common import Bar, Op, Row, arguments, report
from hostler.model.planning import Demand, Instance, QuotaRow
from hostler.model.work import WorkKind
from hostler.policy import programme, share
from hostler.sim.faults import HOUR_S
from providers_fleet import USUAL_LOAD, Case, Week, data, traced, week
from providers_rules import RULES, Fleet, Outcome, gaps

HOSTLER = "Hostler"
SEEDS, FEW = 6, 2
OTHER_LOADS = (0.1, 0.6)
MIN_S = 60.0
BARS: dict[float, dict[str, tuple[Op, float]]] = {
    4.0: {"useful work ÷ bound": (">=", 0.98), "quota error": ("<=", 2.5), "cost ÷ bound": ("<=", 1.02)},
    1.0: {"useful work ÷ bound": (">=", 0.965), "quota error": ("<=", 3.5), "cost ÷ bound": ("<=", 1.035)},
}
BOTH: dict[str, tuple[Op, float]] = {
    "wait mean min": ("<=", 15.0),
    "wait p95 min": ("<=", 120.0),
    "without work h": ("<=", 4.0),
}


@dataclass(frozen=True, slots=True)
class Run:
    """A week under a scheduler."""

    case: Case
    scheduler: str


@dataclass(frozen=True, slots=True)
class Came:
    """What came of it. Shares of the bound, points, minutes, hours."""

    run: Run
    busy: float
    useful: float
    quota_error: float
    wait_mean: float
    wait_p95: float
    wait_longest: float
    without_h: float
    """The longest time that a config had no work at all, without the longest training of its own."""
    slack: float
    """Share of tier 1 by which quotas are missed even in the bound."""
    cpu_s: float


def main() -> None:
    """Run the command line described above."""
    options = arguments(__doc__)
    if data() is None:
        print("providers: there is no data: set HOSTLER_BENCH_DATA to the folder that holds `bamboo`\n")
        report("providers", [], [Bar("useful work ÷ bound, × 4", None, 0.98, ">=")], options.json)
        return
    with ProcessPoolExecutor() as pool:
        found = list(pool.map(measure, _runs(FEW if options.quick else SEEDS)))
    usual = [came for came in found if came.run.case.load == USUAL_LOAD]
    others = [came for came in found if came.run.case.load != USUAL_LOAD]
    rows = [*_means(usual), *_each(usual), *_loads(others)]
    report("providers", rows, list(_bars(usual)), options.json)


def measure(run: Run) -> Came:
    """Play a week."""
    path = data()
    assert path is not None
    began, drawn = time.process_time(), week(run.case, traced(path))
    fleet, up_s = Fleet(drawn), {name: drawn.up_s(node.name) for node in drawn.nodes for name in _names(node.devices)}
    bound, slack = lp_bound(drawn, fleet, up_s)
    if run.scheduler == HOSTLER:
        played = providers_ours.play(drawn)
    else:
        played = providers_rules.play(drawn, next(rule for rule in RULES if rule.name == run.scheduler))
    waits = sorted(played.waits)
    return Came(
        run=run,
        busy=played.busy_s / sum(up_s.values()),
        useful=played.useful / bound,
        quota_error=quota_error(drawn, played.had_s),
        wait_mean=mean(waits) / MIN_S,
        wait_p95=waits[ceil(0.95 * len(waits)) - 1] / MIN_S,
        wait_longest=waits[-1] / MIN_S,
        without_h=without_s(drawn, played) / HOUR_S,
        slack=slack,
        cpu_s=time.process_time() - began,
    )


def lp_bound(drawn: Week, fleet: Fleet, up_s: dict[str, float]) -> tuple[float, float]:
    """Power seconds that could be done at most, and the share of tier 1 by which quotas are missed then."""
    names = sorted(fleet.needs)
    able = {name: [each for each in up_s if fleet.wanted(name, WorkKind.SELFPLAY, each)] for name in names}
    tier_1 = frozenset(name for name in up_s if fleet.tier(name) == 1)
    aims = share.targets(drawn.scenario.rules.quotas, names, 1, {})
    shares = share.by_pattern(aims, {name: aim.share for name, aim in aims.items()})
    plan = programme.solve(
        Instance(
            classes={name: seconds / HOUR_S for name, seconds in up_s.items()},
            demands=tuple(Demand(name=name, worth={each: fleet.power[each] for each in able[name]}) for name in names),
            quotas=tuple(
                QuotaRow(name=pattern, groups=_of(pattern, aims), classes=tier_1, share=part)
                for pattern, part in shares.items()
            ),
        )
    )
    assert plan.bound is not None, plan.status
    missed = sum(plan.quota_slack.values()) * HOUR_S / sum(up_s[name] for name in tier_1)
    return plan.bound * HOUR_S, missed


def quota_error(drawn: Week, had_s: dict[str, float]) -> float:
    """Points of tier 1's time that went to others than they were meant for."""
    aims = share.targets(drawn.scenario.rules.quotas, sorted(had_s), 1, {})
    target = share.by_pattern(aims, {name: aim.share for name, aim in aims.items()})
    found = share.quota_error(target, share.by_pattern(aims, share.achieved(had_s)))
    assert found is not None
    return found


def without_s(drawn: Week, played: Outcome) -> float:
    """The longest time without work of a config, beyond the longest of its trainings."""
    longest = dict.fromkeys((config.name for config in drawn.scenario.configs), 0.0)
    for config, seconds in played.trained_s.items():
        longest[config] = max(longest[config], seconds)
    return max(max(gaps(played.spans[name], drawn.case.span_s)) - longest[name] for name in longest)


def _runs(seeds: int) -> Iterator[Run]:
    schedulers = (HOSTLER, *(rule.name for rule in RULES))
    for name in schedulers:
        for scale in BARS:
            yield from (Run(Case(seed, scale), name) for seed in range(seeds))
    for load in OTHER_LOADS:
        for name in (HOSTLER, RULES[-1].name):
            yield from (Run(Case(seed, 4.0, load), name) for seed in range(FEW))


def _means(found: Sequence[Came]) -> Iterator[Row]:
    for scale in BARS:
        for name in dict.fromkeys(came.run.scheduler for came in found):
            mine = [came for came in found if came.run.case.scale == scale and came.run.scheduler == name]
            yield {"lives": f"× {scale:g}", "mean of": len(mine), "scheduler": name, **_figures(mine)}


def _each(found: Sequence[Came]) -> Iterator[Row]:
    for came in found:
        if came.run.scheduler == HOSTLER:
            yield {"lives": f"× {came.run.case.scale:g}", "seed": came.run.case.seed, **_figures([came])}


def _loads(found: Sequence[Came]) -> Iterator[Row]:
    for came in found:
        case = came.run.case
        yield {"trainings": case.load, "seed": case.seed, "scheduler": came.run.scheduler, **_figures([came])}


def _figures(found: Sequence[Came]) -> dict[str, Any]:
    useful = mean(came.useful for came in found)
    return {
        "busy": round(mean(came.busy for came in found), 4),
        "useful work ÷ bound": round(useful, 4),
        "cost ÷ bound": round(mean(1 / came.useful for came in found), 4),
        "quota error": round(mean(came.quota_error for came in found), 2),
        "wait mean min": round(mean(came.wait_mean for came in found), 1),
        "wait p95 min": round(mean(came.wait_p95 for came in found), 1),
        "longest wait min": round(max(came.wait_longest for came in found)),
        "without work h": round(max(came.without_h for came in found), 1),
        "CPU-s": round(mean(came.cpu_s for came in found), 1),
    }


def _bars(found: Iterable[Came]) -> Iterator[Bar]:
    ours = [came for came in found if came.run.scheduler == HOSTLER]
    for scale, bars in BARS.items():
        mine = [came for came in ours if came.run.case.scale == scale]
        figures = _figures(mine)
        for name, (op, target) in {**bars, **BOTH}.items():
            each = [_figures([came])[name] for came in mine]
            worst = min(each) if op == ">=" else max(each)
            note = f"worst seed {worst:g}; mean of {len(mine)}" if name != "without work h" else "all configs and seeds"
            yield Bar(f"× {scale:g}: {name}", figures[name], target, op, note)
    yield Bar("quotas missed in the bound, share of tier 1", max(came.slack for came in ours), 1e-6, "<=")


def _of(pattern: str, aims: dict[str, share.QuotaTarget]) -> frozenset[str]:
    return frozenset(name for name, aim in aims.items() if (aim.pattern or share.OTHERS) == pattern)


def _names(devices: Iterable[Any]) -> list[str]:
    return [device.id for device in devices]


if __name__ == "__main__":
    main()
