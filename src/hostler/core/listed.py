"""What has a list of its own, and the fleet as a whole: made on the spot, of no more than is asked for."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import islice

from hostler.core import cordons, readings, tally, views
from hostler.core.care import views as care
from hostler.core.index import Index
from hostler.core.loop import played
from hostler.core.loop.state import Config
from hostler.core.state import Device, Node, State, Sweep
from hostler.core.trust import views as trust
from hostler.model.fleet import Link
from hostler.model.listed import ConfigPace, FleetGroup, FleetTotals, FleetView, IntervalView, PlacedDevice

DAY_S = 86_400.0
SWEEPS_SHOWN = 100


def device_ids(
    state: State, index: Index, node: str | None = None, provider: str | None = None, tier: int | None = None
) -> Sequence[str]:
    """Devices of the nodes that are asked for; of those that have left the fleet, the ones that still hold work."""
    wanted = {
        name
        for name, each in state.nodes.items()
        if node in (None, name)
        and provider in (None, each.spec.provider)
        and (tier is None or views.tier_of(index, each) == tier)
    }
    return [
        name for name, device in state.devices.items() if device.spec.node in wanted and views.is_shown(index, device)
    ]


def placed_device(state: State, index: Index, device: Device) -> PlacedDevice:
    """A device with what goes for its node."""
    node = state.nodes[device.spec.node]
    spec, cordon = node.spec, state.cordons.get(node.spec.name)
    return PlacedDevice(
        node=spec.name,
        link=node.link,
        trouble=node.trouble,
        cordon=None if cordon is None else cordons.view(cordon),
        provider=spec.provider,
        ephemeral=spec.ephemeral,
        tier=views.tier_of(index, node),
        price_per_h=None if spec.price_per_h is None or not spec.devices else spec.price_per_h / len(spec.devices),
        device=views.device_view(state, index, device),
    )


def fleet_view(state: State, index: Index, now: float, members: Collection[str] | None = None) -> FleetView:
    """The fleet as a whole: those `members` of the nodes that are in it (`None`: all that are known)."""
    now = max(now, index.now)
    nodes = [node for name, node in state.nodes.items() if members is None or name in members]
    groups: dict[tuple[str, int], list[Node]] = {}
    for node in nodes:
        groups.setdefault((node.spec.provider or "", views.tier_of(index, node) or 0), []).append(node)
    unfinished = sorted((name for name in index.active if not state.jobs[name].state.final), key=views.number_of)
    return FleetView(
        at=now,
        totals=_totals(state, index, nodes),
        groups=tuple(
            FleetGroup(
                provider=provider or None, tier=tier or None, totals=_totals(state, index, groups[provider, tier])
            )
            for provider, tier in sorted(groups)
        ),
        pace=readings.pace(tally.window(state.tally, now, readings.WINDOW_S)),
        sweeps=tuple(views.sweep_view(state, index, state.sweeps[name]) for name in unfinished[:SWEEPS_SHOWN]),
        configs=tuple(_pace(config, now) for config in state.configs.values() if not config.retired),
    )


def intervals(sweep: Sweep, standings: Collection[str] | None, after: int | None, limit: int) -> Sequence[IntervalView]:
    """A sweep's range from its beginning to its end, beyond the interval that begins at `after`; at most `limit`."""
    every = sorted(_intervals(sweep), key=lambda each: each.start)
    wanted = (
        each
        for each in every
        if (standings is None or each.standing in standings) and (after is None or each.start > after)
    )
    return list(islice(wanted, limit))


def _intervals(sweep: Sweep) -> Iterator[IntervalView]:
    for start, stop in sweep.ledger.done:
        yield IntervalView(start=start, stop=stop, standing="done", chunk=None, device=None)
    for start, stop in sweep.ledger.free:
        yield IntervalView(start=start, stop=stop, standing="free", chunk=None, device=None)
    for chunk, (start, stop) in sweep.ledger.leased.items():
        device = sweep.leases[chunk].device
        yield IntervalView(start=start, stop=stop, standing="leased", chunk=chunk, device=device)


def _totals(state: State, index: Index, nodes: Sequence[Node]) -> FleetTotals:
    devices = [state.devices[spec.id] for node in nodes for spec in node.spec.devices]
    told = [
        value
        for device in devices
        if (value := care.device_facts(state, index, device.spec)["utilization"]) is not None
    ]
    prices = [node.spec.price_per_h for node in nodes if node.spec.price_per_h is not None]
    return FleetTotals(
        nodes=len(nodes),
        nodes_up=sum(node.link is Link.UP for node in nodes),
        devices=len(devices),
        devices_busy=sum(bool(device.attempts or device.chunks) for device in devices),
        devices_barred=sum(_is_barred(state, index, device) for device in devices),
        utilization=math.fsum(told) / len(told) if told else None,
        utilization_of=len(told),
        price_per_h=math.fsum(prices) if prices else None,
        unpriced=len(nodes) - len(prices),
    )


def _is_barred(state: State, index: Index, device: Device) -> bool:
    node, name = state.nodes[device.spec.node], device.spec.id
    away = node.link is not Link.UP or state.is_cordoned(name)
    return away or trust.quarantine(state, name, index.now) is not None or not state.trust.is_proved(name)


def _pace(config: Config, now: float) -> ConfigPace:
    day = played.games_since(config, now - DAY_S)
    return ConfigPace(config=config.spec.name, games_per_h=played.games_per_h(config, now), day=day)
