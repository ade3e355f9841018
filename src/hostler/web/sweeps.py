"""Sweeps: coverage, ledgers, their proofs, and hits."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from hostler.model.errors import NotFound
from hostler.model.record import record
from hostler.model.views import HitView, LedgerProof, LedgerView, SweepView
from hostler.web.answers import Cursor, Limit, Name, TheDesk, answer

router = APIRouter(prefix="/sweeps", tags=["sweeps"])


@record
class HitPage:
    """Some accepted hits in order of acceptance; `next` is the `after` of the page that follows, `None` on the last."""

    items: tuple[HitView, ...]
    next: str | None


@router.get("", response_model=list[SweepView])
async def list_sweeps(desk: TheDesk) -> Response:
    """All sweeps."""
    return answer(list[SweepView], desk.sweeps())


@router.get("/{name}", response_model=SweepView)
async def show_sweep(desk: TheDesk, name: Name) -> Response:
    """A sweep's coverage in numbers."""
    detail = desk.job(name)
    if detail.sweep is None:
        raise NotFound(
            f"{detail.job.id} is no sweep but a {detail.job.work} job; `hostler job {detail.job.id}` shows it"
        )
    return answer(SweepView, detail.sweep)


@router.get("/{name}/ledger", response_model=LedgerView)
async def show_ledger(desk: TheDesk, name: Name) -> Response:
    """A sweep's ledger, interval by interval."""
    return answer(LedgerView, desk.ledger(name))


@router.get("/{name}/proof", response_model=LedgerProof)
async def prove_ledger(desk: TheDesk, name: Name) -> Response:
    """A sweep's ledger folded again from the journal alone."""
    return answer(LedgerProof, await desk.proof(name))


@router.get("/{name}/hits", response_model=HitPage)
async def list_hits(desk: TheDesk, name: Name, after: Cursor = 0, limit: Limit = 100) -> Response:
    """Accepted hits in order of acceptance, a page at a time."""
    found = await desk.hits(name, after, limit + 1)
    more = str(after + limit) if len(found) > limit else None
    return answer(HitPage, HitPage(items=tuple(found[:limit]), next=more))
