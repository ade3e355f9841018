"""The fleet as a whole: numbers, the queue, nodes, and the controller itself."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import Response

from hostler.model.record import record
from hostler.model.views import DeviceExplanation, NodeView, QueueRow, Status
from hostler.web.answers import Limit, Name, TheDesk, answer

router = APIRouter(tags=["fleet"])


@record
class Draining:
    """The controller starts nothing more and will leave; what runs on nodes runs on."""

    draining: bool


@router.get("/status", response_model=Status)
async def show_status(desk: TheDesk) -> Response:
    """The fleet in numbers; costs the same for ten jobs and for a hundred thousand."""
    return answer(Status, desk.status())


@router.get("/queue", response_model=list[QueueRow])
async def show_queue(desk: TheDesk, limit: Limit = 100) -> Response:
    """What goes next, in order."""
    return answer(list[QueueRow], desk.queue(limit))


@router.get("/nodes", response_model=list[NodeView])
async def list_nodes(desk: TheDesk) -> Response:
    """All nodes with their devices."""
    return answer(list[NodeView], desk.nodes())


@router.get("/devices/{name}/explain", response_model=DeviceExplanation)
async def explain_device(desk: TheDesk, name: Name) -> Response:
    """Why a device does what it does, or nothing. Its id holds a slash, written `%2F`."""
    return answer(DeviceExplanation, desk.explain_device(name))


@router.post("/controller/drain", response_model=Draining, status_code=202)
async def drain(desk: TheDesk) -> Response:
    """Stop the controller gently, as SIGTERM does."""
    desk.drain()
    return answer(Draining, Draining(draining=True), HTTPStatus.ACCEPTED)
