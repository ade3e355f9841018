"""Who may come in, and for what: checked before anything of a request is looked at."""

from __future__ import annotations

import hmac
import math
import re
from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hostler.model.access import Scope as Level
from hostler.web import problems
from hostler.web.connections import Bounded
from hostler.web.door import Doorman, Visitor
from hostler.web.hiding import answer_reader
from hostler.web.limits import Failures
from hostler.web.scopes import ANYONES, LOOKS, needed

LOOPBACK_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)
PORT = re.compile(r":\d{1,5}$")
CSRF_HEADER, CSRF_FIELD = "x-csrf-token", "csrf"
FORM = "application/x-www-form-urlencoded"
MAX_FORM_BYTES = 1 << 16
LOOK_AGAIN_S = 1.0
"""How often it is looked whether whoever reads a long answer still may."""

POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
"""Nothing from elsewhere, and no script or style that stands in a page."""
SEAL = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    # Not `no-referrer`: browsers would send forms with the origin `null` then.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Answers are for whoever asked, nobody may reinterpret or frame them; and unless they say otherwise they are of the
moment, and nobody on the way may keep them."""


class Guard:
    """Lets in requests that are addressed to this controller, by people it knows, for what they may do.

    The `Host` header is checked because a web page may make a browser talk to 127.0.0.1 under a name of its own (DNS
    rebinding); the port is not, so that a tunnel may use another one. Whoever is let in is told to the application as
    `request.state.visitor` (a `Visitor`; `None` on paths that are open) and `request.state.csrf`.
    """

    def __init__(self, app: ASGIApp, doorman: Doorman) -> None:
        self._app = app
        self._doorman = doorman
        self._door = doorman.door
        self._failures = Failures()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers, address = Headers(scope=scope), address_of(scope)
        # Routes are matched on the path as it was sent: the name of a job may hold a slash, sent as %2F.
        scope = {**scope, "path": scope["raw_path"].decode("ascii", "replace")}
        visitor = self._doorman.visitor(headers, address)
        connection = scope.get("state", {}).get("connection")
        if visitor is not None and isinstance(connection, Bounded):
            connection.authenticated()
        refusal = self._refusal(scope, headers, address, visitor)
        if refusal is None and visitor is not None and _is_forgeable(scope, visitor):
            receive, refusal = await self._unless_forged(headers, receive, visitor)
        if refusal is not None:
            await refusal(scope, receive, _sealed(send, None))
            return
        csrf = None if visitor is None or visitor.session is None else self._doorman.sessions.csrf(visitor.session)
        answer_reader(visitor is None or not visitor.holder.scope.covers(Level.OPERATE))
        scope["state"] = {**scope.get("state", {}), "visitor": visitor, "csrf": csrf}
        await self._app(scope, receive, _sealed(send, self._may_still(scope, headers, address)))

    def _refusal(self, scope: Scope, headers: Headers, address: str, visitor: Visitor | None) -> Response | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._is_ours(hosts[0], scope):
            return problems.from_status(
                HTTPStatus.FORBIDDEN,
                "the controller answers to 127.0.0.1, localhost, [::1] and the names that its fleet file gives it "
                f"(`api: {{names: [...]}}`), not to {hosts}",
            )
        wanted = needed(scope["method"], scope["path"])
        if wanted is None:
            return None
        if visitor is None:
            return self._unknown(scope, headers, address)
        if not visitor.holder.scope.covers(wanted):
            return problems.from_status(
                HTTPStatus.FORBIDDEN,
                f"this needs the scope {wanted}, and {visitor.holder.name!r} has {visitor.holder.scope}; "
                "somebody with the scope admin can make you another token: "
                f"`hostler token create NAME --scope {wanted}`",
            )
        return None

    def _is_ours(self, host: str, scope: Scope) -> bool:
        if LOOPBACK_HOST.fullmatch(host):
            return True
        name = PORT.sub("", host).lower()
        # No name can be bent to an address that stands in its place.
        own = scope.get("server") or ("",)
        return name in self._door.names or name == (f"[{own[0]}]" if ":" in own[0] else own[0])

    def _unknown(self, scope: Scope, headers: Headers, address: str) -> Response:
        if "authorization" in headers:
            now = self._door.now()
            wait_s = self._failures.wait_s(address, now)
            if wait_s is not None:
                return too_often(wait_s)
            self._failures.note(address, now)
        elif _wants_page(scope, headers):
            to = f"?next={quote(_target(scope), safe='')}" if scope["method"] == "GET" else ""
            return RedirectResponse(f"/login{to}", HTTPStatus.SEE_OTHER)
        return problems.from_status(
            HTTPStatus.UNAUTHORIZED,
            "send a token as `Authorization: Bearer TOKEN`: that of the controller's state directory, or one that was "
            "made by `hostler token create` and is neither revoked nor expired",
            {"WWW-Authenticate": "Bearer"},
        )

    async def _unless_forged(
        self, headers: Headers, receive: Receive, visitor: Visitor
    ) -> tuple[Receive, Response | None]:
        """Refuse a write that another site may have made a browser send; a form that was read can be read again."""
        assert visitor.session is not None
        told = headers.get(CSRF_HEADER)
        if told is None and headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
            body = await _read_form(receive)
            if body is None:
                return receive, problems.from_status(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a form has at most {MAX_FORM_BYTES} bytes; nothing was done"
                )
            told = (parse_qs(body.decode("utf-8", "replace")).get(CSRF_FIELD) or [""])[0]
            receive = _again(body, receive)
        expected = self._doorman.sessions.csrf(visitor.session)
        if is_foreign(headers) or not hmac.compare_digest((told or "").encode(), expected.encode()):
            return receive, problems.from_status(
                HTTPStatus.FORBIDDEN,
                "this did not come from a page of this session, and nothing was done; load the page anew and try "
                f"again (programs send `Authorization: Bearer TOKEN`, or the session's `{CSRF_HEADER}`)",
            )
        return receive, None

    def _may_still(self, scope: Scope, headers: Headers, address: str) -> Callable[[], bool]:
        """Whether a long answer may go on: what somebody may know ends with their token."""
        wanted, looked_at = needed(scope["method"], scope["path"]), self._door.now()

        def may_still() -> bool:
            nonlocal looked_at
            if wanted is None or self._door.now() < looked_at + LOOK_AGAIN_S:
                return True
            looked_at = self._door.now()
            visitor = self._doorman.visitor(headers, address)
            return visitor is not None and visitor.holder.scope.covers(wanted)

        return may_still


def address_of(scope: Scope) -> str:
    """Where a connection comes from."""
    return str(scope["client"][0]) if scope.get("client") else ""


def is_foreign(headers: Headers) -> bool:
    """Whether a browser says that a page of another site sends this."""
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower()


def too_often(wait_s: float) -> Response:
    """The answer to whoever was wrong too often."""
    return problems.from_status(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"too many wrong tokens came from your address; wait {math.ceil(wait_s)} s",
        {"Retry-After": str(math.ceil(wait_s))},
    )


def _is_forgeable(scope: Scope, visitor: Visitor) -> bool:
    """Whether this changes something, and is proved by what a browser sends for every page."""
    return visitor.session is not None and scope["method"] not in LOOKS and needed("POST", scope["path"]) is not None


def _wants_page(scope: Scope, headers: Headers) -> bool:
    """Whether a browser shows what comes, and a page to log in will do."""
    shown = scope["method"] == "GET" or scope["path"] in ANYONES
    part = scope["path"].startswith("/api/") or "hx-request" in headers
    return shown and not part and "text/html" in headers.get("accept", "")


def _target(scope: Scope) -> str:
    query = scope.get("query_string", b"").decode("ascii", "replace")
    return str(scope["path"]) + (f"?{query}" if query else "")


async def _read_form(receive: Receive) -> bytes | None:
    """The body of a form; `None` where it is too long."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_FORM_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, to be read again; then whatever comes next."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _sealed(send: Send, may_still: Callable[[], bool] | None) -> Send:
    """Sends with the seal on it; an answer in pieces ends when whoever reads it may not any more."""
    over = False

    async def sealed(message: Message) -> None:
        nonlocal over
        if over:
            return
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(SEAL)
            headers.setdefault("Cache-Control", "no-store")
        elif message.get("more_body", False) and may_still is not None and not may_still():
            over = True
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await send(message)

    return sealed
