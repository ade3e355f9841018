"""How the fleet is steered: shares, learnt durations, costs, how devices were used, and what is held back."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from fastapi import Query
from pydantic import AfterValidator
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.errors import UsageError
from hostler.model.steering import CostView, Durations, QuotaView
from hostler.model.usage import Dimension, Period, UsageAsked, UsageView, name_of
from hostler.model.views import BanKind, BanView
from hostler.model.work import WorkKind
from hostler.web.answers import TheDesk, answer
from hostler.web.paging import Paged, answer_page, cut, headed
from hostler.web.routing import Routes

router = Routes(tags=["steering"])

LATEST = 1e11
"""Unix seconds; what is later is a mistake, milliseconds as often as not."""
Since = Annotated[
    float | None, Query(ge=0, le=LATEST, description="Unix seconds in the first period; by default some while ago")
]
Until = Annotated[
    float | None, Query(ge=0, le=LATEST, description="Unix seconds: periods that begin before; by default now")
]


def _name(given: str | None) -> str | None:
    """No database takes such a text, nor is anything called so."""
    if given is not None and "\0" in given:
        raise ValueError("it has a NUL character, which no name has")
    return given


Only = Annotated[
    str | None, Query(min_length=1, max_length=512, description="only what is called so"), AfterValidator(_name)
]


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


@router.get("/usage", response_model=list[UsageView])
async def list_usage(
    request: Request,
    desk: TheDesk,
    paging: Paged,
    per: Annotated[Period, Query(description="what hours are summed up to; of UTC, weeks from Monday on")] = Period.DAY,
    by: Annotated[list[Dimension] | None, Query(description="repeat for several; none: all in one")] = None,
    since: Since = None,
    until: Until = None,
    node: Only = None,
    device: Only = None,
    model: Only = None,
    pool: Only = None,
    provider: Only = None,
    work: Annotated[WorkKind | Literal["idle"] | None, Query(description="a kind of work, or `idle`: none")] = None,
) -> Response:
    """How devices were used in each period, the oldest first: device time, how busy they were, cost, what was done.

    Kept by the hour, for a year unless the fleet file says otherwise (`journal.keep_usage_s`); the present hour is told
    as far as it has come. A group without anything in a period has no row there.
    """
    named = {"node": node, "device": device, "model": model, "pool": pool, "provider": provider, "work": work}
    if by is not None and len(set(by)) < len(by):
        raise UsageError(f"`by` names {', '.join(by)}; name each once")
    only = {name: str(value) for name, value in named.items() if value is not None}
    asked = UsageAsked(per=per, by=tuple(by or ()), since=since, until=until, only=only)  # type: ignore[arg-type]
    found = await desk.usage(asked, paging.limit + 1, paging.anchors())
    return answer_page(request, list[UsageView], *headed(found, paging.limit, name_of))


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
