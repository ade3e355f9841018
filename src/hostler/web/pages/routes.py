"""Routes of the dashboard: pages, their parts, their streams, the door, and what they look like."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from hostler.model.codec import error_words
from hostler.model.errors import HostlerError
from hostler.model.inputs import Trouble
from hostler.web.answers import desk_of
from hostler.web.document import Published
from hostler.web.pages import door, job, rl
from hostler.web.pages.artifacts import ARTIFACT, ARTIFACTS
from hostler.web.pages.calls import BATCH, BATCHES
from hostler.web.pages.costs import COSTS
from hostler.web.pages.data import DATA
from hostler.web.pages.docs import reference
from hostler.web.pages.endings import Endings
from hostler.web.pages.events import EVENTS
from hostler.web.pages.fleet import FLEET, NODE, first_parts
from hostler.web.pages.groups import GROUP, GROUPS
from hostler.web.pages.learning import CONFIG, LEARNING
from hostler.web.pages.live import Pulse
from hostler.web.pages.part import Page, Subject
from hostler.web.pages.queue import JOBS, QUEUE
from hostler.web.pages.rendering import Press
from hostler.web.pages.static import PREFIX as STATIC, Static
from hostler.web.pages.story import STORY
from hostler.web.pages.sweep import SWEEP, SWEEPS
from hostler.web.problems import status_of

PATHS: Mapping[str, Page] = {
    "/pages/fleet": FLEET,
    "/pages/nodes/{name}": NODE,
    "/pages/queue": QUEUE,
    "/pages/jobs": JOBS,
    "/pages/groups": GROUPS,
    "/pages/groups/{name}": GROUP,
    "/pages/sweeps": SWEEPS,
    "/pages/sweeps/{name}": SWEEP,
    "/pages/calls": BATCHES,
    "/pages/calls/{name}": BATCH,
    "/pages/learning": LEARNING,
    "/pages/learning/{name}": CONFIG,
    "/pages/data": DATA,
    "/pages/artifacts": ARTIFACTS,
    "/pages/artifacts/{name}": ARTIFACT,
    "/pages/events": EVENTS,
    "/pages/events/{name}": STORY,
    "/pages/costs": COSTS,
}
"""Pages that need the desk alone; `install` adds those that share what was read of outputs."""
NAV = (
    ("Fleet", "/pages/fleet", ("fleet", "node")),
    ("Queue", "/pages/queue", ("queue", "jobs", "job", "groups", "group")),
    ("Sweeps", "/pages/sweeps", ("sweeps", "sweep", "batches", "batch")),
    ("Learning", "/pages/learning", ("learning", "config")),
    ("RL", "/pages/rl", ("rl", "rl-job")),
    ("Data", "/pages/data", ("data", "artifacts", "artifact")),
    ("Alerts", "/pages/events", ("events", "story")),
    ("Cost", "/pages/costs", ("costs",)),
)
OWN = frozenset({"page", "name", "id"})
"""Words of the query that are not the page's: which page, about whom, which of its parts."""
MAX_QUERY = 20
STYLES_S = 0.02
"""What a browser needs to ask for the styles that the top of a page names: it paints nothing before it has them, and
would have to wait for the rest of the page if that was begun at once."""


def install(app: FastAPI) -> None:
    """Put the dashboard on an application, and make the page that asks for a token look like it."""
    static = Static()
    app.state.static, app.state.press, app.state.pulse = static, Press(static), Pulse(app.state.desk)
    app.state.login_page = _login
    app.add_route("/", _home)
    app.add_route("/docs", _docs)
    app.add_route(STATIC + "{path:path}", app.state.static.serve)
    app.add_route("/pages/stream", _stream)
    app.add_route("/pages/parts", _parts)
    paths = {**PATHS, "/pages/jobs/{name}": job.page(Endings()), **rl.pages(app.state.trainings)}
    app.state.pages = {page.name: page for page in paths.values()}
    for path, page in paths.items():
        app.add_route(path, partial(_show, page), name=f"page {page.name}")


async def _home(request: Request) -> Response:
    return RedirectResponse("/pages/fleet", HTTPStatus.SEE_OTHER)


async def _docs(request: Request) -> Response:
    """The reference of the HTTP API."""
    published: Published = request.app.state.published
    document = await published.document()
    shown = await asyncio.to_thread(reference, document)
    address = str(request.base_url).rstrip("/")
    values = {"title": "HTTP API", "reference": shown, "address": address, **_about(request, "", Subject())}
    return StreamingResponse(_in_turn(_press(request).pieces("docs.html", **values)), media_type="text/html")


async def _in_turn(pieces: Iterable[str]) -> AsyncIterator[str]:
    for piece in pieces:
        yield piece
        # A large page takes a while, and others are not to wait for all of it.
        await asyncio.sleep(0)


async def _show(page: Page, request: Request) -> Response:
    """A whole page; about somebody unknown, a page that says so."""
    subject = _subject(request, request.path_params.get("name"))
    try:
        made = page.frame(desk_of(request), subject)
        frame = await made if isinstance(made, Awaitable) else made
    except HostlerError as error:
        return _apology(request, str(error), status_of(error))
    return StreamingResponse(_pieces(request, page, subject, frame), media_type="text/html")


async def _pieces(request: Request, page: Page, subject: Subject, frame: Mapping[str, Any]) -> AsyncIterator[str]:
    """The top of a page at once, so that a browser has something to show; then, when it is made, the rest."""
    press, desk, pulse = _press(request), desk_of(request), request.app.state.pulse
    may_change = "owner" not in frame or door.may_change(request, frame["owner"])
    values = {**frame, **_about(request, page.name, subject), "may_change": may_change}
    yield press.text("top.html", **values)
    await asyncio.sleep(STYLES_S)
    try:
        parts = await pulse.parts(page, subject)
        shown = {"parts": parts, "part": {each.id: each for each in parts}, "whole": first_parts(parts)}
        for piece in press.pieces(page.template, begun=True, **shown, **values):
            yield piece
            # As in `_in_turn`.
            await asyncio.sleep(0)
    except HostlerError as error:
        yield press.text("apology.html", begun=True, why=str(error), **values)
    except Exception as error:  # noqa: BLE001 - recorded, and told to whoever looks: the status is said already
        what = error_words(error)
        why = f"The controller failed to make this page, and recorded why: {what}"
        yield press.text("apology.html", begun=True, why=why, **values)
        await desk.tell(Trouble(where=f"page {page.name}", what=what[:2000]))


async def _parts(request: Request) -> Response:
    """The parts of a page that are asked for, as they are now; one that is gone is left out."""
    page, subject = _asked(request)
    wanted = frozenset(request.query_params.getlist("id"))
    pulse: Pulse = request.app.state.pulse
    parts = await pulse.parts(page, subject)
    return _press(request).partials((each for each in parts if each.id in wanted), desk_of(request).status().at)


async def _stream(request: Request) -> Response:
    """What of a page is stale, as it gets so."""
    page, subject = _asked(request)
    pulse: Pulse = request.app.state.pulse
    frames: AsyncIterator[bytes] = pulse.follow(page, subject, request.app.state.closing)
    return StreamingResponse(frames, media_type="text/event-stream")


def _login(request: Request, fault: str | None, to: str, once: str | None) -> str:
    """The page that asks for a token; `web.session` does what it asks for."""
    return _press(request).text("login.html", title="Log in", target=to, fault=fault, once=once)


def _apology(request: Request, why: str, status: HTTPStatus) -> Response:
    values = {"title": "Not found", **_about(request, "", Subject())}
    return _press(request).page("apology.html", status, why=why, **values)


def _about(request: Request, page: str, subject: Subject) -> dict[str, Any]:
    """What every page says of itself, the fleet, and whoever looks."""
    status = desk_of(request).status()
    return {
        "page": page,
        "subject": subject,
        "now": status.at,
        "fleet": status.fleet,
        "version": status.version,
        "leader": status.leader,
        "nav": NAV,
        "viewer": door.viewer(request),
    }


def _press(request: Request) -> Press:
    press: Press = request.app.state.press
    return press


def _asked(request: Request) -> tuple[Page, Subject]:
    name = request.query_params.get("page", "")
    pages: Mapping[str, Page] = request.app.state.pages
    if name not in pages:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"there is no page {name[:100]!r}")
    about = request.query_params.get("name")
    return pages[name], _subject(request, None if about is None else about, decoded=True)


def _subject(request: Request, name: str | None, *, decoded: bool = False) -> Subject:
    """What a page is about. The guard leaves paths as they were sent; queries are decoded already."""
    query = {key: value for key, value in request.query_params.items() if key not in OWN}
    return Subject(name if name is None or decoded else unquote(name), dict(list(query.items())[:MAX_QUERY]))
