"""How the fleet is steered: shares, learnt durations, costs, and what is held back."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from hostler.model.steering import CostView, Durations, QuotaView
from hostler.model.views import BanView
from hostler.web.answers import TheDesk, answer

router = APIRouter(tags=["steering"])


@router.get("/quotas", response_model=QuotaView)
async def show_quotas(desk: TheDesk) -> Response:
    """Shares of device time, target against achieved: by tier, quota and config, and by work kind."""
    return answer(QuotaView, desk.quotas())


@router.get("/durations", response_model=Durations)
async def show_durations(desk: TheDesk) -> Response:
    """Learnt durations by family of jobs and model of device, and how good predictions were."""
    return answer(Durations, desk.durations())


@router.get("/costs", response_model=CostView)
async def show_costs(desk: TheDesk) -> Response:
    """What work that is over has used up: device time, money, and both for each unit of what was made."""
    return answer(CostView, desk.costs())


@router.get("/bans", response_model=list[BanView])
async def list_bans(desk: TheDesk) -> Response:
    """Everything that is held back or put first for a while: by whom, why, until when."""
    return answer(list[BanView], desk.bans())
