"""Logging in with a browser: a token, once, for a session; and out again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from html import escape
from http import HTTPStatus
from typing import Annotated, TypeAlias
from urllib.parse import parse_qs

from fastapi import HTTPException, Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from hostler.web.door import Doorman, digest_of
from hostler.web.guard import MAX_FORM_BYTES, address_of, is_foreign, too_often
from hostler.web.limits import Failures
from hostler.web.routing import Routes
from hostler.web.sessions import LIFETIME_S

router = Routes(in_document=False)

HOME = "/"
FORM_S = 20.0
USED = "This link has been used, or has expired. Log in with a token, or start the controller again for another link."
"""How long somebody who is not known may take to send one."""
PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Log in · Hostler</title></head>
<body>
<main>
<h1>Hostler</h1>
{said}
<form method="post" action="/login">
<input type="hidden" name="next" value="{to}">
{field}
<p><button>Log in</button></p>
</form>
</main>
</body>
</html>
"""
FIELD = """<p><label for="token">Token</label> <input id="token" name="token" type="password" required autofocus
autocomplete="current-password" aria-describedby="where"></p>
<p id="where">One that <code>hostler token create</code> has printed, or that of the state directory.</p>"""


LoginPage: TypeAlias = Callable[[Request, str | None, str, str | None], str]
"""The page that asks for a token: what went wrong before, if something did, the path to go on to, and a one-time
code."""
CODE_MAX = 200


def plain_page(request: Request, fault: str | None, to: str, once: str | None) -> str:
    """A page that asks for a token, and needs nothing else. `app.state.login_page` may be another."""
    said = "" if fault is None else f"<p role='alert'>{escape(fault)}</p>"
    field = FIELD if once is None else f'<input type="hidden" name="once" value="{escape(once)}">'
    return PAGE.format(said=said, to=escape(to), field=field)


def csrf_token(request: Request) -> str | None:
    """What forms (field `csrf`) and scripts (header `X-CSRF-Token`) of a page must send with every write.

    `None` where whoever asks is known by a bearer token, and needs none.
    """
    csrf: str | None = request.state.csrf
    return csrf


@router.get("/login", response_class=HTMLResponse)
async def show_login(
    request: Request,
    to: Annotated[str, Query(alias="next")] = HOME,
    once: Annotated[str | None, Query(max_length=CODE_MAX)] = None,
) -> Response:
    """The page that asks for a token; whoever is known already goes on.

    With a one-time code the page sends that by itself: a GET changes nothing, and programs that look at links before
    people follow them do not use it up.
    """
    if request.state.visitor is not None:
        return RedirectResponse(_within(to), HTTPStatus.SEE_OTHER)
    return _page(request, None, to, once)


@router.post("/login", response_class=HTMLResponse)
async def log_in(request: Request) -> Response:
    """Begin a session, for whoever has a token."""
    if is_foreign(request.headers):
        raise HTTPException(HTTPStatus.FORBIDDEN, "this did not come from the log-in page of this controller")
    form = parse_qs((await _form(request)).decode("utf-8", "replace"))
    doorman, failures = doorman_of(request), _failures_of(request)
    # Nothing is waited for from here on: of many at once no more are let through than one after the other.
    address, now = address_of(request.scope), doorman.door.now()
    wait_s = failures.wait_s(address, now)
    if wait_s is not None:
        return too_often(wait_s)
    token, to, once = (form.get(name, [""])[0] for name in ("token", "next", "once"))
    digest = doorman.redeemed(once) if once else digest_of(token.strip())
    if digest is None or doorman.holder(digest) is None:
        failures.note(address, now)
        return _page(request, USED if once else "Nobody has this token, or it has expired or was revoked.", to)
    answer = RedirectResponse(_within(to), HTTPStatus.SEE_OTHER)
    _set_cookie(request, answer, doorman.sessions.begin(digest), LIFETIME_S)
    return answer


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End a session, wherever its cookie may be."""
    doorman = doorman_of(request)
    session = doorman.sessions.found(request.headers)
    if session is not None:
        await doorman.end(session)
    answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    _set_cookie(request, answer, "", 0)
    return answer


def doorman_of(request: Request) -> Doorman:
    """Who knows everybody."""
    doorman: Doorman = request.app.state.doorman
    return doorman


def _failures_of(request: Request) -> Failures:
    failures: Failures = request.app.state.failed_logins
    return failures


async def _form(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_S):
            async for piece in request.stream():
                body += piece
                if len(body) > MAX_FORM_BYTES:
                    raise HTTPException(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a form has at most {MAX_FORM_BYTES} bytes"
                    )
    except TimeoutError as error:
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, f"the form did not come within {FORM_S:g} s") from error
    return bytes(body)


def _set_cookie(request: Request, answer: Response, value: str, max_age_s: int) -> None:
    doorman = doorman_of(request)
    # Behind a proxy that speaks TLS the browser tells it.
    secure = doorman.door.tls or request.headers.get("origin", "").startswith("https:")
    answer.set_cookie(
        doorman.sessions.cookie, value, max_age=max_age_s, path="/", secure=secure, httponly=True, samesite="strict"
    )


def _within(to: str) -> str:
    """A path of this controller; anything else is its home."""
    inside = to.startswith("/") and not to.startswith("//") and "\\" not in to and to.isprintable() and to.isascii()
    return to if inside else HOME


def _page(request: Request, fault: str | None, to: str, once: str | None = None) -> Response:
    show: LoginPage = request.app.state.login_page
    status = HTTPStatus.OK if fault is None else HTTPStatus.UNAUTHORIZED
    return HTMLResponse(show(request, fault, _within(to), once), status)
