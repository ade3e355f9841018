"""The slow loop: the whole fleet as one programme, by class of devices and group of work, every few minutes.

What comes of it is volatile: shares and prices are made anew after a restart. Nothing is decided here but to ask.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from hostler.core import bidding
from hostler.core.index import Index, group_of
from hostler.core.loop.ranking import targets
from hostler.core.state import State
from hostler.core.uses import Group, Worth
from hostler.model.commands import Solve
from hostler.model.planning import Demand, Instance, QuotaRow
from hostler.model.work import WorkKind
from hostler.policy import fit

CHORE = "plan"
WORTH: Mapping[WorkKind, float] = {WorkKind.SELFPLAY: 1.0, WorkKind.TRAINING: 3.0, WorkKind.EVALUATION: 3.0}
"""What a second of a device is worth at each kind of work of a loop; what others wait for is worth more."""
CHANGED = 0.1
"""Part of the fleet that must have come or gone for a plan before its time."""
APART_S = 10.0
"""Time between two plans at least: nodes mostly come and go several at once."""
FAMILIES_MAX = 200
"""Families of scripts with an estimate that the programme looks at, those with most jobs first."""


def due(state: State, index: Index) -> Solve | None:
    """The question to ask now, if it is time to, and there is anything to choose."""
    if not _is_time(state, index):
        return None
    index.planned_at, index.unplanned = index.now, 0
    index.do_later(CHORE, index.now + state.rules.placement.plan_every_s)
    asked = instance(state, index)
    return Solve(instance=asked) if asked.demands and len(asked.classes) > 1 else None


def fleet_changed(index: Index, devices: int) -> None:
    """So many devices have come, gone, or can be reached no more: that may be worth another plan."""
    before, worth_it = index.unplanned, CHANGED * len(index.places)
    index.unplanned += devices
    if index.planned_at is not None and before < worth_it <= index.unplanned:
        index.do_later(CHORE, max(index.now, index.planned_at + APART_S))


def instance(state: State, index: Index) -> Instance:
    """The fleet and all work that is known of, as the programme sees them."""
    classes = _classes(state, index)
    loops = list(_loops(state, index, classes))
    demands = [*loops, *_families(index, classes, {demand.name for demand in loops})]
    return Instance(
        classes=classes,
        demands=tuple(demand for demand in demands if demand.worth),
        quotas=tuple(_quotas(state, index, classes)),
        drain_least_s=3600.0,
    )


def _is_time(state: State, index: Index) -> bool:
    if index.draining or len(index.members) < 2:
        return False
    if index.planned_at is None:
        return True
    if CHORE not in index.chores:
        return False
    index.chores.discard(CHORE)
    usual = index.planned_at + state.rules.placement.plan_every_s
    if index.now >= usual or index.unplanned >= CHANGED * len(index.places):
        return True
    index.do_later(CHORE, usual)  # it was due by other rules, or for a change that has been planned for
    return False


def _classes(state: State, index: Index) -> dict[str, float]:
    """Devices by class that may be given work."""
    found: Counter[str] = Counter()
    for name, node in state.nodes.items():
        if state.takes_work(name):
            found.update(index.classes[device.id] for device in node.spec.devices if state.puts_work_on(device.id))
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
    rates, there = bidding.learnt(state, index, group), tuple(classes)
    known = index.worths.get(group)
    if known is None or known.rates is not rates or known.classes != there:
        if len(index.worths) > bidding.RATED_MOST:
            index.worths.clear()
        known = index.worths[group] = Worth(rates, there, _worth(index, group, rates, there, value))
    return Demand(name=name, worth=known.worth, most=most)


def _worth(
    index: Index, group: Group, rates: Mapping[str, float], classes: tuple[str, ...], value: float
) -> dict[str, float]:
    """What a device of each class brings at this work, the best `value`."""
    best = max((rates[cls] for cls in classes if cls in rates), default=1.0)
    alone = group.need.gpus == 1 and not group.need.shards
    return {
        cls: value * rates[cls] / best / (1 if alone else fit.devices_needed(group.need, index.samples[cls]))
        for cls in classes
        if cls in rates
    }


def _families(index: Index, classes: Mapping[str, float], but: Collection[str]) -> Iterator[Demand]:
    """Work whose owners expect how long it takes: what is left of each family, in seconds of its best class.

    A family is taken as one: its rates are those of all its jobs together.
    """
    found = [each for each in _left(index, classes) if each.name not in but]
    found.sort(key=lambda each: (-(each.work or 0.0), each.name))
    taken: Counter[str] = Counter()
    for each in found[:FAMILIES_MAX]:
        taken[each.name] += 1
        number = taken[each.name]
        yield each if number == 1 else replace(each, name=f"{each.name} #{number}")


def _left(index: Index, classes: Mapping[str, float]) -> Iterator[Demand]:
    for (group, _), left in index.backlog.items():
        told, any_s = left.seconds, left.seconds.get("*")
        models = {cls: index.samples[cls].device.speed_class for cls in bidding.fitting(index, group) if cls in classes}
        seconds = {cls: told.get(model, any_s) for cls, model in models.items()}
        known = {cls: each for cls, each in seconds.items() if each}
        if known:
            least = min(known.values())
            rates = {cls: least / each for cls, each in known.items()}
            name = f"{group.work} {group.label}" if left.serves else group.label
            yield Demand(name=name, worth=rates, rates=rates, work=least * group.need.gpus, devices=group.need.gpus)


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
