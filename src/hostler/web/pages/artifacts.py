"""Artifacts: lists of them, and one with its copies and what it came of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from hostler.model.artifact_views import ArtifactDetail, ArtifactView, Kin, Sought
from hostler.model.artifacts import ArtifactKind, Standing
from hostler.web.desk import Desk
from hostler.web.pages.part import Page, Part, Subject
from hostler.web.pages.strip import strip

LISTED = 50
DEPTH = 3
KIN = 40

Word = TypeVar("Word", ArtifactKind, Standing)


async def list_parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """Those that are asked for, the newest first."""
    sought = _sought(subject)
    rows, more = await desk.artifacts(sought, subject.get("after"), LISTED)
    asked = {key: value for key, value in subject.query.items() if key != "after" and value}
    shown = {"rows": [row_of(each) for each in rows], "more": more, "asked": asked}
    return [strip(desk.status()), Part("artifacts", "parts/artifacts.html", shown)]


def list_frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """What can be chosen."""
    return {
        "title": "Artifacts",
        "kinds": [str(each) for each in ArtifactKind],
        "standings": [str(each) for each in Standing],
        "places": [each.name for each in desk.replication().places],
    }


async def parts(desk: Desk, subject: Subject) -> Sequence[Part]:
    """One artifact: what it is, its copies, what it came of and what of it."""
    detail = await desk.artifact(subject.name or "")
    view = await desk.lineage(detail.artifact.sha256, DEPTH, KIN)
    lineage = {
        "parents": [_kin(each) for each in view.parents],
        "children": [_kin(each) for each in view.children],
        "parents_further": view.parents_further,
        "children_further": view.children_further,
        "depth": DEPTH,
    }
    return [
        strip(desk.status()),
        Part("head", "parts/artifact_head.html", _head(detail)),
        Part("places", "parts/artifact_places.html", row_of(detail.artifact)),
        Part("lineage", "parts/lineage.html", lineage),
    ]


async def frame(desk: Desk, subject: Subject) -> Mapping[str, Any]:
    """Which artifact it is."""
    artifact = (await desk.artifact(subject.name or "")).artifact
    return {"title": f"{artifact.kind} {artifact.sha256[:12]}", "sha256": artifact.sha256}


ARTIFACTS = Page("artifacts", "artifacts.html", list_parts, list_frame)
ARTIFACT = Page("artifact", "artifact.html", parts, frame)


def row_of(view: ArtifactView) -> Mapping[str, Any]:
    """An artifact in a row."""
    return {
        "sha256": view.sha256,
        "kind": str(view.kind),
        "standing": str(view.standing),
        "bytes": view.bytes,
        "config": view.config,
        "job": view.job,
        "made_at": view.made_at,
        "counted": view.counted,
        "wanted": view.wanted,
        "why": view.why,
        "copies": [
            {
                "place": each.place,
                "domain": each.domain,
                "verified_at": each.verified_at,
                "damaged": each.damaged,
                "counts": each.counts,
            }
            for each in view.copies
        ],
    }


def _head(detail: ArtifactDetail) -> Mapping[str, Any]:
    return {
        **row_of(detail.artifact),
        "games": detail.artifact.games,
        "attempt": detail.attempt,
        "exported": detail.exported,
        "missing": detail.missing,
        "missing_domains": detail.missing_domains,
        "wanted_domains": detail.artifact.wanted_domains,
    }


def _kin(each: Kin) -> Mapping[str, Any]:
    return {
        "sha256": each.sha256,
        "depth": each.depth,
        "via": each.via,
        "kind": None if each.kind is None else str(each.kind),
        "standing": None if each.standing is None else str(each.standing),
        "bytes": each.bytes,
        "config": each.config,
        "job": each.job,
        "made_at": each.made_at,
        "further": each.further,
    }


def _sought(subject: Subject) -> Sought:
    """What is asked for; words that say nothing are as if they were not there."""
    return Sought(
        kind=_one_of(ArtifactKind, subject.get("kind")),
        config=subject.get("config"),
        standing=_one_of(Standing, subject.get("standing")),
        place=subject.get("place"),
        short=subject.get("short") is not None,
    )


def _one_of(words: type[Word], word: str | None) -> Word | None:
    return words(word) if word in {str(each) for each in words} else None
