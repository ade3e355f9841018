"""Data: the datasets that training learns from and what the quality gate said, and disks that fill up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hostler.model.views import DatasetView, NodeView
from hostler.web.desk import Desk
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import strip

SHOWN = 20
DISK = "disk"


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """Datasets of every config, the newest first, and nodes whose disks press."""
    histories = [desk.history(each.name) for each in desk.configs()]
    rows = [
        (each.config.name, [_row(one) for one in each.datasets[-SHOWN:][::-1]], len(each.datasets))
        for each in histories
    ]
    return [
        strip(desk.status()),
        Part("datasets", "parts/datasets.html", {"configs": rows}),
        Part("disks", "parts/disks.html", {"rows": _disks(desk.nodes())}),
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


def _disks(nodes: Sequence[NodeView]) -> Sequence[tuple[str, Any]]:
    return [(node.name, each) for node in nodes for each in node.pressures if DISK in each.signal]
