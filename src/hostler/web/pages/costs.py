"""Costs: what work that is over has used up, in all and for each unit of what was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hostler.model.steering import CostRow
from hostler.web.desk import Desk
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
        Part("kinds", "parts/costs.html", {"rows": [_row(each) for each in view.kinds], "heading": "By kind of work"}),
        Part("rows", "parts/costs.html", {"rows": [_row(each) for each in view.rows[:SHOWN]], "heading": "By whom"}),
    ]


def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Nothing that could be chosen."""
    return {"title": "Cost"}


COSTS = Page("costs", "costs.html", parts, frame)


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
