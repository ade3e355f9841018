"""Who may come in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import urlencode

import pytest
from starlette.types import Message, Receive, Scope, Send

from hostler.web.door import Doorman, digest_of
from hostler.web.guard import Guard
from tests.web.core_desk import TOKEN, CoreDesk, Window, door

KNOWN = f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Bearer wrong", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer \u00fc\u00df"],
)
@pytest.mark.parametrize("path", ["/status", "/api/v1/jobs", "/api/v1/openapi.json", "/no/such/path"])
def test_without_the_token_nothing_is_told(served: Window, authorization: str, path: str) -> None:
    reply = served.ask("GET", path, headers={"Authorization": authorization})
    assert reply.status == 401
    assert reply.json["error"] == "Unauthorized"
    assert reply.headers["www-authenticate"] == "Bearer"


def test_no_header_at_all_is_refused(served: Window) -> None:
    assert served.ask("GET", "/status", headers={}).status == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_token_opens(served: Window, scheme: str) -> None:
    assert served.get("/status", Authorization=f"{scheme} {TOKEN}").status == 200


def test_health_says_ok_to_anyone_and_no_more(served: Window) -> None:
    reply = served.ask("GET", "/healthz", headers={})
    assert (reply.status, reply.body) == (200, b"ok\n")


def test_a_refused_request_changes_nothing(served: Window) -> None:
    before = served.desk.status().seq
    reply = served.ask("POST", "/api/v1/jobs", b"[]", headers={"Authorization": "Bearer no"})
    assert reply.status == 401
    assert served.ask("POST", "/api/v1/controller/drain", headers={}).status == 401
    assert (served.desk.status().seq, served.desk.drained) == (before, 0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LocalHost:1", "[::1]", "[::1]:8765", "127.0.0.1:80"])
def test_names_of_this_machine_are_answered(served: Window, host: str) -> None:
    assert served.get("/status", Host=host).status == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", "127.0.0.1@evil", "0.0.0.0", "", "::1"],
)
def test_other_names_are_not(served: Window, host: str) -> None:
    for path in ("/status", "/healthz"):
        reply = served.get(path, Host=host)
        assert (reply.status, reply.json["error"]) == (403, "Forbidden")


def test_answers_are_not_kept_by_anyone(served: Window) -> None:
    headers = served.get("/status").headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


class Behind:
    """An application behind a guard, and the requests of a session: what of a form reaches it."""

    def __init__(self) -> None:
        desk = CoreDesk()
        self.doorman = Doorman(door(desk), cast("Any", desk))
        self.session = self.doorman.sessions.begin(digest_of(TOKEN))
        self.csrf = self.doorman.sessions.csrf(self.session.rpartition(".")[0])
        self.read: list[Message] = []
        self.status = 0

    async def application(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.read += [await receive(), await receive()]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def post(self, *messages: Message) -> None:
        """Send a form in these pieces; after them the browser goes."""
        headers = {
            "host": "127.0.0.1",
            "cookie": f"{self.doorman.sessions.cookie}={self.session}",
            "content-type": "application/x-www-form-urlencoded",
        }
        scope = {
            "type": "http", "method": "POST", "path": "/api/v1/jobs", "raw_path": b"/api/v1/jobs", "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        }  # fmt: skip
        pieces = iter([*messages, {"type": "http.disconnect"}])

        async def receive() -> Message:
            return next(pieces)

        async def send(message: Message) -> None:
            self.status = message.get("status", self.status)

        await Guard(self.application, self.doorman)(scope, receive, send)


def piece(body: bytes, **more: Any) -> Message:
    return {"type": "http.request", "body": body, **more}


async def test_form_that_proved_a_write_reaches_the_application_once_and_whole() -> None:
    behind = Behind()
    form = urlencode({"csrf": behind.csrf, "name": "ann"}).encode()
    await behind.post(piece(form[:10], more_body=True), piece(form[10:]))
    assert behind.status == 200
    assert behind.read == [
        {"type": "http.request", "body": form, "more_body": False},
        {"type": "http.disconnect"},
    ]


@pytest.mark.parametrize(("fields", "status"), [(["", "0"], 200), (["0", ""], 403), (["0", "0"], 403)])
async def test_first_of_several_csrf_fields_counts(fields: Sequence[str], status: int) -> None:
    behind = Behind()
    form = urlencode([("csrf", each or behind.csrf) for each in fields]).encode()
    await behind.post(piece(form))
    assert behind.status == status
    assert bool(behind.read) is (status == 200)
