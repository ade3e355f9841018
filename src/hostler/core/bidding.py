"""What devices are to a job, in the numbers that `policy.placement` works with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hostler.core import forecast, nearness
from hostler.core.index import Index, group_of
from hostler.core.state import Job, State
from hostler.core.uses import Group, Table
from hostler.model.work import JobState, WorkKind
from hostler.policy import cost, placement, power
from hostler.policy.placement import Bid, Market
from hostler.policy.power import Measured

RATED_MOST = 10_000
"""Groups whose speeds are remembered."""
USUAL_CHECKPOINT_S = 900.0
"""What a job that saves its work is taken to lose with its node."""
LOWER_TIER = 0.5
"""What a device of the next tier that a job names is to it, beside an equal one of the tier before."""


def bid_of(state: State, index: Index, job: Job, group: Group | None = None) -> Bid:
    """What a waiting or running job, of the group, offers for each class of devices that it fits on."""
    group = group_of(job) if group is None else group
    known = _table(state, index, job, group)
    return Bid(
        job=job.id,
        group=group.label,
        priority=job.priority,
        value=1.0,
        waited_s=max(index.now - job.submitted_at, 0.0),
        rates=known.rates,
        remaining_s=known.least_s,
        devices=job.spec.resources.gpus,
        held=None if job.attempt is None else index.classes.get(job.attempt.device),
        restart_s=state.rules.placement.restart_s if job.spec.checkpoints else 0.0,
    )


def market(state: State, index: Index) -> Market:
    """What devices are worth now, and how many jobs there are for each."""
    waiting = index.counts[JobState.PENDING] - len(index.blocked) - index.waiting_play
    held = sum(index.counts[each] for each in JobState if each.held)
    active = max(waiting, 0) + held - index.selfplaying
    return Market(prices=index.prices, pressure=active / max(len(index.places), 1))


def desirability(state: State, index: Index, job: Job, classes: Iterable[str]) -> list[str]:
    """Classes that the job fits on, the one it should rather have first, by what it is worth there.

    What waits for a result weighs its tiers against speed, provider and risk: the fast card of a node that lives is
    better than the slow one of a node that may vanish. Self-play keeps to its tiers: it leaves the big ones to others.
    """
    classes = list(classes)
    if len(classes) < 2:
        return classes
    bid, tiers = bid_of(state, index, job), job.spec.resources.tiers
    seconds = _table(state, index, job, group_of(job)).seconds
    worths = placement.scores(bid, market(state, index), state.rules.placement)
    preferences = state.rules.cost.providers.get(job.spec.work)
    likings = {cls: cost.liking(preferences, index.samples[cls].node.provider) for cls in classes}

    def place(cls: str) -> tuple[int, float]:
        tier = index.samples[cls].tier
        rank = tiers.index(tier) if tier in tiers else len(tiers)
        worth = worths[cls] * likings[cls] * _odds(index, seconds, job, cls) * _nearness(state, index, job, cls)
        if job.spec.work is WorkKind.SELFPLAY:
            return rank, -worth
        return 0, -worth * LOWER_TIER**rank

    return sorted(classes, key=place)


def safest(state: State, index: Index, cls: str, bids: Sequence[Bid], worths: Sequence[float]) -> Sequence[float]:
    """What a device is worth to bids of which one gets it, weighed by the odds of nodes that may vanish.

    On such a node the odds are a part of its worth. On one that lives, while such nodes have open devices too, it goes
    to who has most to lose there, of those who get a device at all: short work goes where it hardly risks anything.
    """
    if index.samples[cls].node.ephemeral:
        return [worth * _survives(state, index, bid, cls) for bid, worth in zip(bids, worths, strict=True)]
    risky = [each for each, names in index.open_in.items() if names and index.samples[each].node.ephemeral]
    if not risky or len(bids) < 2:
        return worths
    least = sorted(worths, reverse=True)[: len(index.open)][-1]
    return [
        1.0 - _elsewhere(state, index, bid, cls, risky) if worth >= least else -1.0
        for bid, worth in zip(bids, worths, strict=True)
    ]


def fitting(index: Index, group: Group) -> list[str]:
    """Classes in the fleet that a group fits on."""
    key = group.work, group.need
    known = index.fitting.get(key)
    if known is None:
        known = index.fitting[key] = [
            cls for cls, names in index.members.items() if names and index.misfit(group.need, group.work, cls) is None
        ]
    return known


def remaining_s(state: State, index: Index, job: Job, classes: Iterable[str]) -> Mapping[str, float] | None:
    """Seconds that the rest of the job takes by class, as its owner expects; `None`: nothing is expected."""
    if not job.spec.expected_s:
        return None
    found = {}
    for cls in classes:
        whole = forecast.expected(job, index.samples[cls].device.speed_class)
        if whole is not None:
            found[cls] = max(whole * (1.0 - job.progress), 1.0)
    return found or None


def rates(
    state: State, index: Index, group: Group, seconds: Mapping[str, float] | None, classes: list[str]
) -> Mapping[str, float]:
    """Relative speeds by class, the best 1: as its owner expects, as measured, or as the ranking table has it."""
    models = {cls: index.samples[cls].device.speed_class for cls in classes}
    if seconds is not None:
        return _as_expected(seconds, models)
    if group.work is WorkKind.SCRIPT:
        return dict.fromkeys(classes, 1.0)
    return learnt(state, index, group)


def learnt(state: State, index: Index, group: Group) -> Mapping[str, float]:
    """Relative speeds by class of the fleet that the group fits on, the best 1: measured, or by the ranking table."""
    lessons = index.lessons[f"{group.work} {group.label}"]
    known = index.rated.get(group)
    if known is None or known[0] != lessons:
        if len(index.rated) > RATED_MOST:
            index.rated.clear()
        known = index.rated[group] = lessons, _learnt_now(state, index, group)
    return known[1]


def _learnt_now(state: State, index: Index, group: Group) -> Mapping[str, float]:
    models = {cls: index.samples[cls].device.speed_class for cls in fitting(index, group)}
    family = f"{group.work} {group.label}"
    measured = {
        model: Measured(per_s=1 / known.seconds, samples=known.samples)
        for model in dict.fromkeys(models.values())
        if (known := state.durations.get(f"{model} {family}")) is not None
    }
    found = power.relative(power.rates(measured, dict.fromkeys(models.values())))
    return {cls: found[model] for cls, model in models.items()}


def _as_expected(seconds: Mapping[str, float], models: Mapping[str, str]) -> Mapping[str, float]:
    """What the owner expects of some classes; others as the ranking table compares them with these."""
    speeds = {models[cls]: 1 / each for cls, each in seconds.items()}
    if len(seconds) < len(models):
        told = {model: Measured(per_s=per_s, samples=1) for model, per_s in speeds.items()}
        others = power.rates(told, (model for model in models.values() if model not in told))
        slowest = power.UNKNOWN_RELATIVE * max(speeds.values())
        speeds |= {model: rate.per_s or slowest for model, rate in others.items()}
    best = max(speeds.values())
    return {cls: speeds[model] / best for cls, model in models.items()}


def _table(state: State, index: Index, job: Job, group: Group) -> Table:
    """What the classes are to a job; asked for at every decision, and mostly for the same job of the group."""
    lessons = index.lessons[f"{group.work} {group.label}"] if group.work is not WorkKind.SCRIPT else 0
    known = index.tables.get(group)
    if known is not None and (known.job, known.progress, known.lessons) == (job.id, job.progress, lessons):
        return known
    classes = fitting(index, group)
    seconds = remaining_s(state, index, job, classes)
    found = rates(state, index, group, seconds, classes)
    made = Table(
        job=job.id,
        progress=job.progress,
        lessons=lessons,
        classes=classes,
        seconds=seconds,
        least_s=None if seconds is None else min(seconds.values()),
        rates=found,
    )
    if group in index.ready:
        index.tables[group] = made
    return made


def _nearness(state: State, index: Index, job: Job, cls: str) -> float:
    """The share of its time there that a job would work, and not wait for its data: on the best node of the class."""
    if job.spec.work not in nearness.WEIGHED:
        return 1.0
    nodes = {index.sites[name].node.name: index.sites[name].node for name in index.members[cls]}
    waits_s = min(nearness.waits_s(state, job, nodes.values()).values(), default=0.0)
    if waits_s == 0:
        return 1.0
    known = forecast.learnt_s(state, index, job, index.samples[cls].device)
    return 1.0 if known is None else known / (known + waits_s)


def _elsewhere(state: State, index: Index, bid: Bid, cls: str, others: Iterable[str]) -> float:
    """What the best device of the other classes is to the bid, as a share of one of the class; above 1 it is better."""
    there = ((other, _survives(state, index, bid, other)) for other in others if other in bid.rates)
    able = (bid.rates[other] * odds for other, odds in there if odds >= cost.SURVIVAL_MIN)
    return min(max(able, default=0.0) / bid.rates[cls], 1.0)


def _survives(state: State, index: Index, bid: Bid, cls: str) -> float:
    job = state.jobs[bid.job]
    return _odds(index, _table(state, index, job, group_of(job)).seconds, job, cls)


def _odds(index: Index, seconds: Mapping[str, float] | None, job: Job, cls: str) -> float:
    """Odds that the node outlives what would be lost with it."""
    node = index.samples[cls].node
    if not node.ephemeral:
        return 1.0
    at_risk_s = USUAL_CHECKPOINT_S if seconds is None else seconds.get(cls, USUAL_CHECKPOINT_S)
    if job.spec.checkpoints or job.spec.work is WorkKind.SELFPLAY:
        at_risk_s = min(at_risk_s, USUAL_CHECKPOINT_S)
    return cost.survival(node.lifetime_s or cost.USUAL_LIFETIME_S, at_risk_s)
