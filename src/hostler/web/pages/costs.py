"""Costs: what work that is over has used up, in all and for each unit of what was made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hostler.model.readings import PlaceReading
from hostler.model.steering import CostRow
from hostler.model.views import NodeView
from hostler.web.desk import Desk
from hostler.web.pages.fleet import NOBODY, summed
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import strip

SHOWN = 200


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """The whole, by work kind, and by config or sweep."""
    view, nodes = desk.costs(), desk.nodes()
    prices = [node.price_per_h for node in nodes if node.price_per_h is not None]
    whole = {
        "device_s": view.device_s,
        "cost": view.cost,
        "unpriced": view.unpriced,
        "per_h": sum(prices) if prices else None,
        "priceless": len(nodes) - len(prices),
        "nodes": len(nodes),
    }
    return [
        strip(desk.status()),
        Part("numbers", "parts/cost_numbers.html", whole, kind="numbers"),
        Part("places", "parts/cost_places.html", {"rows": _places(nodes, desk.readings().places)}),
        Part("kinds", "parts/costs.html", {"rows": [_row(each) for each in view.kinds], "heading": "By kind of work"}),
        Part("rows", "parts/costs.html", {"rows": [_row(each) for each in view.rows[:SHOWN]], "heading": "By whom"}),
    ]


def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Nothing that could be chosen."""
    return {"title": "Cost"}


COSTS = Page("costs", "costs.html", parts, frame)


def _places(nodes: Sequence[NodeView], used: Sequence[PlaceReading]) -> Sequence[Mapping[str, Any]]:
    """By provider and tier: what the nodes cost an hour, and what work that is over has used up there."""
    groups: defaultdict[tuple[str, str], list[NodeView]] = defaultdict(list)
    for node in nodes:
        groups[node.provider or NOBODY, "cpu" if node.tier is None else str(node.tier)].append(node)
    spent = {(each.provider or NOBODY, each.tier): each for each in used}
    return [_place(*key, groups.get(key, []), spent.get(key)) for key in sorted({*groups, *spent})]


def _place(provider: str, tier: str, nodes: Sequence[NodeView], spent: PlaceReading | None) -> Mapping[str, Any]:
    now = summed(nodes)
    priced = spent is not None and spent.unpriced_s < spent.device_s
    return {
        "provider": provider,
        "tier": tier,
        "nodes": now["nodes"],
        "devices": now["devices"],
        "price_per_h": now["price_per_h"],
        "unpriced": now["unpriced"],
        "device_s": 0.0 if spent is None else spent.device_s,
        "cost": spent.cost if spent is not None and priced else None,
    }


def _row(row: CostRow) -> Mapping[str, Any]:
    return {
        "work": str(row.work),
        "of": row.of,
        "name": row.name,
        "device_s": row.device_s,
        "cost": row.cost,
        "unpriced": row.unpriced,
        "units": row.units,
    }
