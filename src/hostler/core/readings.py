"""What instruments read, made from the state. Costs what grows with nodes, devices and configs, never with jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from hostler.core import cordons, foreign_use, shown, tally
from hostler.core.alerting import learners
from hostler.core.care import effects, views as care
from hostler.core.index import Index
from hostler.core.loop import closing
from hostler.core.loop.claims import velocity_of
from hostler.core.loop.decide import over
from hostler.core.loop.state import Config
from hostler.core.state import NEVER_REACHED, RESTARTED, Device, Node, Spent, State
from hostler.core.tally import Window
from hostler.core.trust import views as trust
from hostler.learning.velocity import Velocity
from hostler.model.events import job_of
from hostler.model.fleet import Link
from hostler.model.readings import (
    ConfigReading,
    DeviceReading,
    Gist,
    NodeReading,
    Pace,
    PlaceReading,
    Readings,
    RlReading,
    SweepReading,
    WorkReading,
)
from hostler.model.views import VelocityView
from hostler.model.work import FailureClass, JobState, WorkKind
from hostler.policy import pressure

WINDOW_S = 3600.0


def gist(state: State, index: Index, now: float, nodes: Collection[str] | None = None) -> Gist:
    """What there is to do and what came of it, on the `nodes` that are in the fleet now (`None`: on all known).

    Where nothing has happened for a while, `now` is later than anything the core knows of; what is old is old by it.
    """
    now = max(now, index.now)
    members = [node for name, node in state.nodes.items() if nodes is None or name in nodes]
    devices = [state.devices[spec.id] for node in members for spec in node.spec.devices]
    return Gist(
        at=now,
        seq=state.seq,
        epoch=state.epoch,
        begun_at=state.begun_at,
        blocked=len(index.blocked),
        works=tuple(_works(state, index)),
        nodes=len(members),
        nodes_up=sum(node.link is Link.UP for node in members),
        devices=len(devices),
        devices_busy=sum(bool(device.attempts or device.chunks) for device in devices),
        pressures=care.queue_pressures(state),
        pace=pace(tally.window(state.tally, now, WINDOW_S)),
    )


def readings(
    state: State, index: Index, now: float, version: str, fleet: str, nodes: Collection[str] | None = None
) -> Readings:
    """Everything that instruments read; `nodes` and `now` as for the gist."""
    now = max(now, index.now)
    of_late = tally.window(state.tally, now, WINDOW_S)
    names = [name for name in state.nodes if nodes is None or name in nodes]
    at_risk = closing.at_risk(state)
    return Readings(
        gist=gist(state, index, now, nodes),
        version=version,
        fleet=fleet,
        refused=state.refused,
        troubles=state.troubles,
        nodes=tuple(_node(state, index, now, state.nodes[name], at_risk) for name in names),
        devices=tuple(
            _device(state, index, now, state.devices[spec.id])
            for name in names
            for spec in state.nodes[name].spec.devices
        ),
        places=tuple(_place(key, spent) for key, spent in state.spent_at.items()),
        configs=tuple(_config(state, now, each, of_late) for each in state.configs.values()),
        sweeps=_sweeps(state, index),
        quotas=shown.quotas(state, index),
        bans=_bans(state, index),
        trainings=tuple(_trainings(state, index)),
    )


def pace(of_late: Window) -> Pace:
    """What a window says of how fast things come to an end."""
    items = of_late.per_h(tally.ITEMS)
    failures = [f"{tally.ATTEMPTS} {work} {each}" for work in WorkKind for each in FailureClass]
    return Pace(
        window_s=of_late.span_s,
        games_per_h=of_late.per_h(f"{tally.GAMES} "),
        chunks_per_h=of_late.per_h(f"{tally.CHUNKS} done"),
        items_per_s=None if items is None else items / 3600,
        attempts_per_h=of_late.per_h(f"{tally.ATTEMPTS} "),
        failed_per_h=of_late.per_h(*failures),
        datasets=of_late.count(f"{tally.DATASETS} "),
        models=of_late.count(f"{tally.MODELS} "),
        promotions=of_late.count(f"{tally.PROMOTIONS} "),
    )


def _node(state: State, index: Index, now: float, node: Node, at_risk: Mapping[str, int]) -> NodeReading:
    spec, heard = node.spec, index.telemetry.get(node.spec.name)
    old_at = now - state.rules.targets.telemetry_max_age_s
    known = {} if heard is None else {name: value for name, (value, at) in heard.known.items() if at >= old_at}
    tiers = (site.tier for each in spec.devices if (site := index.sites.get(each.id)) is not None)
    tier = next((each for each in tiers if each is not None), None)
    return NodeReading(
        name=spec.name,
        backend=spec.backend,
        provider=spec.provider,
        tier=None if tier is None else str(tier),
        link=None if node.link is Link.DOWN and node.trouble in (NEVER_REACHED, RESTARTED) else node.link,
        since=node.since,
        cordoned=spec.name in state.cordons,
        told_at=None if heard is None else heard.at,
        memory_used=known.get(pressure.MEMORY),
        load=known.get(pressure.LOAD),
        disk_used=known.get(pressure.DISK),
        disk_free_gb=known.get(pressure.DISK_FREE),
        disk_full_in_s=known.get(pressure.DISK_FILL),
        backlog_s=known.get(pressure.BACKLOG),
        price_per_h=spec.price_per_h,
        games=state.tally.node_games.get(spec.name, 0),
        games_at_risk=at_risk.get(spec.name, 0),
        levels={name: each.signal.level.name.lower() for name, each in state.care.nodes.get(spec.name, {}).items()},
    )


def _device(state: State, index: Index, now: float, device: Device) -> DeviceReading:
    spec, node = device.spec, index.telemetry.get(device.spec.node)
    told = None if node is None else node.devices.get(spec.id)
    fresh = told if told is not None and now - told.told_at <= state.rules.targets.telemetry_max_age_s else None
    held = Counter(state.jobs[job_of(attempt)].spec.work for attempt in device.attempts)
    if device.chunks:
        held[WorkKind.SWEEP] += len(device.chunks)
    doubt = state.trust.doubts.get(spec.id)
    return DeviceReading(
        id=spec.id,
        node=spec.node,
        kind=spec.kind,
        model=spec.model,
        vram_gb=spec.vram_gb,
        held=dict(held),
        lanes=effects.lanes(state, spec.id),
        utilization=None if fresh is None else fresh.utilization,
        vram_used_gb=None if fresh is None else fresh.vram_used_gb,
        temperature_c=None if fresh is None else fresh.temperature_c,
        told_at=None if told is None else told.told_at,
        quarantined=doubt is not None and doubt.until is not None,
        cordoned=state.is_cordoned(spec.id),
        foreign_use=foreign_use.view(state, index, spec.id),
        unproved=not state.trust.is_proved(spec.id),
    )


def _works(state: State, index: Index) -> Iterator[WorkReading]:
    for work in WorkKind:
        oldest, jobs = index.kinds.oldest(work), {each: index.kinds.counts[work, each] for each in JobState}
        used = [each for key, each in state.spent.items() if key.partition(" ")[0] == work]
        yield WorkReading(
            work=work,
            jobs=jobs,
            oldest_at=None if oldest is None else state.jobs[f"j{oldest}"].submitted_at,
            attempts=tally.below(
                state.tally, f"{tally.ATTEMPTS} {work} ", tally.OUTCOMES if any(jobs.values()) else ()
            ),
            device_s=math.fsum(each.device_s for each in used),
            cost=math.fsum(each.cost for each in used),
            unpriced_s=math.fsum(each.unpriced_s for each in used),
        )


def _place(key: str, spent: Spent) -> PlaceReading:
    tier, _, provider = key.partition(" ")
    return PlaceReading(
        tier=tier,
        provider=provider or None,
        device_s=spent.device_s,
        cost=spent.cost,
        unpriced_s=spent.unpriced_s,
    )


def _config(state: State, now: float, config: Config, of_late: Window) -> ConfigReading:
    name, totals = config.spec.name, state.tally.totals
    ended, moving = over(config), velocity_of(config)
    newest, model = next(reversed(config.datasets.values()), None), next(reversed(config.models.values()), None)
    return ConfigReading(
        name=name,
        state="open" if ended is None else ended[0],
        generation=None if config.current is None else config.models[config.current].number,
        rating=None if config.current is None else config.ratings.get(config.evaluated_as(config.current)),
        velocity=None if moving is None else _velocity(moving),
        made_at=None if newest is None else newest.at,
        loss=None if model is None else model.training.after,
        fresh_games=config.fresh_games,
        games_per_h=of_late.per_h(f"{tally.GAMES} {name}"),
        games=totals.get(f"{tally.GAMES} {name}", 0),
        datasets=totals.get(f"{tally.DATASETS} {name}", 0),
        models=totals.get(f"{tally.MODELS} {name}", 0),
        promotions=totals.get(f"{tally.PROMOTIONS} {name}", 0),
        rejections=totals.get(f"{tally.REJECTIONS} {name}", 0),
        resting=sum(rest.until > now for rest in config.rests.values()),
    )


def _velocity(moving: Velocity) -> VelocityView:
    return VelocityView(per_day=moving.elo_per_day, low=moving.low, high=moving.high)


def _sweeps(state: State, index: Index) -> SweepReading:
    going_on = [state.sweeps[name] for name in index.active]
    totals = state.tally.totals
    return SweepReading(
        chunks=tally.below(
            state.tally,
            f"{tally.CHUNKS} ",
            (tally.SEARCHED, tally.TAKEN, tally.RETURNED, tally.FAILED),
        ),
        items=totals.get(tally.ITEMS, 0),
        hits=totals.get(tally.HITS, 0),
        chunks_out=sum(len(sweep.leases) for sweep in going_on),
        left=sum(sweep.ledger.total - sweep.ledger.done_items for sweep in going_on),
        per_s=math.fsum(index.pace_per_s.values()),
    )


def _trainings(state: State, index: Index) -> Iterator[RlReading]:
    for name in learners.learning(state):
        known = index.watching.learners.get(name)
        if known is not None:
            yield RlReading(told=known.told, at=known.at)


def _bans(state: State, index: Index) -> dict[str, int]:
    every = [
        *cordons.bans(state),
        *foreign_use.bans(state, index),
        *trust.lasting(state, index.now),
        *shown.of_scheduler(state, index),
    ]
    return dict(Counter(each.kind for each in every))
