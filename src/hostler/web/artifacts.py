"""Artifacts: what there is, where copies lie, what came of what, their bytes; and how far replication has come."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from hostler.model.artifact_views import (
    ArtifactDetail,
    ArtifactRead,
    ArtifactView,
    LineageView,
    ReplicationView,
    Sought,
)
from hostler.model.artifacts import ArtifactKind, Standing
from hostler.model.inputs import ReadCopies
from hostler.model.record import record
from hostler.web.answers import Name, TheDesk, answer, load, read_body, tell
from hostler.web.document import body_of
from hostler.web.paging import Paged, answer_page, cursor
from hostler.web.routing import Routes

router = Routes(tags=["artifacts"])

DEPTH_MOST = 10
KIN_MOST = 500
CONTENT: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/octet-stream": {}},
        "description": "All bytes. Where their hash is wrong after all, the connection ends before the last of them",
    }
}


@record
class VerifyBody:
    """Which copies are read again; the body may be left out."""

    place: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Only that in this place."""


@router.get("/artifacts", response_model=list[ArtifactView])
async def list_artifacts(
    request: Request,
    desk: TheDesk,
    paging: Paged,
    kind: Annotated[ArtifactKind | None, Query(description="only these")] = None,
    config: Annotated[str | None, Query(max_length=200, description="only those of this training config")] = None,
    standing: Annotated[Standing | None, Query(description="only those that are worth this now")] = None,
    place: Annotated[str | None, Query(max_length=200, description="only those with a copy noted there")] = None,
    short: Annotated[bool, Query(description="only those with fewer copies than there should and could be")] = False,
) -> Response:
    """Artifacts, newest first. A page may come short, or empty, and lead to another: `Link` says so."""
    anchors = paging.anchors()
    sought = Sought(kind=kind, config=config, standing=standing, place=place, short=short)
    page, more = await desk.artifacts(sought, anchors[-1] if anchors else None, paging.limit)
    return answer_page(request, list[ArtifactView], page, None if more is None else cursor([more]))


@router.get("/artifacts/{name}", response_model=ArtifactDetail)
async def show_artifact(desk: TheDesk, name: Name) -> Response:
    """Everything about one artifact; its SHA-256, or a beginning of it that no other has, is its name."""
    return answer(ArtifactDetail, await desk.artifact(name))


@router.get("/artifacts/{name}/lineage", response_model=LineageView)
async def tell_lineage(
    desk: TheDesk,
    name: Name,
    depth: Annotated[int, Query(ge=1, le=DEPTH_MOST, description="steps in each direction")] = 3,
    limit: Annotated[int, Query(ge=1, le=KIN_MOST, description="artifacts in each direction")] = 100,
) -> Response:
    """What an artifact was made from, and what was made from it; what is left out is counted."""
    return answer(LineageView, await desk.lineage(name, depth, limit))


@router.get("/artifacts/{name}/content", response_class=Response, responses=CONTENT)
async def read_content(desk: TheDesk, name: Name) -> Response:
    """The bytes of an artifact, from the controller's own store or wherever they are; their hash is compared.

    A wrong byte never makes a good answer: the connection ends before the last bytes, of small ones the answer is an
    error. `Hostler-SHA256` is what to compare with.
    """
    content = await desk.content(name)
    headers = {
        "Content-Length": str(content.size),
        "Content-Disposition": f'attachment; filename="{content.file}"',
        "Hostler-SHA256": content.sha256,
    }
    return StreamingResponse(content.pieces, headers=headers, media_type="application/octet-stream")


@router.post(
    "/artifacts/{name}/verify", response_model=ArtifactRead, openapi_extra=body_of("VerifyBody", required=False)
)
async def verify_artifact(desk: TheDesk, name: Name, request: Request) -> Response:
    """Read all copies of an artifact again, or the one in a place, and compare their hashes; it takes as long as that.

    What is found is on record when this answers; what is damaged was set aside and is replaced. Asked again under its
    idempotency key, it reads those that were not read since it was asked for first.
    """
    given = load(VerifyBody, await read_body(request) or b"{}")
    artifact = (await desk.artifact(name)).artifact
    asked_at = await tell(request, ReadCopies(artifact=artifact.sha256, place=given.place))
    return answer(ArtifactRead, await desk.verify(artifact.sha256, given.place, asked_at))


@router.get("/replication", response_model=ReplicationView)
async def show_replication(desk: TheDesk) -> Response:
    """How far replication has come: what lacks copies and why, what there is, how places are. Each with its time."""
    return answer(ReplicationView, desk.replication())
