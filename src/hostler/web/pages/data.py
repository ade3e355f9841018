"""Data: disks and when they will be full, copies, and the datasets with what the quality gate said of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hostler.model.readings import NodeReading
from hostler.model.views import DatasetView, NodeView
from hostler.web.desk import Desk
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import strip

SHOWN = 20
DISKS_SHOWN = 200
STEP_S = 10.0
"""How exactly it is shown when nodes told of themselves."""
DISK = "disk"
IN_SIGHT_S = 365 * 86400.0
"""What is full later than that does not fill up, as far as anybody can tell."""


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """Disks of all nodes with when they will be full; copies, as far as they are known; datasets, the newest first."""
    histories = [desk.history(each.name) for each in desk.configs()]
    rows = [
        (each.config.name, [_row(one) for one in each.datasets[-SHOWN:][::-1]], len(each.datasets))
        for each in histories
    ]
    disks = [_disk(each) for each in desk.readings().nodes]
    return [
        strip(desk.status()),
        Part("disks", "parts/disks.html", _disks(disks, desk.nodes())),
        Part("datasets", "parts/datasets.html", {"configs": rows}),
    ]


def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Nothing that could be chosen."""
    return {"title": "Data"}


DATA = Page("data", "data.html", parts, frame)


def _row(view: DatasetView) -> Mapping[str, Any]:
    return {
        "sha256": view.sha256,
        "made_at": view.made_at,
        "games": view.games,
        "positions": view.positions,
        "segments": view.segments,
        "offered": view.offered,
        "rejected": dict(view.rejected),
        "quality": dict(view.quality),
        "bootstrap": view.bootstrap,
    }


def _disks(disks: Sequence[Mapping[str, Any]], nodes: Sequence[NodeView]) -> Mapping[str, Any]:
    """The fullest first, then those of which nothing is known."""
    ranked = sorted(
        disks, key=lambda each: (each["used"] is None, each["full_in_s"] or math.inf, -(each["used"] or 0.0))
    )
    return {
        "rows": ranked[:DISKS_SHOWN],
        "of": len(disks),
        "known": sum(each["used"] is not None for each in disks),
        "pressed": [(node.name, each) for node in nodes for each in node.pressures if DISK in each.signal],
    }


def _disk(node: NodeReading) -> Mapping[str, Any]:
    return {
        "node": node.name,
        "used": None if node.disk_used is None else round(node.disk_used, 3),
        "free_gb": None if node.disk_free_gb is None else float(f"{node.disk_free_gb:.3g}"),
        "full_in_s": None if node.disk_full_in_s is None else float(f"{node.disk_full_in_s:.2g}"),
        "fills": None if node.disk_full_in_s is None else node.disk_full_in_s < IN_SIGHT_S,
        "told_at": None if node.told_at is None else node.told_at // STEP_S * STEP_S,
        "backlog_s": None if node.backlog_s is None else float(f"{node.backlog_s:.2g}"),
    }
