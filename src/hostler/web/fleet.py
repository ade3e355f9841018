"""The fleet as a whole: numbers, the queue, nodes, and the controller itself."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, TypeAlias

from fastapi import Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from hostler.model.inputs import CordonDevice, CordonNode, Drain, ResumeDevice, ResumeNode
from hostler.model.listed import FleetView, PlacedDevice
from hostler.model.record import record
from hostler.model.views import DeviceExplanation, NodeView, QueueRow, Status
from hostler.web.answers import Name, TheDesk, answer, load, owner, read_body, tell
from hostler.web.desk import Desk
from hostler.web.document import body_of
from hostler.web.paging import Paged, answer_page, cut, headed
from hostler.web.routing import Routes

router = Routes(tags=["fleet"])
by_hand = Routes(in_document=False)
"""What people ask for without a prefix."""

Words: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000)]


@record
class Draining:
    """The controller starts nothing more and will leave; what runs on nodes runs on."""

    draining: bool


@record
class CordonBody:
    """Why a node is given nothing new, and who says so; the body may be left out."""

    why: Words | None = None
    who: Words | None = None


@record
class DrainBody:
    """The same, and whether what runs there is asked to go."""

    why: Words | None = None
    who: Words | None = None
    now: Annotated[bool, Field(strict=True)] = False


@record
class ResumeBody:
    """Who says that a node is given work again; the body may be left out."""

    who: Words | None = None


LONGEST_CORDON_S = 366 * 86_400.0
Span: TypeAlias = Annotated[float, Field(gt=0, le=LONGEST_CORDON_S)]


@record
class DeviceCordonBody:
    """Why a device is given nothing new, who wants that, and for how many seconds; the body may be left out."""

    why: Words | None = None
    who: Words | None = None
    for_s: Span | None = None


@by_hand.get("/status", response_model=Status)
@router.get("/status", response_model=Status)
async def show_status(desk: TheDesk) -> Response:
    """The fleet in numbers, as the journal has it; costs the same for ten jobs and for a hundred thousand."""
    return answer(Status, await desk.durable_status())


@router.get("/queue", response_model=list[QueueRow])
async def show_queue(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """What goes next, in order. What changes its place between two pages may be told twice, or not at all."""
    found = desk.queue(paging.limit + 1, paging.anchors())
    return answer_page(request, list[QueueRow], *headed(found, paging.limit, lambda row: row.job))


@router.get("/fleet", response_model=FleetView)
async def show_fleet(desk: TheDesk) -> Response:
    """The fleet as a whole: totals by provider and tier, and what it achieves now and in a day."""
    return answer(FleetView, desk.fleet())


@router.get("/nodes", response_model=list[NodeView])
async def list_nodes(request: Request, desk: TheDesk, paging: Paged) -> Response:
    """Nodes with their devices."""
    names, more = cut(desk.node_names(), paging, str)
    return answer_page(request, list[NodeView], desk.nodes(names), more)


@router.get("/nodes/{name}", response_model=NodeView)
async def show_node(desk: TheDesk, name: Name) -> Response:
    """One node with its devices."""
    return answer(NodeView, _node(desk, name))


@router.post("/nodes/{name}/cordon", response_model=NodeView, openapi_extra=body_of("CordonBody", required=False))
async def cordon_node(desk: TheDesk, name: Name, request: Request) -> Response:
    """Put nothing new on a node; what runs there runs on. Once more does no harm."""
    given = load(CordonBody, await read_body(request) or b"{}")
    await tell(request, CordonNode(node=name, why=given.why, who=owner(request, given.who)))
    return answer(NodeView, _node(desk, name))


@router.post("/nodes/{name}/drain", response_model=NodeView, openapi_extra=body_of("DrainBody", required=False))
async def drain_node(desk: TheDesk, name: Name, request: Request) -> Response:
    """Put nothing new on a node, and tell when it is empty; with `now`, ask what runs there to go."""
    given = load(DrainBody, await read_body(request) or b"{}")
    await tell(request, CordonNode(node=name, why=given.why, who=owner(request, given.who), drain=True, now=given.now))
    return answer(NodeView, _node(desk, name))


@router.post("/nodes/{name}/resume", response_model=NodeView, openapi_extra=body_of("ResumeBody", required=False))
async def resume_node(desk: TheDesk, name: Name, request: Request) -> Response:
    """Put work on a node again; one that takes work anyway stays as it is."""
    given = load(ResumeBody, await read_body(request) or b"{}")
    await tell(request, ResumeNode(node=name, who=owner(request, given.who)))
    return answer(NodeView, _node(desk, name))


@router.get("/devices", response_model=list[PlacedDevice])
async def list_devices(
    request: Request,
    desk: TheDesk,
    paging: Paged,
    node: Annotated[str | None, Query(description="only those of this node")] = None,
    provider: Annotated[str | None, Query(description="only those that this provider rents out")] = None,
    tier: Annotated[int | None, Query(ge=1, le=3, description="only those of nodes of this tier")] = None,
) -> Response:
    """Devices: what each does, how it is, and what goes for its node."""
    ids, more = cut(desk.device_ids(node, provider, tier), paging, str)
    return answer_page(request, list[PlacedDevice], desk.devices(ids), more)


@router.get("/devices/{name}", response_model=PlacedDevice)
async def show_device(desk: TheDesk, name: Name) -> Response:
    """One device. Its id holds a slash, written `%2F`."""
    (device,) = desk.devices([name])
    return answer(PlacedDevice, device)


@router.post(
    "/devices/{name}/cordon", response_model=PlacedDevice, openapi_extra=body_of("DeviceCordonBody", required=False)
)
async def cordon_device(desk: TheDesk, name: Name, request: Request) -> Response:
    """Put nothing new on a device, for some time or until it is resumed; what runs there runs on."""
    return await _cordoned(desk, name, request, drain=False)


@router.post(
    "/devices/{name}/drain", response_model=PlacedDevice, openapi_extra=body_of("DeviceCordonBody", required=False)
)
async def drain_device(desk: TheDesk, name: Name, request: Request) -> Response:
    """Put nothing new on a device, and record when it is empty."""
    return await _cordoned(desk, name, request, drain=True)


@router.post("/devices/{name}/resume", response_model=PlacedDevice, openapi_extra=body_of("ResumeBody", required=False))
async def resume_device(desk: TheDesk, name: Name, request: Request) -> Response:
    """Put work on a device again; one that is not cordoned stays as it is."""
    given = load(ResumeBody, await read_body(request) or b"{}")
    await tell(request, ResumeDevice(device=name, who=owner(request, given.who)))
    (device,) = desk.devices([name])
    return answer(PlacedDevice, device)


@router.get("/devices/{name}/explain", response_model=DeviceExplanation)
async def explain_device(desk: TheDesk, name: Name) -> Response:
    """Why a device does what it does, or nothing. Its id holds a slash, written `%2F`."""
    return answer(DeviceExplanation, desk.explain_device(name))


@router.post("/controller/drain", response_model=Draining, status_code=202)
async def drain(desk: TheDesk, request: Request) -> Response:
    """Stop the controller gently, as SIGTERM does."""
    await tell(request, Drain())
    desk.drain()
    return answer(Draining, Draining(draining=True), HTTPStatus.ACCEPTED)


async def _cordoned(desk: Desk, name: str, request: Request, *, drain: bool) -> Response:
    given = load(DeviceCordonBody, await read_body(request) or b"{}")
    who = owner(request, given.who)
    await tell(request, CordonDevice(device=name, why=given.why, who=who, drain=drain, for_s=given.for_s))
    (device,) = desk.devices([name])
    return answer(PlacedDevice, device)


def _node(desk: Desk, name: str) -> NodeView:
    (node,) = desk.nodes([name])
    return node
