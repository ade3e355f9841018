"""How the fleet is steered, for people: shares against targets, learnt durations, costs, and what is held back."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hostler.core import accounts, cordons, environments, forecast, foreign_use
from hostler.core.alerting import views as alerting
from hostler.core.care import views as care
from hostler.core.index import Index
from hostler.core.loop import matches, pausing, played
from hostler.core.loop.claims import idle_s
from hostler.core.loop.ranking import targets
from hostler.core.loop.state import Config
from hostler.core.past import EARLIER
from hostler.core.state import Spent, State, sweep_payload
from hostler.core.trust import views as trust
from hostler.model.planning import Plan
from hostler.model.steering import (
    AccuracyView,
    CostRow,
    CostView,
    Durations,
    DurationView,
    Feasibility,
    KindShare,
    QuotaView,
    ShareRow,
    TierShares,
    UnitCost,
)
from hostler.model.views import BanView, PressureView
from hostler.model.work import WorkKind
from hostler.policy import duration, share
from hostler.policy.duration import Estimate
from hostler.policy.share import QuotaTarget

ANY_MODEL = "*"
"""What durations on any device are kept under (`forecast.keys`)."""
GIGA = 1e9
KINDS = frozenset(each.value for each in WorkKind)


def quotas(state: State, index: Index) -> QuotaView:
    """Target against achieved: for each tier's configs and quotas, and for the kinds of work."""
    tiers = sorted({accounts.tier_of(index, name) for name in index.places} | {str(q.tier) for q in state.rules.quotas})
    names = [name for name, config in state.configs.items() if not config.retired]
    return QuotaView(
        at=index.now,
        tiers=tuple(_tier(state, index, tier) for tier in tiers) if names else (),
        kinds=tuple(_kinds(state, index)),
        contradictions=tuple(share.contradictions(state.rules.quotas, names)),
        plan=None if index.plan is None else _feasibility(index.plan),
    )


def durations(state: State) -> Durations:
    """Everything learnt of how long jobs take, by family and model of device, and how good predictions were."""
    strengths = {ANY_MODEL: 1.0}
    strengths |= {device.spec.speed_class: forecast.strength(device.spec) for device in state.devices.values()}
    # The name of one model may be the beginning of another's.
    models = sorted(strengths, key=len, reverse=True)
    rows = [
        _duration(state.durations, key, model, strengths[model])
        for key in state.durations
        if (model := next((each for each in models if key.startswith(f"{each} ")), None)) is not None
    ]
    return Durations(
        rows=tuple(sorted(rows, key=lambda row: (row.work, row.family, row.model is None, row.p50_s))),
        accuracy=tuple(
            AccuracyView(work=WorkKind(work), factor=each.factor, within_2=each.within_2, samples=each.samples)
            for work, each in sorted(state.accuracy.items())
        ),
    )


def costs(state: State) -> CostView:
    """What work that is over has used up: by kind, and by kind and config or sweep, with the price of what it made."""
    by_kind: defaultdict[WorkKind, list[Spent]] = defaultdict(list)
    rows = []
    for key, spent in sorted(state.spent.items(), key=lambda item: -item[1].device_s):
        kind, _, whom = key.partition(" ")
        work = WorkKind(kind)
        by_kind[work].append(spent)
        rows.append(_cost_row(work, whom or None, _name(state, whom), spent, _made(state, work, whom)))
    whole = _sum(state.spent.values())
    return CostView(
        device_s=whole.device_s,
        cost=_known_cost(whole),
        unpriced=_unpriced(whole),
        kinds=tuple(_cost_row(work, None, None, _sum(each), {}) for work, each in by_kind.items()),
        rows=tuple(rows),
    )


def bans(state: State, index: Index) -> Sequence[BanView]:
    """Everything that is held back or put first for a while: by whom, why, until when."""
    return [
        *cordons.bans(state),
        *foreign_use.bans(state, index),
        *pausing.bans(state),
        *trust.bans(state, index.now),
        *environments.bans(state, index.now),
        *of_scheduler(state, index),
        *alerting.bans(state),
    ]


def of_scheduler(state: State, index: Index) -> Sequence[BanView]:
    """Of these, what no failure is behind: pressures, reservations, and configs that go first."""
    return [*_pressures(state, index), *_reservations(state, index), *_boosts(state, index)]


def _tier(state: State, index: Index, tier: str) -> TierShares:
    aims = targets(state, index, tier)
    services = {name: accounts.served_s(state, index, accounts.config_account(tier, name)) for name in aims}
    had = share.achieved(services)
    configs = [_config_row(index, tier, aim, services[name], had.get(name)) for name, aim in aims.items()]
    return TierShares(
        tier=tier,
        devices=sum(accounts.tier_of(index, name) == tier for name in index.places),
        device_s=math.fsum(services.values()),
        error_points=share.quota_error(_shares(aims), had),
        patterns=tuple(_pattern_rows(aims, configs)),
        configs=tuple(configs),
    )


def _shares(aims: Mapping[str, QuotaTarget]) -> dict[str, float]:
    return {name: aim.share for name, aim in aims.items()}


def _config_row(index: Index, tier: str, aim: QuotaTarget, device_s: float, had: float | None) -> ShareRow:
    return ShareRow(
        name=aim.config,
        pattern=aim.pattern,
        configs=(aim.config,),
        target=aim.share,
        had=had,
        device_s=device_s,
        holds=index.devices_of(accounts.config_account(tier, aim.config)),
        wants=aim.config in index.open_configs,
    )


def _pattern_rows(aims: Mapping[str, QuotaTarget], configs: Sequence[ShareRow]) -> Iterator[ShareRow]:
    """A row for each quota; a promise to a pattern is one to all its configs together."""
    rows = {row.name: row for row in configs}
    wanted = share.by_pattern(aims, _shares(aims))
    served = share.by_pattern(aims, {name: row.device_s for name, row in rows.items()})
    had = share.achieved(served)
    for name, target in wanted.items():
        mine = [rows[config] for config, aim in aims.items() if (aim.pattern or share.OTHERS) == name]
        yield ShareRow(
            name=name,
            pattern=mine[0].pattern,
            configs=tuple(row.name for row in mine),
            target=target,
            had=had.get(name),
            device_s=served[name],
            holds=math.fsum(row.holds for row in mine),
            wants=any(row.wants for row in mine),
        )


def _kinds(state: State, index: Index) -> Iterator[KindShare]:
    """Kinds by what they had; each kind's target is against those that have had something, or want or hold it."""
    weights = state.rules.shares
    names = {kind: accounts.kind_account(kind) for kind in weights}
    services: dict[str, float] = {kind: accounts.served_s(state, index, names[kind]) for kind in weights}
    had, waiting = share.achieved(services), _waiting_kinds(state, index)
    here = [kind for kind in weights if services[kind] or index.devices_of(names[kind]) or kind in waiting]
    whole = math.fsum(weights[kind] for kind in here)
    for kind, weight in weights.items():
        yield KindShare(
            work=kind,
            target=weight / whole if kind in here and whole > 0 else None,
            had=had.get(kind),
            device_s=services[kind],
            holds=index.devices_of(names[kind]),
        )


def _waiting_kinds(state: State, index: Index) -> set[WorkKind]:
    """Kinds of which something waits for a device."""
    kinds = {group.work for group in list(index.ready) if index.head(state, group) is not None}
    sweeps = {WorkKind.SWEEP for name in index.active if state.sweeps[name].ledger.free}
    return {accounts.COUNTS_AS.get(kind, kind) for kind in kinds} | sweeps


def _feasibility(plan: Plan) -> Feasibility:
    return Feasibility(
        status=plan.status,
        conflicts=plan.conflicts,
        slack=plan.quota_slack,
        prices=plan.prices,
        bound=plan.bound,
        seconds=plan.seconds,
    )


def _duration(known: Mapping[str, Estimate], key: str, model: str, strength: float) -> DurationView:
    family = key.removeprefix(f"{model} ")
    own = None if model == ANY_MODEL else known[key]
    found = duration.predict((own, known.get(f"{ANY_MODEL} {family}")), scale=1 / strength)
    assert found is not None, f"nothing is known of {key}"
    work, name = _kind_of(family)
    return DurationView(
        work=work,
        family=name,
        model=None if model == ANY_MODEL else model,
        p50_s=found.p50_s,
        p90_s=found.p90_s,
        longest_s=known[key].longest_s,
        samples=known[key].samples,
        source=found.source,
    )


def _kind_of(family: str) -> tuple[WorkKind, str]:
    """The work kind of a family and the rest of its name; what begins with no kind is a program's (`family_of`)."""
    first, _, rest = family.partition(" ")
    return (WorkKind(first), rest) if rest and first in KINDS else (WorkKind.SCRIPT, family)


def _cost_row(
    work: WorkKind, whom: str | None, name: str | None, spent: Spent, made: Mapping[str, float | None]
) -> CostRow:
    return CostRow(
        work=work,
        of=whom,
        name=name,
        device_s=spent.device_s,
        cost=_known_cost(spent),
        unpriced=_unpriced(spent),
        units=tuple(_unit(spent, unit, count) for unit, count in made.items() if count is not None),
    )


def _unit(spent: Spent, unit: str, count: float) -> UnitCost:
    """What one of so many took. A price that part of the device time lacks is no price."""
    return UnitCost(
        unit=unit,
        count=count,
        device_s=spent.device_s / count if count else None,
        cost=spent.cost / count if count and not spent.unpriced_s else None,
    )


def _known_cost(spent: Spent) -> float | None:
    return None if spent.unpriced_s >= spent.device_s else spent.cost


def _unpriced(spent: Spent) -> float | None:
    return spent.unpriced_s / spent.device_s if spent.device_s else None


def _sum(every: Iterable[Spent]) -> Spent:
    parts = list(every)
    return Spent(
        device_s=math.fsum(each.device_s for each in parts),
        cost=math.fsum(each.cost for each in parts),
        unpriced_s=math.fsum(each.unpriced_s for each in parts),
    )


def _name(state: State, whom: str) -> str | None:
    return state.jobs[whom].spec.name if whom in state.sweeps else None


def _made(state: State, work: WorkKind, whom: str) -> Mapping[str, float | None]:
    """Units of useful work by name."""
    if work is WorkKind.SWEEP and whom == EARLIER:
        return {"chunk": state.past.chunks, "10^9 items": state.past.items / GIGA}
    sweep, config = state.sweeps.get(whom), state.configs.get(whom)
    if work is WorkKind.SWEEP and sweep is not None:
        done = sweep.ledger.done_items
        # Uneven items are few and long, as calls of functions are.
        items = {"item": done} if sweep_payload(state.jobs[whom]).uneven else {"10^9 items": done / GIGA}
        return {"chunk": sweep.chunks_done, **items}
    return {} if config is None else _made_for(work, config)


def _made_for(work: WorkKind, config: Config) -> Mapping[str, float | None]:
    match work:
        case WorkKind.SELFPLAY:
            return {"game": played.selfplay_games(config)}
        case WorkKind.TRAINING:
            return {"sample": sum(each.training.samples for each in config.models.values())}
        case WorkKind.EXPORT:
            return {"position": sum(each.ref.positions for each in config.datasets.values())}
        case WorkKind.EVALUATION:
            return {"game": config.past_match_games + sum(map(matches.games, config.matches))}
    return {}


def _pressures(state: State, index: Index) -> Iterator[BanView]:
    """Pressures that hold something back; others only warn."""
    for node in state.care.nodes:
        yield from _pressing(node, care.node_pressures(state, index, node))
    yield from _pressing("queue", care.queue_pressures(state))


def _pressing(what: str, pressures: Iterable[PressureView]) -> Iterator[BanView]:
    for each in pressures:
        if each.holds_back:
            yield BanView(
                kind="pressure",
                what=what,
                of=", ".join(each.holds_back),
                owner="care",
                why=f"{each.event}: {each.signal} {_value(each.value)} of {each.limit:g} {each.unit}",
                since=each.since,
                until=each.expires_at,
            )


def _value(value: float | None) -> str:
    return "?" if value is None else f"{value:.3g}"


def _reservations(state: State, index: Index) -> Iterator[BanView]:
    for device, name in index.reserved.items():
        job = state.jobs[name]
        why = f"kept for {job.spec.name} until that has it"
        yield BanView(
            kind="reservation", what=device, of=name, owner="scheduler", why=why, since=None, until=None
        )  # fmt: skip


def _boosts(state: State, index: Index) -> Iterator[BanView]:
    """Configs that go first because they have waited so long for self-play."""
    after_s = state.rules.placement.starve_after_s
    for name in index.eager:
        waited_s = idle_s(index, state.configs[name])
        if waited_s is not None and waited_s <= after_s:
            continue
        why = "never had self-play" if waited_s is None else f"no self-play for {waited_s / 3600:.1f} h"
        since = None if waited_s is None else index.now - waited_s + after_s
        yield BanView(
            kind="boost",
            what=name,
            of=WorkKind.SELFPLAY,
            owner="scheduler",
            why=f"{why}, goes first until it gets some",
            since=since,
            until=None,
        )
