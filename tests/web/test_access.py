"""Who may do what: tokens, scopes over all routes, the audit, and requests that are done once."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.routing import iter_route_contexts

from hostler.model.access import Scope
from hostler.web import answers
from hostler.web.app import make_app
from hostler.web.limits import ADDRESSES_MOST, FAILURES_MOST, WINDOW_S, Failures
from hostler.web.pages.routes import PATHS
from hostler.web.scopes import LOOKS, needed
from tests.core.builders import script
from tests.patience import PATIENCE_S
from tests.web.core_desk import TOKEN, CoreDesk, Reply, Window, door, walk, window
from tests.web.test_writing import submit

API = "/api/v1"
WRONG = ("none", "wrong", "expired", "revoked")


def bearer(token: str, **more: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}", **more}


def make(served: Window, name: str, scope: Scope | str = Scope.READ, **fields: Any) -> str:
    """A token that the API has made."""
    reply = served.post(f"{API}/tokens", {"name": name, "scope": scope, **fields})
    assert reply.status == 201, reply.body
    return str(reply.json["token"])


def routes() -> list[tuple[str, str]]:
    """Every method and path of the application, parameters filled in; a folder of files is one path under it."""
    known = list(iter_route_contexts(make_app(CoreDesk(), door()).routes))
    assert len(known) > 30
    pairs = {(method, route.path or "") for route in known for method in route.methods or {"GET"}}
    return sorted((method, re.sub(r"\{\w+\}", "x", path)) for method, path in pairs)


ROUTES = routes()
GUARDED = [(method, path) for method, path in ROUTES if needed(method, path) is not None]


@pytest.fixture(scope="module")
def people() -> Iterator[tuple[Window, Mapping[str, Mapping[str, str]]]]:
    """A fleet, and the headers of people with all kinds of tokens; time stands still after that."""
    desk = CoreDesk()
    with window(desk) as served:
        expired, revoked = make(served, "expired", "admin", lifetime_s=10.0), make(served, "revoked", "admin")
        served.ask("DELETE", f"{API}/tokens/revoked")
        desk.driver.now += 11.0
        known = {scope: bearer(make(served, f"to-{scope}", scope)) for scope in Scope}
        others = {"none": {}, "wrong": bearer("wrong"), "expired": bearer(expired), "revoked": bearer(revoked)}
        yield served, {**{str(scope): headers for scope, headers in known.items()}, **others}


class TestEveryRoute:
    @pytest.mark.parametrize(
        ("who", "method", "path"),
        [
            pytest.param(who, *each, marks=pytest.mark.long if who != "none" and at % 8 else ())
            for who in WRONG
            for at, each in enumerate(GUARDED)
        ],
    )
    def test_lets_in_nobody_who_is_not_known(self, people: Any, method: str, path: str, who: str) -> None:
        served, headers = people
        served.desk.driver.now += WINDOW_S
        seq = served.desk.status().seq
        reply = served.ask(method, path, headers=headers[who])
        assert reply.status == 401
        assert method == "HEAD" or reply.json["error"] == "Unauthorized"
        assert served.desk.status().seq == seq

    @pytest.mark.parametrize(("method", "path"), GUARDED)
    def test_lets_in_nobody_for_more_than_their_scope(self, people: Any, method: str, path: str) -> None:
        served, headers = people
        wanted = needed(method, path)
        assert wanted is not None
        for scope in (scope for scope in Scope if not scope.covers(wanted)):
            seq = served.desk.status().seq
            reply = served.ask(method, path, headers=headers[scope])
            assert reply.status == 403
            assert f"needs the scope {wanted}" in reply.json["message"]
            assert served.desk.status().seq == seq

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            pytest.param(*each, marks=pytest.mark.long if each == ("HEAD", f"{API}/openapi.json") else ())
            for each in GUARDED
            if "/events" not in each[1]
        ],
    )
    def test_lets_in_whoever_may(self, people: Any, method: str, path: str) -> None:
        served, headers = people
        assert served.ask(method, path, headers=headers[needed(method, path)]).status not in (401, 403)

    def test_has_a_scope(self) -> None:
        opened = [(method, path) for method, path in ROUTES if needed(method, path) is None]
        assert {path for _, path in opened} == {"/healthz", "/leader", "/login", "/static/{path:path}"}
        writes = {needed(method, path) for method, path in GUARDED if method not in LOOKS and path != "/logout"}
        assert writes == {Scope.OPERATE, Scope.ADMIN}

    def test_is_one_of_these(self) -> None:
        """What is not looked at here is not there: the API, the dashboard, and the few paths besides."""
        paths = {path for _, path in ROUTES}
        assert {
            re.sub(r"\{\w+\}", "x", path) for path in (*PATHS, "/pages/jobs/x", "/pages/parts", "/pages/stream")
        } <= paths
        others = {path for path in paths if not path.startswith((f"{API}/", "/pages/"))}
        assert others == {
            "/", "/daemons/health", "/docs", "/healthz", "/leader", "/login", "/logout", "/metrics", "/openapi.json",
            "/queue/status", "/static/{path:path}", "/status",
        }  # fmt: skip

    @pytest.mark.parametrize("path", [path for method, path in GUARDED if method == "GET" and "/api/" not in path])
    def test_leads_browsers_to_the_door_and_tells_nothing(self, people: Any, path: str) -> None:
        served, _ = people
        reply = served.ask("GET", path, headers={"Accept": "text/html"})
        assert (reply.status, reply.body) == (303, b"")
        assert reply.headers["location"].startswith("/login?next=")

    def test_asks_in_somebodys_name(self) -> None:
        """Only by `answers.tell` is it in the audit, and done once under a key; a failure of ours is nobody's wish."""
        files = Path(answers.__file__).parent.glob("*.py")
        told = {file.name: file.read_text().count(".tell(") for file in files}
        assert {name: times for name, times in told.items() if times} == {"answers.py": 1, "request_faults.py": 1}

    @pytest.mark.parametrize(
        ("method", "path", "scope"),
        [
            ("GET", f"{API}/tokens", Scope.ADMIN),
            ("DELETE", f"{API}/tokens/x", Scope.ADMIN),
            ("POST", f"{API}/controller/drain", Scope.ADMIN),
            ("GET", f"{API}/audit", Scope.READ),
            ("POST", "/whatever/will/come", Scope.OPERATE),
            ("GET", "/whatever/will/come", Scope.READ),
            ("GET", "/static/../api/v1/jobs", None),
        ],
    )
    def test_scope_needed_by_request(self, method: str, path: str, scope: Scope | None) -> None:
        assert needed(method, path) == scope

    @pytest.mark.parametrize("path", ["/static/../api/v1/jobs", "/static/%2e%2e/api/v1/jobs", "//api/v1/jobs"])
    def test_is_not_reached_by_detours(self, people: Any, path: str) -> None:
        served, _ = people
        assert served.ask("GET", path, headers={}).status in (401, 404)


class TestTokens:
    def test_a_token_is_told_once_and_shown_without_itself(self, served: Window) -> None:
        reply = served.post(f"{API}/tokens", {"name": "ci", "scope": "operate", "lifetime_s": 3600})
        token, about = reply.json["token"], reply.json["about"]
        assert (about["name"], about["scope"], about["expired"]) == ("ci", "operate", False)
        assert about["expires_at"] == about["created_at"] + 3600
        assert len(token) >= 43
        listed = served.get(f"{API}/tokens")
        assert listed.json == [about]
        assert token.encode() not in listed.body
        assert served.ask("GET", "/status", headers=bearer(token)).status == 200

    def test_it_is_good_for_nothing_once_it_is_revoked(self, served: Window) -> None:
        token = make(served, "ci")
        reply = served.ask("DELETE", f"{API}/tokens/ci")
        assert (reply.status, reply.json) == (200, [])
        assert served.ask("GET", "/status", headers=bearer(token)).status == 401
        assert served.ask("DELETE", f"{API}/tokens/ci").status == 404

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"name": "local"},
            {"name": "a/b"},
            {"name": "a", "scope": "root"},
            {"name": "a", "lifetime_s": 0},
            {"name": "a", "sha256": "0" * 64},
        ],
    )
    def test_what_cannot_be_made_is_refused(self, served: Window, body: Any) -> None:
        assert served.post(f"{API}/tokens", body).status == 422
        assert served.get(f"{API}/tokens").json == []

    def test_a_repetition_cannot_tell_it_again(self, served: Window) -> None:
        headers = bearer(TOKEN, **{"Idempotency-Key": "k"})
        body = json.dumps({"name": "ci"}).encode()
        assert served.ask("POST", f"{API}/tokens", body, headers).status == 201
        again = served.ask("POST", f"{API}/tokens", body, headers)
        assert (again.status, again.json["error"]) == (409, "Conflict")
        assert "told only then" in again.json["message"]
        assert len(served.get(f"{API}/tokens").json) == 1

    def test_an_open_stream_ends_with_its_token(self, served: Window) -> None:
        token = make(served, "ci")
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=PATIENCE_S)
        connection.request("GET", f"{API}/events", headers=bearer(token))
        response = connection.getresponse()
        assert response.readline().startswith(b"id: ")
        served.ask("DELETE", f"{API}/tokens/ci")
        submit(served, script())
        rest = response.read()
        connection.close()
        assert b"job.submitted" not in rest


class TestAudit:
    def test_it_says_who_did_what(self, served: Window) -> None:
        token = make(served, "ci", "operate")
        submit(served, script("a", key="k/1"))
        served.ask("POST", f"{API}/jobs/k%2F1/cancel", headers=bearer(token))
        served.post(f"{API}/controller/drain")
        told = [(row["who"], row["what"]) for row in served.get(f"{API}/audit").json]
        assert told == [
            ("local", "drain"),
            ("ci", "cancel_job k/1"),
            ("local", "submit_jobs"),
            ("local", "create_token"),
        ]
        assert served.desk.drained == 1

    def test_it_comes_in_pages_newest_first(self, served: Window) -> None:
        for name in "abcde":
            submit(served, script(name))
        assert len(served.get(f"{API}/audit?limit=3").json) == 3
        seen = [row["seq"] for row in walk(served, f"{API}/audit?limit=3")]
        assert (len(seen), seen) == (5, sorted(seen, reverse=True))

    def test_who_cordons_a_node_is_the_token(self, served: Window) -> None:
        token = make(served, "ci", "operate")
        reply = served.ask("POST", f"{API}/nodes/n/cordon", headers=bearer(token))
        assert reply.json["cordon"]["who"] == "ci"

    def test_whoever_calls_themselves_otherwise_is_named_with_their_token(self, served: Window) -> None:
        body, token = b'{"who": "local", "why": "w"}', make(served, "ci", "operate")
        reply = served.ask("POST", f"{API}/nodes/n/cordon", body, bearer(token))
        assert reply.json["cordon"]["who"] == "local (ci)"


class TestKeys:
    def post(self, served: Window, name: str, key: str, token: str = TOKEN) -> Reply:
        body = json.dumps([{"name": name, "payload": {"kind": "script", "schema": 1, "argv": ["true"]}}]).encode()
        return served.ask("POST", f"{API}/jobs", body, bearer(token, **{"Idempotency-Key": key}))

    def test_the_same_request_is_done_once(self, served: Window) -> None:
        first, again = self.post(served, "a", "k"), self.post(served, "a", "k")
        assert (first.status, first.json) == (again.status, again.json)
        assert (first.status, first.json["ids"]) == (201, ["j1"])
        assert self.post(served, "a", "l").json["ids"] == ["j2"]

    def test_another_request_under_the_key_is_refused(self, served: Window) -> None:
        self.post(served, "a", "k")
        reply = self.post(served, "b", "k")
        assert (reply.status, reply.json["error"]) == (409, "Conflict")
        assert len(served.desk.driver.state.jobs) == 1

    def test_the_same_body_for_something_else_is_another_request(self, served: Window) -> None:
        submit(served, script("a"), script("b"))
        headers = bearer(TOKEN, **{"Idempotency-Key": "k"})
        assert served.ask("POST", f"{API}/jobs/j1/cancel", headers=headers).status == 200
        assert served.ask("POST", f"{API}/jobs/j1/cancel", headers=headers).status == 200
        assert served.ask("POST", f"{API}/jobs/j2/cancel", headers=headers).status == 409

    def test_what_was_refused_may_be_tried_again(self, served: Window) -> None:
        headers = bearer(TOKEN, **{"Idempotency-Key": "k"})
        assert served.ask("POST", f"{API}/jobs/j1/cancel", headers=headers).status == 404
        submit(served, script("a"))
        assert served.ask("POST", f"{API}/jobs/j1/cancel", headers=headers).status == 200

    @pytest.mark.parametrize("key", ["", "a b", "x" * 201, "ü"])
    def test_keys_that_are_none(self, served: Window, key: str) -> None:
        assert self.post(served, "a", key).status == 422
        assert served.desk.driver.state.jobs == {}


class TestFailures:
    def test_whoever_is_wrong_too_often_waits(self, served: Window) -> None:
        for _ in range(FAILURES_MOST):
            assert served.ask("GET", "/status", headers=bearer("wrong")).status == 401
        reply = served.ask("GET", "/status", headers=bearer("wrong"))
        assert (reply.status, reply.json["error"]) == (429, "TooManyRequests")
        assert 0 < int(reply.headers["retry-after"]) <= WINDOW_S
        assert served.get("/status").status == 200, "who is right is let in, even from there"
        assert served.ask("GET", "/status", headers={}).status == 401
        served.desk.driver.now += WINDOW_S
        assert served.ask("GET", "/status", headers=bearer("wrong")).status == 401

    def test_addresses_are_counted_apart(self) -> None:
        failures = Failures()
        for second in range(FAILURES_MOST):
            failures.note("192.0.2.1", float(second))
        assert failures.wait_s("192.0.2.1", 10.0) == WINDOW_S - 10.0
        assert failures.wait_s("::ffff:192.0.2.1", 10.0) == WINDOW_S - 10.0
        assert failures.wait_s("192.0.2.2", 10.0) is None
        assert failures.wait_s("192.0.2.1", WINDOW_S) is None, "the first of them is forgotten"
        failures.note("192.0.2.1", WINDOW_S)
        assert failures.wait_s("192.0.2.1", WINDOW_S) == 1.0

    def test_one_machine_has_many_addresses_of_version_6(self) -> None:
        failures = Failures()
        for number in range(FAILURES_MOST):
            failures.note(f"2001:db8::{number:x}", 0.0)
        assert failures.wait_s("2001:db8::ffff", 0.0) == WINDOW_S
        assert failures.wait_s("2001:db8:0:1::1", 0.0) is None

    def test_memory_is_bounded(self) -> None:
        failures = Failures()
        for number in range(ADDRESSES_MOST + 100):
            failures.note(f"address {number}", 0.0)
        assert len(failures._times) == ADDRESSES_MOST


@pytest.fixture(scope="module")
def still() -> Iterator[Window]:
    """A fleet that questions do not change."""
    with window() as served:
        yield served


class TestNames:
    """What is named in a path leads nowhere but to what has that name."""

    @pytest.mark.parametrize(
        "step", ["..", "%2e%2e", "..%2f..", "%2e%2e%2f%2e%2e%2fetc", "..%5c..", "%00", "j1.1%00", "/etc", "%2Fetc"]
    )
    @pytest.mark.parametrize(
        "path",
        [
            f"{API}/attempts/{{}}/log",
            f"{API}/attempts/j1.1%2f{{}}/log",
            f"{API}/attempts/{{}}%2fj1.1/log",
            f"{API}/jobs/{{}}",
            f"{API}/sweeps/{{}}/hits",
            f"{API}/nodes/{{}}",
            f"{API}/devices/{{}}",
            f"{API}/configs/{{}}/models",
            "/static/{}",
            "/static/vendor/{}",
            "/pages/jobs/{}",
        ],
    )
    def test_lead_nowhere_else(self, still: Window, path: str, step: str) -> None:
        asked: list[str] = []
        still.desk.log = lambda attempt, *_: asked.append(attempt)  # type: ignore[method-assign, assignment]
        reply = still.get(path.format(step))
        # A NUL is refused by its own message where ids and names are read.
        assert reply.status in ((404, 422) if "%00" in step else (404,)), reply.body
        assert asked == []

    @pytest.mark.parametrize("stream", ["..", "../out", "out/../../x", "out\x00", "", "OUT", "out.offset"])
    def test_streams_are_two(self, served: Window, stream: str) -> None:
        served.desk.logs["j1.1", stream] = b"secret"
        reply = served.get(f"{API}/attempts/j1.1/log?stream={quote(stream, safe='')}")
        assert (reply.status, reply.json["error"]) == (422, "UsageError")
