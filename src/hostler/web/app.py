"""The application: routes, the guard before them, and one way to say what went wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException as RoutingError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from hostler import __version__
from hostler.model.codec import error_words
from hostler.model.errors import HostlerError, UsageError
from hostler.model.faults import found_by, rule_of
from hostler.model.schemas import show
from hostler.model.work import JobSpec
from hostler.settings.jobs import ShortJob
from hostler.web import (
    access,
    alerts,
    artifacts,
    configs,
    disk,
    events,
    fleet,
    groups,
    health,
    jobs,
    metrics,
    problems,
    results,
    secrets,
    session,
    snapshots,
    steering,
    submissions,
    sweeps,
)
from hostler.web.desk import Desk
from hostler.web.document import Published, document
from hostler.web.door import Door, Doorman
from hostler.web.guard import SEAL, Guard
from hostler.web.limits import Failures
from hostler.web.pages import routes as pages
from hostler.web.request_faults import RequestFaults
from hostler.web.rl import routes as rl
from hostler.web.rl.trails import Trails
from hostler.web.rl.trainings import Trainings
from hostler.web.routing import late
from hostler.web.timing import Timed, Timing

PREFIX = "/api/v1"
DESCRIPTION = """The controller's own interface; the command line is a client of it. Every request carries a token.

Lists come in pages of `limit` rows. The header `Link: <?...>; rel="next"` (RFC 8288) leads to the next page, relative
to the page itself; on the last one it is missing. `after` is taken from there. A cursor that leads nowhere is refused
with status 422: then the list is begun again. What changes its place in a list between two pages may be told twice or
not at all; what stays is told once.

A request that changes something may carry an `Idempotency-Key`: asked again under it, within a day, it does nothing
and answers as it did, with things as they stand now.
"""


def make_app(
    desk: Desk,
    door: Door,
    *,
    trails: Trails | None = None,
    heartbeat_s: float = events.HEARTBEAT_S,
    timer: Callable[[], float] = time.perf_counter,
) -> FastAPI:
    """The HTTP interface of one controller; `door` is how people come in.

    Readers never change anything. Errors answer with the status of their class (`problems.STATUS`) and a `Problem`.
    When the event `app.state.closing` is set, open event streams end. `trails` are those of whoever listens to
    trainings as well, so that nothing is read twice.
    """
    app = FastAPI(
        title="Hostler",
        version=__version__,
        description=DESCRIPTION,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.desk, app.state.heartbeat_s, app.state.closing = desk, heartbeat_s, asyncio.Event()
    app.state.frames = events.Frames()
    app.state.faults = RequestFaults()
    app.state.timing, app.state.trainings = Timing(timer), Trainings(desk, trails)
    app.state.doorman, app.state.failed_logins = Doorman(door, desk), Failures()
    app.state.login_page = session.plain_page
    work = (jobs, groups, snapshots, sweeps, configs, artifacts, rl)
    for part in (*work, fleet, steering, access, secrets, alerts, disk, events, health):
        app.routes.extend(part.router.below(PREFIX))
    for routes in (configs.everywhere.below(PREFIX), metrics.router.below(), health.router.below(in_document=False)):
        app.routes.extend(routes)
    app.routes.extend(results.router.below(PREFIX))
    app.routes.extend(fleet.by_hand.below())
    app.add_route("/healthz", _healthz)
    app.add_route("/leader", _leader)
    for path in (f"{PREFIX}/openapi.json", "/openapi.json"):
        app.add_route(path, _openapi)
    app.routes.extend(session.router.below())
    pages.install(app)
    bodies = (
        JobSpec,
        submissions.GroupBody,
        groups.CancelGroupBody,
        groups.RetryGroupBody,
        jobs.CancelBody,
        jobs.PriorityBody,
        access.TokenBody,
        secrets.SecretBody,
        configs.RollBackBody,
        configs.PauseBody,
        configs.ResumeConfigBody,
        configs.SpawnBody,
        artifacts.VerifyBody,
        fleet.CordonBody,
        fleet.DrainBody,
        fleet.ResumeBody,
        fleet.DeviceCordonBody,
        alerts.AcknowledgeBody,
        alerts.SilenceBody,
        alerts.ProbeBody,
        disk.CleanBody,
        disk.UndoBody,
        ShortJob,
    )
    app.openapi = partial(document, app, bodies)  # type: ignore[method-assign]
    app.state.published = Published(app.openapi)
    app.add_middleware(Timed, timing=app.state.timing)
    app.add_middleware(Guard, doorman=app.state.doorman)
    _answer_for_failures(app)
    return app


def make_ready(app: FastAPI) -> None:
    """Make now, in whatever thread, what the first to ask would wait for: 0.8 s of routes, converters and templates."""
    for route in late(app.routes):
        route.make_ready()
    app.state.press.make_ready()


async def _healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _openapi(request: Request) -> Response:
    published: Published = request.app.state.published
    return JSONResponse(await published.document())


async def _leader(request: Request) -> Response:
    """For whoever balances load: 200 from the controller that leads, 503 from one that stands by."""
    desk: Desk = request.app.state.desk
    leads = desk.status().leader is None
    return PlainTextResponse("leads\n" if leads else "stands by\n", 200 if leads else 503)


def _answer_for_failures(app: FastAPI) -> None:
    handlers: dict[Any, Any] = {
        HostlerError: _refused,
        RequestValidationError: _unusable,
        RoutingError: _http_refused,
        ClientDisconnect: _gone,
        Exception: _failed,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)


async def _refused(request: Request, error: HostlerError) -> Response:
    return problems.from_error(error)


async def _unusable(request: Request, error: RequestValidationError) -> Response:
    """A parameter of the path or of the query is wrong."""
    faults = (f"{show(fault['loc'][1:])}: {rule_of(fault)}{found_by(fault)}" for fault in error.errors())
    return problems.from_error(UsageError("; ".join(faults)))


async def _http_refused(request: Request, error: HTTPException) -> Response:
    return problems.from_status(error.status_code, error.detail, error.headers)


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    """Nobody reads this; a body that was cut off has done nothing."""
    return problems.from_status(400, "the body was cut off")


async def _failed(request: Request, error: Exception) -> Response:
    """A fault of our own: it is put on record, and raised again by the server for its log."""
    what = error_words(error)
    desk: Desk = request.app.state.desk
    await request.app.state.faults.note(desk, f"{request.method} {request.url.path}", error)
    # This is answered outside of the guard.
    return problems.from_status(500, f"the controller failed to answer, and recorded why: {what}", SEAL)
