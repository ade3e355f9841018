"""Who may come in: checked before anything of a request is looked at."""

from __future__ import annotations

import hmac
import re
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hostler.web import problems

OPEN_PATHS = frozenset({"/healthz"})
"""Paths that tell nothing and therefore need no token."""

LOOPBACK_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)


class Guard:
    """Lets in requests that carry the token and are addressed to this machine.

    The `Host` header is checked because a web page may make a browser talk to 127.0.0.1 under a name of its own (DNS
    rebinding); the port is not, so that a tunnel may use another one.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        # Routes are matched on the path as it was sent: the name of a job may hold a slash, sent as %2F.
        path = scope["raw_path"].decode("ascii", "replace")
        refusal = self._refusal(Headers(scope=scope), path)
        answer = self._app if refusal is None else refusal
        await answer({**scope, "path": path}, receive, _sealed(send))

    def _refusal(self, headers: Headers, path: str) -> Response | None:
        hosts = headers.getlist("host")
        if len(hosts) != 1 or LOOPBACK_HOST.fullmatch(hosts[0]) is None:
            return problems.from_status(
                HTTPStatus.FORBIDDEN,
                f"the controller answers to 127.0.0.1, localhost and [::1] only, not to {hosts}; "
                "from another machine, use `ssh -L`",
            )
        if path in OPEN_PATHS or self._is_known(headers.get("authorization", "")):
            return None
        return problems.from_status(
            HTTPStatus.UNAUTHORIZED,
            "send the token of the controller's state directory as `Authorization: Bearer TOKEN`",
            {"WWW-Authenticate": "Bearer"},
        )

    def _is_known(self, authorization: str) -> bool:
        scheme, _, token = authorization.partition(" ")
        return scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._expected)


def _sealed(send: Send) -> Send:
    """Answers are of the moment and for whoever asked; nobody on the way may keep or reinterpret them."""

    async def sealed(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Cache-Control"] = "no-store"
            headers["X-Content-Type-Options"] = "nosniff"
        await send(message)

    return sealed
