"""Job groups: submitted, listed, cancelled and tried again as one, and the results of their jobs."""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.groups import CancelGroup, GroupResult, GroupView, RetryGroup, SubmitGroup
from hostler.model.record import record
from hostler.model.views import SubmitNote
from hostler.web.answers import Name, TheDesk, answer, apart, load, read_body, tell
from hostler.web.document import body_of
from hostler.web.memory import few_searches
from hostler.web.paging import Paged, answer_page, split
from hostler.web.routing import Routes
from hostler.web.secrets import likened, protected
from hostler.web.snapshots import expect_snapshots
from hostler.web.submissions import read_group

router = Routes(tags=["groups"])

EXAMPLE = {
    "group": {"name": "lr", "max_running": 2},
    "jobs": [
        {"argv": ["echo", lr], "name": f"lr {lr}", "parameters": {"lr": lr}, "device": "cpu"} for lr in ("0.1", "0.03")
    ],
}


@record
class CancelGroupBody:
    """Why the jobs of a group are cancelled; the body may be left out."""

    reason: str = "cancelled by its owner"


@record
class RetryGroupBody:
    """Which jobs of a group are tried again; the body may be left out."""

    only_failed: bool = False
    """Whether its cancelled jobs stay as they are."""


@record
class SubmittedGroup:
    """A submitted group, and the ids of its jobs in the order of their specs."""

    group: GroupView | None
    """`None` where all jobs were known by their keys and are in no group."""
    ids: tuple[str, ...]
    known: tuple[str, ...] = ()
    """Those that were known by their keys, and stay in the groups they were in."""
    notes: tuple[SubmitNote, ...] = ()
    """Those that no device can take as the fleet is now: at most 20 reasons."""
    gpu_by_default: int = 0
    """How many of them take a GPU or wait for one, as they state no device and the fleet has GPUs."""
    with_earlier_files: tuple[str, ...] = ()
    """Those that were known by their keys and keep the files of their first submission, which were others."""


@router.get("/groups", response_model=list[GroupView])
async def list_groups(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Job groups in order of submission. `after` may be the number of any group: 3 begins behind `g3`."""
    found = desk.groups(paging.number(), paging.limit + 1)
    page, more = split(found, paging.limit, lambda group: group.id.removeprefix("g"))
    return answer_page(request, list[GroupView], page, more)


@router.post(
    "/groups", response_model=SubmittedGroup, status_code=201, openapi_extra=body_of("GroupBody", example=EXAMPLE)
)
async def submit_group(
    desk: TheDesk,
    request: Request,
    strict: Annotated[bool, Query(description="submit nothing if no device can take one of them now")] = False,
) -> Response:
    """Submit jobs as a group: all of them or, if one cannot be, none.

    Jobs may be in short form, as those of `POST /jobs`. Jobs that are known by their keys stay in their groups; where
    all are known, the answer is the newest group that one of them is in.
    """
    body = await read_body(request)
    with few_searches(body):
        group, specs = await apart(read_group, body)
        await expect_snapshots(desk, specs)
        specs = await protected(desk, specs)
        asked = SubmitGroup(spec=group, jobs=specs, strict=strict)
        name, ids, known = await tell(request, asked, like=replace(asked, jobs=await likened(specs)))
        made = SubmittedGroup(
            group=None if name is None else desk.group(name),
            ids=tuple(ids),
            known=tuple(known),
            notes=tuple(await desk.notes(ids)),
            gpu_by_default=await desk.gpu_by_default(ids),
            with_earlier_files=tuple(desk.with_earlier_files(specs, ids)),
        )
    return answer(SubmittedGroup, made, HTTPStatus.CREATED)


@router.get("/groups/{name}", response_model=GroupView)
async def show_group(desk: TheDesk, name: Name) -> Response:
    """A job group in numbers."""
    return answer(GroupView, desk.group(name))


@router.get("/groups/{name}/results", response_model=list[GroupResult])
async def list_group_results(request: Request, desk: TheDesk, paging: Paged, name: Name) -> Response:
    """The jobs of a group in order, with their parameters and results. `after` is the number of a job of it."""
    found = await desk.group_results(name, paging.number(), paging.limit + 1)
    page, more = split(found, paging.limit, lambda row: row.job.removeprefix("j"))
    return answer_page(request, list[GroupResult], page, more)


@router.post(
    "/groups/{name}/cancel", response_model=GroupView, openapi_extra=body_of("CancelGroupBody", required=False)
)
async def cancel_group(desk: TheDesk, name: Name, request: Request) -> Response:
    """Cancel all jobs of a group that have not ended; answers with the group as it stands now."""
    given = load(CancelGroupBody, await read_body(request) or b"{}")
    await tell(request, CancelGroup(group=name, reason=given.reason))
    return answer(GroupView, desk.group(name))


@router.post("/groups/{name}/retry", response_model=GroupView, openapi_extra=body_of("RetryGroupBody", required=False))
async def retry_group(desk: TheDesk, name: Name, request: Request) -> Response:
    """Try the failed and the cancelled jobs of a group again; answers with the group as it stands now."""
    given = load(RetryGroupBody, await read_body(request) or b"{}")
    await tell(request, RetryGroup(group=name, only_failed=given.only_failed))
    return answer(GroupView, desk.group(name))
