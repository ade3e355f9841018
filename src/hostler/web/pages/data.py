"""Data: copies and what lacks them, places, disks and when they will be full, datasets with what the gate said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hostler.model.artifact_views import BacklogView, KeepingView, ReplicationView, Sought, StockRow, StockView
from hostler.model.disks import RetentionView
from hostler.model.readings import NodeReading
from hostler.model.telemetry import Level
from hostler.model.views import DatasetView, NodeView
from hostler.web.desk import Desk
from hostler.web.pages.artifacts import row_of
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
    """Copies and what lacks them, places, the newest artifacts; disks with when they will be full, newest datasets."""
    histories = [desk.history(each.name) for each in desk.configs()]
    rows = [
        (each.config.name, [_row(one) for one in each.datasets[-SHOWN:][::-1]], len(each.datasets))
        for each in histories
    ]
    disks = [_disk(each) for each in desk.readings().nodes]
    newest, more = await desk.artifacts(Sought(), None, SHOWN)
    told = desk.replication()
    return [
        strip(desk.status()),
        Part("copies", "parts/copies.html", _copies(told), kind="numbers"),
        Part("retention", "parts/retention.html", _retention(desk.retention())),
        Part("backlog", "parts/backlog.html", _backlog(told.backlog)),
        Part("stock", "parts/stock.html", _stock(told.stock)),
        Part("keeping", "parts/keeping.html", {"rows": [_place(each) for each in told.places]}),
        Part(
            "artifacts",
            "parts/artifacts.html",
            {"rows": [row_of(each) for each in newest], "more": more, "asked": {}},
        ),
        Part("disks", "parts/disks.html", _disks(disks, desk.nodes())),
        Part("datasets", "parts/datasets.html", {"configs": rows}),
    ]


def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Nothing that could be chosen."""
    return {"title": "Data"}


DATA = Page("data", "data.html", parts, frame)


def _copies(told: ReplicationView) -> Mapping[str, Any]:
    """All artifacts in a few figures; each says of when it is."""
    rows = () if told.stock is None else told.stock.rows
    backlog = told.backlog
    return {
        "stock_at": None if told.stock is None else told.stock.at,
        "artifacts": sum(each.artifacts for each in rows),
        "copies": sum(min(each.copies, each.possible) for each in rows),
        "possible": sum(each.possible for each in rows),
        "wanted": sum(each.wanted for each in rows),
        "at_risk": sum(each.at_risk for each in rows),
        "backlog_at": None if backlog is None else backlog.at,
        "waiting": None if backlog is None else backlog.artifacts,
        "waiting_bytes": None if backlog is None else backlog.bytes,
        "at_least": backlog is not None and backlog.at_least,
        "due_at": None if backlog is None else backlog.oldest_due_at,
    }


def _retention(view: RetentionView) -> Mapping[str, Any]:
    """What may go from the controller's own disk, and what lies in tombstones."""
    disk = view.disk
    return {
        "mode": view.mode,
        "looked_at": view.looked_at,
        "used": None if disk.used is None else round(disk.used, 3),
        "free_bytes": None if disk.free_bytes is None else float(f"{disk.free_bytes:.3g}"),
        "level": disk.level.name.lower(),
        "says": disk.says if disk.level > Level.NONE else "",
        "may_go": [(each.rule, each.why, each.files, each.bytes) for each in view.may_go],
        "stays": [(each.why, each.files, each.bytes) for each in view.stays],
        "buried_files": view.buried_files,
        "buried_bytes": view.buried_bytes,
        "next_at": view.next_at,
        "trouble": view.trouble,
    }


def _backlog(backlog: BacklogView | None) -> Mapping[str, Any]:
    return {
        "at": None if backlog is None else backlog.at,
        "artifacts": 0 if backlog is None else backlog.artifacts,
        "bytes": 0 if backlog is None else backlog.bytes,
        "at_risk": 0 if backlog is None else backlog.at_risk,
        "at_least": backlog is not None and backlog.at_least,
        "due_at": None if backlog is None else backlog.oldest_due_at,
        "shortfalls": () if backlog is None else backlog.shortfalls,
    }


def _stock(stock: StockView | None) -> Mapping[str, Any]:
    rows = [] if stock is None else [_stock_row(each) for each in stock.rows]
    return {"at": None if stock is None else stock.at, "rows": rows}


def _stock_row(row: StockRow) -> Mapping[str, Any]:
    return {
        "kind": str(row.kind),
        "standing": str(row.standing),
        "artifacts": row.artifacts,
        "bytes": row.bytes,
        "copies": row.copies,
        "possible": row.possible,
        "share": round(row.copies / row.possible, 3) if row.possible else None,
        "wanted": row.wanted,
        "short": row.short,
        "at_risk": row.at_risk,
    }


def _place(place: KeepingView) -> Mapping[str, Any]:
    return {
        "name": place.name,
        "domain": place.domain,
        "keeps": place.keeps,
        "reachable": place.reachable,
        "full": place.full,
        "trouble": place.trouble,
        "again_at": place.again_at,
        "free_bytes": None if place.free_bytes is None else float(f"{place.free_bytes:.3g}"),
        "looked_at": place.looked_at,
        "bytes_per_s": place.bytes_per_s,
        "moved_bytes": float(f"{place.moved_bytes:.2g}"),
        "copies": place.copies,
        "damaged": place.damaged,
    }


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
    ranked = sorted(disks, key=_fullness)
    return {
        "rows": ranked[:DISKS_SHOWN],
        "of": len(disks),
        "known": sum(each["used"] is not None for each in disks),
        "pressed": [(node.name, each) for node in nodes for each in node.pressures if DISK in each.signal],
    }


def _fullness(disk: Mapping[str, Any]) -> tuple[bool, float, float]:
    """One that is full by now comes before all others."""
    full_in_s, used = disk["full_in_s"], disk["used"]
    return used is None, math.inf if full_in_s is None else full_in_s, -(used or 0.0)


def _disk(node: NodeReading) -> Mapping[str, Any]:
    return {
        "node": node.name,
        "used": None if node.disk_used is None else round(node.disk_used, 3),
        "free_gb": None if node.disk_free_gb is None else float(f"{node.disk_free_gb:.3g}"),
        "full_in_s": None if node.disk_full_in_s is None else float(f"{node.disk_full_in_s:.2g}"),
        "fills": None if node.disk_full_in_s is None else node.disk_full_in_s < IN_SIGHT_S,
        "told_at": None if node.told_at is None else node.told_at // STEP_S * STEP_S,
        "backlog_s": None if node.backlog_s is None else float(f"{node.backlog_s:.2g}"),
        "games_at_risk": node.games_at_risk,
    }
