"""Sweeps: coverage, ledgers, their proofs, and hits."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.errors import NotFound, UsageError
from hostler.model.listed import IntervalView
from hostler.model.views import HitView, LedgerProof, LedgerView, SweepView
from hostler.web.answers import Name, TheDesk, answer
from hostler.web.paging import Paged, answer_page, split
from hostler.web.routing import Routes

router = Routes(prefix="/sweeps", tags=["sweeps"])


WHOLE = re.compile(r"-?[0-9]{1,4000}")
"""Items are numbers of any size."""


@router.get("", response_model=list[SweepView])
async def list_sweeps(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Sweeps in order of submission."""
    found = await desk.all_sweeps(paging.number(), paging.limit + 1)
    page, more = split(found, paging.limit, lambda each: each.job.removeprefix("j"))
    return answer_page(request, list[SweepView], page, more)


@router.get("/{name}", response_model=SweepView)
async def show_sweep(desk: TheDesk, name: Name) -> Response:
    """A sweep's coverage in numbers."""
    detail = (await desk.having(name)).job()
    if detail.sweep is None:
        raise NotFound(
            f"{detail.job.id} is no sweep but a {detail.job.work} job; `hostler job show {detail.job.id}` shows it"
        )
    return answer(SweepView, detail.sweep)


@router.get("/{name}/ledger", response_model=LedgerView)
async def show_ledger(desk: TheDesk, name: Name) -> Response:
    """A sweep's ledger at once, interval by interval; `intervals` tells it in pages."""
    return answer(LedgerView, (await desk.having(name)).ledger())


@router.get("/{name}/intervals", response_model=list[IntervalView])
async def list_intervals(
    request: Request,
    desk: TheDesk,
    paging: Paged,
    name: Name,
    standing: Annotated[
        list[Literal["done", "free", "leased"]] | None, Query(description="repeat for several; none takes all")
    ] = None,
) -> Response:
    """A sweep's range from its beginning to its end, in parts that are done, leased or free; free ones are holes."""
    begin = None if paging.after is None else _item(paging.after)
    seen = await desk.having(name)
    found = seen.intervals(frozenset(standing) if standing else None, begin, paging.limit + 1)
    page, more = split(found, paging.limit, lambda each: each.start)
    return answer_page(request, list[IntervalView], page, more)


@router.get("/{name}/proof", response_model=LedgerProof)
async def prove_ledger(desk: TheDesk, name: Name) -> Response:
    """A sweep's ledger folded again from the journal alone."""
    return answer(LedgerProof, await desk.proof(name))


@router.get("/{name}/hits", response_model=list[HitView])
async def list_hits(request: Request, desk: TheDesk, paging: Paged, name: Name) -> Response:
    """Accepted hits in order of acceptance. `after` may be any number: 17 begins behind the 17th.

    A page of large hits has fewer than `limit`, and a next page.
    """
    after = paging.number()
    found = await desk.hits(name, after, paging.limit)
    end = after + len(found)
    has_more = bool(found) and bool(await desk.hits(name, end, 1))
    return answer_page(request, list[HitView], found, str(end) if has_more else None)


def _item(text: str) -> int:
    if not WHOLE.fullmatch(text):
        raise UsageError(
            f"`after` is no cursor of this list: {text[:60]!r}; take it from the `Link` of the page before"
        )
    return int(text)
