"""Who may come in."""

from __future__ import annotations

import pytest

from tests.web.core_desk import TOKEN, Window

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
