"""The controller's own disk, and those of nodes: what may go, what went and can be brought back."""

from __future__ import annotations

import secrets
from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.access import LOCAL
from hostler.model.disks import CleanView, DoomedFile, FilePath, RetentionView, TombView
from hostler.model.inputs import CleanDisk, UndoDisk
from hostler.model.record import record
from hostler.web.answers import TheDesk, answer, load, owner, read_body, tell
from hostler.web.document import body_of
from hostler.web.paging import Paged, answer_page, headed
from hostler.web.routing import Routes

router = Routes(prefix="/disk", tags=["disk"])

MOST = 100
"""Files that are deleted at one request, unless it says otherwise: their copies are read first."""

NodeName = Annotated[str, Field(min_length=1, max_length=256)]
OfNode = Annotated[NodeName | None, Query(description="the node whose disk is meant; none: the controller's")]
Files = Annotated[tuple[FilePath, ...], Field(min_length=1, max_length=1000)]


@record
class CleanBody:
    """What is to be deleted."""

    files: Annotated[Files | None, Field(description="`null`: everything that may go")] = None
    most: Annotated[int, Field(ge=1, le=1000)] = MOST
    node: Annotated[NodeName | None, Field(description="`null`: the controller's disk")] = None
    who: Annotated[str, Field(min_length=1, max_length=256)] | None = None


@record
class UndoBody:
    """What is to be brought back."""

    files: Annotated[Files | None, Field(description="`null`: everything that is buried")] = None
    who: Annotated[str, Field(min_length=1, max_length=256)] | None = None


@router.get("", response_model=RetentionView)
async def show_disk(desk: TheDesk, node: OfNode = None) -> Response:
    """How full the disk is, what may go from it and what stays, as of when it was looked through last."""
    return answer(RetentionView, desk.retention(node))


@router.get("/plan", response_model=list[DoomedFile])
async def plan_cleaning(request: Request, desk: TheDesk, paging: Paged, node: OfNode = None) -> Response:
    """Every file that may go, in the order in which it would, with its rule and its proof.

    The first page looks through the disk, which may take seconds; the others go on from there.
    """
    found = await desk.doomed(paging.limit + 1, paging.anchors(), fresh=paging.after is None, node=node)
    return answer_page(request, list[DoomedFile], *headed(found, paging.limit, lambda each: each.path))


@router.get("/tombstones", response_model=list[TombView])
async def list_tombstones(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Files that were deleted and can be brought back, the oldest first."""
    found = desk.tombs(paging.limit + 1, paging.anchors())
    return answer_page(request, list[TombView], *headed(found, paging.limit, lambda each: f"{each.path} {each.until}"))


@router.post("/clean", response_model=CleanView, openapi_extra=body_of("CleanBody", required=False))
async def clean_disk(desk: TheDesk, request: Request) -> Response:
    """Delete what may go, at most `most` files of it: move it into a tombstone. Copies are read before.

    Of a node artifacts are removed at once: they have their copies, and are sent again when work needs them there.
    """
    given = load(CleanBody, await read_body(request) or b"{}")
    ask = secrets.token_hex(8)
    known = await tell(request, CleanDisk(id=ask, files=given.files, most=given.most, node=given.node), like=given)
    if known != ask:
        return answer(CleanView, desk.cleaned(known))
    who = owner(request, given.who) or LOCAL
    return answer(CleanView, await desk.clean_disk(ask, who, given.files, given.most, given.node))


@router.post("/undo", response_model=CleanView, openapi_extra=body_of("UndoBody", required=False))
async def undo_cleaning(desk: TheDesk, request: Request) -> Response:
    """Bring files back from their tombstones to where they were."""
    given = load(UndoBody, await read_body(request) or b"{}")
    ask = secrets.token_hex(8)
    known = await tell(request, UndoDisk(id=ask, files=given.files), like=given)
    if known != ask:
        return answer(CleanView, desk.cleaned(known))
    return answer(CleanView, await desk.undo_cleaning(ask, owner(request, given.who) or LOCAL, given.files))
