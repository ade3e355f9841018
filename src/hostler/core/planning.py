"""The slow loop: the whole fleet as one programme, by class of devices and group of work, every few minutes.

What comes of it is volatile: shares and prices are made anew after a restart. Nothing is decided here but to ask.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from hostler.core import bidding, forecast
from hostler.core.index import Group, Index, group_of
from hostler.core.loop.ranking import targets
from hostler.core.state import Job, State
from hostler.model.commands import Solve
from hostler.model.fleet import Link
from hostler.model.planning import Demand, Instance, QuotaRow
from hostler.model.work import JobState, WorkKind
from hostler.policy import fit

CHORE = "plan"
WORTH: Mapping[WorkKind, float] = {WorkKind.SELFPLAY: 1.0, WorkKind.TRAINING: 3.0, WorkKind.EVALUATION: 3.0}
"""What a second of a device is worth at each kind of work of a loop; what others wait for is worth more."""
FAMILIES_MAX = 200
"""Families of scripts with an estimate that the programme looks at, those with most jobs first."""


def due(state: State, index: Index) -> Solve | None:
    """The question to ask now, if it is time to, and there is anything to choose."""
    if not _is_time(state, index):
        return None
    index.chores.discard(CHORE)
    index.planned_at = index.now
    index.do_later(CHORE, index.now + state.rules.placement.plan_every_s)
    asked = instance(state, index)
    return Solve(instance=asked) if asked.demands and len(asked.classes) > 1 else None


def instance(state: State, index: Index) -> Instance:
    """The fleet and all work that is known of, as the programme sees them."""
    classes = _classes(state, index)
    demands = [*_loops(state, index, classes), *_families(state, index, classes)]
    return Instance(
        classes=classes,
        demands=tuple(demand for demand in demands if demand.worth),
        quotas=tuple(_quotas(state, index, classes)),
        drain_least_s=3600.0,
    )


def _is_time(state: State, index: Index) -> bool:
    if index.draining or len(index.members) < 2:
        return False
    return index.planned_at is None or CHORE in index.chores


def _classes(state: State, index: Index) -> dict[str, float]:
    """Devices by class, of nodes that can be reached."""
    found: Counter[str] = Counter()
    for node in state.nodes.values():
        if node.link is Link.UP:
            found.update(index.classes[device.id] for device in node.spec.devices)
    return {cls: float(count) for cls, count in sorted(found.items())}


def _loops(state: State, index: Index, classes: Mapping[str, float]) -> Iterator[Demand]:
    """Self-play of each config without end; of its trainings and evaluations one at a time, while there are any."""
    wanted: dict[tuple[str, WorkKind], Group] = {}
    for name in sorted(index.open_configs):
        for job in (state.jobs[each] for each in state.configs[name].jobs):
            wanted[name, job.spec.work] = group_of(job)
    for group in index.ready:
        if group.work in WORTH:
            wanted.setdefault((group.label, group.work), group)
    for (name, work), group in sorted(wanted.items()):
        if work in WORTH:
            most = None if work is WorkKind.SELFPLAY else 1.0
            yield _demand(state, index, f"{work} {name}", group, classes, WORTH[work], most)


def _demand(
    state: State,
    index: Index,
    name: str,
    group: Group,
    classes: Mapping[str, float],
    value: float,
    most: float | None,
) -> Demand:
    able = [cls for cls in classes if index.misfit(group.need, group.work, cls) is None]
    rates = bidding.rates(state, index, group, None, able)
    worth = {cls: value * rate / fit.devices_needed(group.need, index.samples[cls]) for cls, rate in rates.items()}
    return Demand(name=name, worth=worth, most=most)


def _families(state: State, index: Index, classes: Mapping[str, float]) -> Iterator[Demand]:
    """Scripts whose owners expect how long they take: what is left of each family, in seconds of its best class."""
    work: defaultdict[str, float] = defaultdict(float)
    samples: dict[str, Job] = {}
    for job in _estimated(state, index):
        seconds = bidding.remaining_s(state, index, job, bidding.fitting(index, group_of(job)))
        if seconds:
            family = forecast.family_of(job)
            work[family] += min(seconds.values())
            samples[family] = job
    for family in sorted(work, key=lambda name: -work[name])[:FAMILIES_MAX]:
        group = group_of(samples[family])
        able = [cls for cls in classes if index.misfit(group.need, group.work, cls) is None]
        seconds = bidding.remaining_s(state, index, samples[family], able)
        rates = bidding.rates(state, index, group, seconds, able)
        yield Demand(name=family, worth=dict(rates), rates=rates, work=work[family], devices=group.need.gpus)


def _estimated(state: State, index: Index) -> Iterator[Job]:
    for heap in list(index.ready.values()):
        yield from (job for entry in heap if _has_estimate(job := state.jobs[entry[2]]))
    for device in state.devices.values():
        for name in device.attempts:
            job = state.jobs[name.rpartition(".")[0]]
            if job.attempt is not None and job.attempt.device == device.spec.id and _has_estimate(job):
                yield job


def _has_estimate(job: Job) -> bool:
    return bool(job.spec.expected_s) and job.state is not JobState.DONE and not job.state.final


def _quotas(state: State, index: Index, classes: Mapping[str, float]) -> Iterator[QuotaRow]:
    by_pattern: defaultdict[tuple[int, str], dict[str, float]] = defaultdict(dict)
    for asked in sorted({str(quota.tier) for quota in state.rules.quotas}):
        for name, aim in targets(state, index, asked).items():
            if aim.pattern is not None:
                by_pattern[aim.tier, aim.pattern][name] = aim.share
    for (tier, pattern), shares in by_pattern.items():
        yield QuotaRow(
            name=f"{pattern} (tier {tier})",
            groups=frozenset(f"{work} {name}" for name in shares for work in WORTH),
            classes=frozenset(cls for cls in classes if index.samples[cls].tier == tier),
            share=sum(shares.values()),
        )
