"""The fleet: every device as a tile, by provider and tier; and one node with what can be done to it."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from hostler.model.errors import NotFound
from hostler.model.fleet import Link
from hostler.model.views import ConfigView, DeviceExplanation, DeviceView, HoldView, NodeView, SweepView
from hostler.web.desk import Desk
from hostler.web.pages.part import Page, Part, Subject, element_id
from hostler.web.pages.strip import strip

DAY_HOURS = 24
FRESH_S = 10.0
"""How exactly it is shown when devices told of themselves: a page that looked at every reading would never rest."""
NOBODY = "no provider"
FIRST_TILES = 30
"""Tiles that a page begins with; of others the places are there, and filled as one gets to them."""
SHOWS = ("busy", "idle", "held back")


class Tile(NamedTuple):
    """A device as it is shown."""

    id: str
    place: str
    """What it is called on its node."""
    model: str | None
    standing: str
    """`busy`, `idle`, `away` or `barred`: its colour, and a word for those who see none."""
    why: str | None
    held: tuple[HoldView, ...]
    utilization: float | None
    vram_used_gb: float | None
    vram_gb: float | None
    temperature_c: int | None
    price_per_h: float | None
    told_at: float | None


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """The numbers, and a part for each node that the filters let through."""
    status, nodes = desk.status(), desk.nodes()
    # On a large fleet each of these takes a while; nobody else is to wait for all of them together.
    await asyncio.sleep(0)
    shown = [node for node in nodes if _is_wanted(node, subject)]
    made = [(node, _node_part(node)) for node in sorted(shown, key=lambda node: (group_of(node), node.name))]
    wanted = subject.get("show")
    kept = [each for each in made if wanted is None or _shows(each[1], wanted)]
    await asyncio.sleep(0)
    return [
        strip(status),
        _numbers(desk, shown),
        _throughput(desk, status.sweeps),
        *_groups([node for node, _ in kept]),
        *(part for _, part in kept),
    ]


def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """What can be filtered by."""
    nodes = desk.nodes()
    return {
        "title": "Fleet",
        "providers": sorted({node.provider or NOBODY for node in nodes}),
        "tiers": sorted({_tier(node) for node in nodes}),
        "shows": SHOWS,
    }


def first_parts(parts: Sequence[Part]) -> Set[str]:
    """Ids of the nodes that the page begins with."""
    found, tiles = set(), 0
    for part in parts:
        if part.kind == "node" and tiles < FIRST_TILES:
            found.add(part.id)
            tiles += len(part.shown["tiles"])
    return found


async def node_parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """One node: its tiles, and why each device does what it does."""
    node = find_node(desk, subject.name)
    explained = [desk.explain_device(device.id) for device in node.devices]
    return [
        strip(desk.status()),
        _node_part(node),
        Part("held-back", "parts/node_state.html", _state_shown(node)),
        Part("devices", "parts/devices.html", {"devices": [_explained(each) for each in explained]}),
    ]


def node_frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """What can be done to it."""
    node = find_node(desk, subject.name)
    return {"title": f"Node {node.name}", "node": node.name}


def find_node(desk: Desk, name: str | None) -> NodeView:
    """The node of this name. Raises `NotFound`."""
    found = next((node for node in desk.nodes() if node.name == name), None)
    if found is None:
        raise NotFound(f"there is no node {name!r}; the page of the fleet shows them all")
    return found


FLEET = Page("fleet", "fleet.html", parts, frame)
NODE = Page("node", "node.html", node_parts, node_frame)


def _is_wanted(node: NodeView, subject: Subject) -> bool:
    provider, tier = subject.get("provider"), subject.get("tier")
    return provider in (None, node.provider or NOBODY) and tier in (None, _tier(node))


def _tier(node: NodeView) -> str:
    return "no tier" if node.tier is None else f"tier {node.tier}"


def group_of(node: NodeView) -> str:
    """Its provider and tier."""
    return f"{node.provider or NOBODY} · {_tier(node)}"


def _shows(part: Part, wanted: str) -> bool:
    standings = {tile.standing for tile in part.shown["tiles"]}
    return bool(standings & {"away", "barred"}) if wanted == "held back" else wanted in standings


def _node_part(node: NodeView) -> Part:
    price = None if node.price_per_h is None or not node.devices else node.price_per_h / len(node.devices)
    tiles = [_tile(node, device, price) for device in node.devices]
    shown = {
        "name": node.name,
        "link": str(node.link),
        "since": node.since,
        "trouble": node.trouble,
        "backend": node.backend,
        "ephemeral": node.ephemeral,
        "price_per_h": node.price_per_h,
        "cordon": None if node.cordon is None else node.cordon.state,
        "pressures": [(each.event, each.level) for each in node.pressures],
        "told_at": _oldest(node.devices),
        "tiles": tiles,
    }
    outline = {"name": node.name, "tiles": [(tile.place, tile.standing) for tile in tiles]}
    name = element_id("node", node.name)
    return Part(name, "parts/node.html", shown, group=group_of(node), kind="node", outline=outline)


def _tile(node: NodeView, device: DeviceView, price: float | None) -> Tile:
    standing, why = _standing(node, device)
    return Tile(
        id=device.id,
        place=device.id.removeprefix(f"{node.name}/"),
        model=device.model,
        standing=standing,
        why=why,
        held=device.held,
        utilization=_rounded(device.utilization, 2),
        vram_used_gb=_rounded(device.vram_used_gb, 1),
        vram_gb=_rounded(device.vram_gb, 1),
        temperature_c=None if device.temperature_c is None else round(device.temperature_c),
        price_per_h=price,
        told_at=_fresh(device.told_at),
    )


def _standing(node: NodeView, device: DeviceView) -> tuple[str, str | None]:
    """Its colour, and what keeps it from work or is behind it."""
    if node.link is not Link.UP:
        return "away", node.trouble or "its node does not answer"
    if node.cordon is not None:
        return "barred", f"{node.cordon.state}: {node.cordon.why or 'nobody said why'}"
    if device.cordon is not None:
        return "barred", f"{device.cordon.state}: {device.cordon.why or 'no reason given'}"
    if device.foreign_use is not None:
        return "barred", f"in use by others: {device.foreign_use.who}"
    ban = device.quarantine or device.canary
    if ban is not None:
        return "barred", f"{ban.kind}: {ban.why}"
    if device.held:
        return "busy", None
    return "idle", None if device.reserved_for is None else f"kept for {device.reserved_for}"


def _numbers(desk: Desk, nodes: Sequence[NodeView]) -> Part:
    return Part("numbers", "parts/fleet_numbers.html", summed(nodes), kind="numbers")


def _groups(nodes: Sequence[NodeView]) -> Sequence[Part]:
    """A line for each provider and tier."""
    groups: defaultdict[str, list[NodeView]] = defaultdict(list)
    for node in nodes:
        groups[group_of(node)].append(node)
    return [
        Part(element_id("group", name), "parts/fleet_group.html", summed(groups[name]), group=name, kind="groupline")
        for name in sorted(groups)
    ]


def summed(nodes: Sequence[NodeView]) -> Mapping[str, Any]:
    """Nodes in numbers; sums and means are of what is known, and say of how many that is."""
    devices = [device for node in nodes for device in node.devices]
    told = [device.utilization for device in devices if device.utilization is not None]
    prices = [node.price_per_h for node in nodes if node.price_per_h is not None]
    return {
        "devices": len(devices),
        "busy": sum(bool(device.held) for device in devices),
        "nodes": len(nodes),
        "up": sum(node.link is Link.UP for node in nodes),
        "utilization": round(math.fsum(told) / len(told), 2) if told else None,
        "told": len(told),
        "price_per_h": math.fsum(prices) if prices else None,
        "unpriced": len(nodes) - len(prices),
    }


def _throughput(desk: Desk, sweeps: Sequence[SweepView]) -> Part:
    configs = [config for config in desk.configs() if not config.retired]
    day_begins = desk.status().at - DAY_HOURS * 3600
    games = [_games(desk, config, day_begins) for config in configs]
    shown = {
        "sweeps": [(each.job, each.name, _figures(each.per_s), _figures(each.day), each.calls) for each in sweeps],
        "configs": games,
        "games_per_h": _sum(per_h for _, per_h, _ in games),
        "games": sum(day for *_, day in games),
    }
    return Part("throughput", "parts/throughput.html", shown, kind="panel")


def _sum(values: Iterable[float | None]) -> float | None:
    """Of those that are known; `None` where none is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) if known else None


def _games(desk: Desk, config: ConfigView, day_begins: float) -> tuple[str, float | None, int]:
    """A config's name, its games per hour now, and those of the last day."""
    day = sum(hour.games for hour in desk.history(config.name).hours if hour.at > day_begins)
    return config.name, None if config.games_per_h is None else round(config.games_per_h), day


def _state_shown(node: NodeView) -> Mapping[str, Any]:
    return {
        "cordon": node.cordon,
        "pressures": node.pressures,
        "gates": dict(node.gates),
        "given_up_at": node.given_up_at,
        "agent": node.agent,
        "backend": node.backend,
        "link": str(node.link),
        "since": node.since,
        "trouble": node.trouble,
        "batches": node.batches,
    }


def _explained(device: DeviceExplanation) -> Mapping[str, Any]:
    return {
        "id": device.device.id,
        "cls": device.cls,
        "summary": device.summary,
        "reasons": device.reasons,
        "held": device.held,
        "waiting": dict(device.waiting),
    }


def _oldest(devices: Iterable[DeviceView]) -> float | None:
    """When the device told of itself that has been silent longest; `None` where one never did."""
    told = list(_told(devices))
    return None if not told or None in told else _fresh(min(at for at in told if at is not None))


def _told(devices: Iterable[DeviceView]) -> Iterator[float | None]:
    for device in devices:
        yield device.told_at


def _fresh(at: float | None) -> float | None:
    return None if at is None else math.floor(at / FRESH_S) * FRESH_S


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def _figures(value: float | None) -> float | None:
    """Three figures: what is shown of it."""
    return None if value is None else float(f"{value:.3g}")
