"""Jobs and the output of their attempts."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.access import LOCAL
from hostler.model.errors import NotFound
from hostler.model.events import Entry
from hostler.model.inputs import Cancel, Retry, SetPriority, Submit
from hostler.model.listed import JobMatch
from hostler.model.record import record
from hostler.model.views import Explanation, JobDetail, JobView, Output, SubmitNote
from hostler.model.work import NAME_MAX, JobState, Priority
from hostler.web.answers import MAX_PAGE, NO_NUL, Name, TheDesk, answer, apart, load, owner_of_caller, read_body, tell
from hostler.web.document import body_of
from hostler.web.memory import few_searches
from hostler.web.paging import Paged, answer_page, split
from hostler.web.routing import Routes
from hostler.web.secrets import likened, protected
from hostler.web.snapshots import expect_snapshots
from hostler.web.submissions import read_jobs

router = Routes(tags=["jobs"])

MAX_LOG_BYTES = 1 << 20
OFFSET_MAX = 1 << 53
ATTEMPT = re.compile(r"[A-Za-z0-9_-]{1,100}\.[0-9]{1,18}")
"""What names of attempts look like. Where output is kept they are names of folders: nothing else may reach there."""
EXAMPLE = [{"argv": ["python", "-c", "print(6 * 7)"], "gpus": 1, "walltime_s": 60}]
LOG_CONTENT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {}}, "description": "The bytes, as the process wrote them"}
}


@record
class Submitted:
    """Ids of submitted jobs, in the order of their specs."""

    ids: tuple[str, ...]
    notes: tuple[SubmitNote, ...] = ()
    """Those that no device can take as the fleet is now: at most 20 reasons."""
    gpu_by_default: int = 0
    """How many of them take a GPU or wait for one, as they state no device and the fleet has GPUs."""
    with_earlier_files: tuple[str, ...] = ()
    """Those that were known by their keys and keep the files of their first submission, which were others."""


@record
class CancelBody:
    """Why a job is cancelled; the body may be left out."""

    reason: str = "cancelled by its owner"


@record
class PriorityBody:
    """The new rank; higher goes first."""

    priority: Priority


@router.get("/jobs", response_model=list[JobView])
async def list_jobs(
    request: Request,
    desk: TheDesk,
    paging: Paged,
    state: Annotated[list[JobState] | None, Query(description="repeat for several; none takes all")] = None,
    name: Annotated[
        list[str] | None,
        Query(max_length=MAX_PAGE, description="only the jobs of these ids, keys or unique names; repeat for several"),
    ] = None,
    group: Annotated[
        str | None, Query(max_length=NAME_MAX, pattern=NO_NUL, description="only jobs of the group of this id")
    ] = None,
    node: Annotated[
        str | None, Query(max_length=NAME_MAX, pattern=NO_NUL, description="only jobs that run or ran last on it")
    ] = None,
    called: Annotated[
        str | None,
        Query(
            max_length=NAME_MAX,
            pattern=NO_NUL,
            description="only jobs whose name fits a shell-style pattern: `train*`",
        ),
    ] = None,
    owner: Annotated[
        str | None, Query(max_length=NAME_MAX, pattern=NO_NUL, description="only jobs that belong to this person")
    ] = None,
    mine: Annotated[bool, Query(description="only jobs that belong to the owner of the token")] = False,
) -> Response:
    """Jobs in order of submission. `after` may be the number of any job: 17 begins behind `j17`.

    With `name` the answer has one row for each name, in the order of the names, on one page whatever `limit` says.
    """
    person = (owner_of_caller(request) or LOCAL) if mine else owner
    match = JobMatch(group=group, node=node, called=called, owner=person)
    if name is not None:
        named = [each for each in await desk.named(name) if match.fits(each) and (not state or each.state in state)]
        return answer_page(request, list[JobView], named, None)
    found = await desk.all_jobs(frozenset(state) if state else None, paging.number(), paging.limit + 1, match=match)
    page, more = split(found, paging.limit, lambda job: job.id.removeprefix("j"))
    return answer_page(request, list[JobView], page, more)


@router.post(
    "/jobs",
    response_model=Submitted,
    status_code=201,
    openapi_extra=body_of("JobSpec", "ShortJob", many=True, example=EXAMPLE),
)
async def submit_jobs(
    desk: TheDesk,
    request: Request,
    strict: Annotated[bool, Query(description="submit nothing if no device can take one of them now")] = False,
) -> Response:
    """Submit jobs: all of them or, if one cannot be, none. A known key with an equal spec is the job it was.

    A job without a `payload` is in the short form of jobs files. There, the name is the command unless it is given,
    the key is not taken from the name, and a job starts in a folder of its own or from a `snapshot`: the controller
    reads no path of the client's machine.
    """
    body = await read_body(request)
    with few_searches(body):
        specs = await apart(read_jobs, body)
        await expect_snapshots(desk, specs)
        specs = await protected(desk, specs)
        like = Submit(specs=await likened(specs), strict=strict)
        ids = await tell(request, Submit(specs=specs, strict=strict), like=like)
        made = Submitted(
            ids=tuple(ids),
            notes=tuple(await desk.notes(ids)),
            gpu_by_default=await desk.gpu_by_default(ids),
            with_earlier_files=tuple(desk.with_earlier_files(specs, ids)),
        )
    return answer(Submitted, made, HTTPStatus.CREATED)


@router.get("/jobs/{name}", response_model=JobDetail)
async def show_job(desk: TheDesk, name: Name) -> Response:
    """Everything about one job but its story."""
    return answer(JobDetail, (await desk.having(name)).job())


@router.get("/jobs/{name}/story", response_model=list[Entry])
async def tell_story(request: Request, desk: TheDesk, paging: Paged, name: Name) -> Response:
    """What happened to a job: its entries in the journal, the oldest first."""
    after = paging.number()
    found = [entry for entry in await desk.story(name) if entry.seq > after]
    page, more = split(found, paging.limit, lambda entry: entry.seq)
    return answer_page(request, list[Entry], page, more)


@router.get("/jobs/{name}/explain", response_model=Explanation)
async def explain_job(desk: TheDesk, name: Name) -> Response:
    """Why a job waits, or why it runs where it runs, per device."""
    return answer(Explanation, (await desk.having(name)).explain())


@router.post("/jobs/{name}/cancel", response_model=JobView, openapi_extra=body_of("CancelBody", required=False))
async def cancel_job(desk: TheDesk, name: Name, request: Request) -> Response:
    """End a job at whatever point it is; answers with the job as it stands now."""
    given = load(CancelBody, await read_body(request) or b"{}")
    await tell(request, Cancel(job=name, reason=given.reason))
    return answer(JobView, (await desk.having(name)).job().job)


@router.post("/jobs/{name}/retry", response_model=JobView)
async def retry_job(desk: TheDesk, name: Name, request: Request) -> Response:
    """Try a failed or cancelled job again, with fresh budgets; what failed because of it is revived too."""
    await tell(request, Retry(job=name))
    return answer(JobView, (await desk.having(name)).job().job)


@router.post("/jobs/{name}/priority", response_model=JobView, openapi_extra=body_of("PriorityBody"))
async def rank_job(desk: TheDesk, name: Name, request: Request) -> Response:
    """Give a job another priority."""
    given = load(PriorityBody, await read_body(request))
    await tell(request, SetPriority(job=name, priority=given.priority))
    return answer(JobView, (await desk.having(name)).job().job)


@router.get("/attempts/{attempt}/log", response_class=Response, responses=LOG_CONTENT)
async def read_log(
    desk: TheDesk,
    attempt: Name,
    stream: Literal["out", "err", "setup"] = "out",
    offset: Annotated[
        int,
        Query(ge=-OFFSET_MAX, le=OFFSET_MAX, description="bytes ever written before it; below 0: from the end"),
    ] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_LOG_BYTES)] = 1 << 16,
) -> Response:
    """A piece of what an attempt wrote, as bytes; `setup` is what was printed before its process began.

    `Hostler-Log-Offset` tells where the piece begins (beyond `offset` where older output was dropped),
    `Hostler-Log-Size` how many bytes were ever written, `Hostler-Log-Ended` whether there will be no more.
    """
    if not ATTEMPT.fullmatch(attempt):
        raise NotFound(f"there is no attempt {attempt[:100]!r}; `hostler job show ID` names the attempts of a job")
    piece = await desk.log(attempt, stream, offset, limit)
    headers = {
        "Hostler-Log-Offset": str(piece.offset),
        "Hostler-Log-Size": str(piece.size),
        "Hostler-Log-Ended": str(piece.ended).lower(),
    }
    return Response(piece.data, headers=headers, media_type="application/octet-stream")


@router.get("/attempts/{attempt}/output", response_model=Output)
async def read_output(
    desk: TheDesk,
    attempt: Name,
    out: Annotated[int, Query(ge=0, le=OFFSET_MAX, description="bytes of `out` ever written before it")] = 0,
    err: Annotated[int, Query(ge=0, le=OFFSET_MAX, description="bytes of `err` ever written before it")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_LOG_BYTES)] = 1 << 16,
) -> Response:
    """A piece of both streams of an attempt, in the order in which they were written.

    The next piece begins where this one ends: at `out` and `err` plus what it has of each. It is the last one when
    `ended` is true and both streams are told up to their sizes. `seen_at` is set where the node of the attempt cannot
    be reached: then the piece is from the newest part of what the node had told by that time.
    """
    if not ATTEMPT.fullmatch(attempt):
        raise NotFound(f"there is no attempt {attempt[:100]!r}; `hostler job show ID` names the attempts of a job")
    return answer(Output, await desk.output(attempt, out, err, limit))
