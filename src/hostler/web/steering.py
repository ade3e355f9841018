"""How the fleet is steered: shares, learnt durations, costs, and what is held back."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.steering import CostView, Durations, QuotaView
from hostler.model.views import BanKind, BanView
from hostler.web.answers import TheDesk, answer
from hostler.web.paging import Paged, answer_page, cut
from hostler.web.routing import Routes

router = Routes(tags=["steering"])


@router.get("/quotas", response_model=QuotaView)
async def show_quotas(desk: TheDesk) -> Response:
    """Shares of device time, target against achieved: by tier, quota and config, and by work kind."""
    return answer(QuotaView, desk.quotas())


@router.get("/durations", response_model=Durations)
async def show_durations(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Learnt durations by family of jobs and model of device, a page of `rows`; and how good predictions were."""
    view = desk.durations()
    rows, more = cut(view.rows, paging, lambda each: f"{each.work} {each.model} {each.family}")
    return answer_page(request, Durations, replace(view, rows=tuple(rows)), more)


@router.get("/costs", response_model=CostView)
async def show_costs(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """What work that is over has used up: device time, money, and both for each unit; a page of `rows`."""
    view = desk.costs()
    rows, more = cut(view.rows, paging, lambda each: f"{each.work} {each.of}")
    return answer_page(request, CostView, replace(view, rows=tuple(rows)), more)


@router.get("/bans", response_model=list[BanView])
async def list_bans(
    request: Request,
    desk: TheDesk,
    paging: Paged,
    kind: Annotated[list[BanKind] | None, Query(description="repeat for several; none takes all")] = None,
) -> Response:
    """Everything that is held back or put first for a while, pauses too: by whom, why, until when."""
    found = [each for each in desk.bans() if not kind or each.kind in kind]
    return answer_page(request, list[BanView], *cut(found, paging, lambda each: f"{each.kind} {each.what} {each.of}"))
