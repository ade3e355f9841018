"""Browsers: logging in and out, what proves that a page of ours sent something, proxies that vouch for people."""

from __future__ import annotations

import dataclasses
import http.client
import inspect
import re
import socket
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.datastructures import Headers

from hostler.model.access import Scope
from hostler.web.door import Door, Proxy, Visitor, _is_one_of, digest_of
from hostler.web.limits import FAILURES_MOST, WINDOW_S
from hostler.web.once import LIFETIME_S as CODE_LIFETIME_S, OneTimeCodes
from hostler.web.sessions import LIFETIME_S, Ended, Session, Sessions
from tests.core.builders import script
from tests.patience import PATIENCE_S
from tests.web.core_desk import TOKEN, CoreDesk, Reply, Window, door, window
from tests.web.test_access import make
from tests.web.test_writing import submit

API = "/api/v1"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
KEY = b"key of tests"


def log_in(served: Window, token: str = TOKEN, to: str = "/", **headers: str) -> Reply:
    return served.ask("POST", "/login", urlencode({"token": token, "next": to}).encode(), {**FORM, **headers})


def cookie_of(reply: Reply) -> str:
    return reply.headers["set-cookie"].partition(";")[0]


def by_code(served: Window, code: str) -> Reply:
    return served.ask("POST", "/login", urlencode({"once": code}).encode(), FORM)


@pytest.fixture
def logged_in(served: Window) -> Mapping[str, str]:
    """The cookie of somebody who has logged in with the token of the state directory."""
    return {"Cookie": cookie_of(log_in(served))}


def csrf_of(cookie: Mapping[str, str]) -> str:
    value = cookie["Cookie"].partition("=")[2]
    return Sessions(KEY, lambda: 0.0).csrf(value.rpartition(".")[0])


class TestLogin:
    def test_a_token_begins_a_session(self, served: Window) -> None:
        reply = log_in(served, to="/queue?x=1")
        assert (reply.status, reply.headers["location"]) == (303, "/queue?x=1")
        told = reply.headers["set-cookie"]
        assert re.fullmatch(rf"hostler-\w{{12}}=\S+; HttpOnly; Max-Age={LIFETIME_S}; Path=/; SameSite=strict", told), (
            told
        )
        assert TOKEN not in told
        assert served.ask("GET", "/status", headers={"Cookie": cookie_of(reply)}).status == 200

    @pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x"])
    def test_other_tokens_do_not(self, served: Window, token: str) -> None:
        reply = log_in(served, token)
        assert (reply.status, "set-cookie" in reply.headers) == (401, False)
        assert b"expired or was revoked" in reply.body
        assert not token or token.encode() not in reply.body

    @pytest.mark.parametrize(
        "to", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "", "/a\r\nX: y"]
    )
    def test_it_leads_nowhere_else(self, served: Window, to: str) -> None:
        assert log_in(served, to=to).headers["location"] == "/"
        page = served.ask("GET", "/login?" + urlencode({"next": to + "\"'><script>"}), headers={})
        assert b"<script>" not in page.body
        assert b"evil" not in page.body

    def test_a_browser_that_is_not_known_is_led_to_it(self, served: Window) -> None:
        reply = served.ask("GET", "/status?a=1&b=%2F", headers={"Accept": "text/html,*/*"})
        assert (reply.status, reply.headers["location"]) == (303, "/login?next=%2Fstatus%3Fa%3D1%26b%3D%252F")
        assert served.ask("GET", f"{API}/jobs", headers={"Accept": "text/html"}).status == 401
        assert served.ask("GET", "/login", headers={}).status == 200

    def test_whoever_is_known_goes_on(self, served: Window, logged_in: Mapping[str, str]) -> None:
        reply = served.ask("GET", "/login?next=/queue", headers=logged_in)
        assert (reply.status, reply.headers["location"]) == (303, "/queue")

    def test_another_site_cannot_log_somebody_in(self, served: Window) -> None:
        reply = log_in(served, Origin="https://evil.example")
        assert (reply.status, "set-cookie" in reply.headers) == (403, False)
        assert log_in(served, Origin=f"http://127.0.0.1:{served.port}").status == 303

    def test_a_form_that_is_too_long_is_refused(self, served: Window) -> None:
        assert log_in(served, "x" * 70_000).status == 413

    def test_whoever_is_wrong_too_often_waits_even_with_the_right_token(self, served: Window) -> None:
        for _ in range(FAILURES_MOST):
            assert log_in(served, "wrong").status == 401
        reply = log_in(served)
        assert reply.status == 429
        assert 0 < int(reply.headers["retry-after"]) <= WINDOW_S
        assert served.get("/status").status == 200, "bearer tokens are counted apart"
        served.desk.driver.now += WINDOW_S
        assert log_in(served).status == 303

    def test_of_many_at_once_no_more_are_tried(self, served: Window) -> None:
        body = urlencode({"token": "wrong"}).encode()
        head = f"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {FORM['Content-Type']}\r\n"
        crowd = [
            socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S) for _ in range(2 * FAILURES_MOST)
        ]
        for each in crowd:
            each.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        served.get("/status")
        for each in crowd:
            each.sendall(body)
        answers = [each.recv(12)[-3:] for each in crowd]
        for each in crowd:
            each.close()
        assert sorted(answers) == [b"401"] * FAILURES_MOST + [b"429"] * FAILURES_MOST

    def test_one_time_code_logs_in_once_and_another_text_does_not(self) -> None:
        desk = CoreDesk()
        codes = OneTimeCodes(lambda: desk.driver.now)
        with window(desk, entrance={"codes": codes}) as served:
            code, late = codes.issue(), codes.issue()
            assert by_code(served, "wrong").status == 401
            assert by_code(served, code).status == 303
            reply = by_code(served, code)
            assert (reply.status, "set-cookie" in reply.headers) == (401, False)
            assert b"has been used, or has expired" in reply.body
            desk.driver.now += CODE_LIFETIME_S
            assert by_code(served, late).status == 401

    def test_controller_without_one_time_codes_takes_none(self, served: Window) -> None:
        assert by_code(served, "x").status == 401

    def test_the_page_needs_nothing_that_the_policy_forbids(self, served: Window) -> None:
        reply = served.ask("GET", "/login", headers={})
        policy = reply.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert not re.search(rb"<script(?! src=)|<style|style=|\bon\w+=", reply.body)
        assert reply.headers["x-frame-options"] == "DENY"
        assert reply.headers["referrer-policy"] == "same-origin"


class TestSession:
    def test_it_lasts_for_twelve_hours(self) -> None:
        at = 1000.0
        sessions = Sessions(KEY, lambda: at)
        headers = begun(sessions)
        at += 12 * 3600 - 1
        assert sessions.found(headers) is not None
        at += 1
        assert sessions.found(headers) is None

    def test_it_ends_by_itself(self, served: Window, logged_in: Mapping[str, str]) -> None:
        served.desk.driver.now += LIFETIME_S - 1
        assert served.ask("GET", "/status", headers=logged_in).status == 200
        served.desk.driver.now += 1
        assert served.ask("GET", "/status", headers=logged_in).status == 401

    def test_it_ends_with_its_token(self, served: Window) -> None:
        logged_in = {"Cookie": cookie_of(log_in(served, make(served, "ci", "admin")))}
        assert served.ask("GET", "/status", headers=logged_in).status == 200
        served.ask("DELETE", f"{API}/tokens/ci")
        assert served.ask("GET", "/status", headers=logged_in).status == 401

    def test_it_may_do_what_its_token_may(self, served: Window) -> None:
        logged_in = {"Cookie": cookie_of(log_in(served, make(served, "ci", "read")))}
        headers = {**logged_in, "X-CSRF-Token": csrf_of(logged_in)}
        assert served.ask("GET", f"{API}/jobs", headers=headers).status == 200
        assert served.ask("POST", f"{API}/jobs", b"[]", headers).status == 403
        assert served.ask("POST", "/logout", headers=headers).status == 303

    def test_logging_out_ends_it_wherever_its_cookie_is(self, served: Window, logged_in: Mapping[str, str]) -> None:
        reply = served.ask("POST", "/logout", headers={**logged_in, "X-CSRF-Token": csrf_of(logged_in)})
        assert (reply.status, reply.headers["location"]) == (303, "/login")
        assert "Max-Age=0" in reply.headers["set-cookie"]
        assert served.ask("GET", "/status", headers=logged_in).status == 401

    def test_a_cookie_that_was_changed_is_none(self, served: Window, logged_in: Mapping[str, str]) -> None:
        name, _, value = logged_in["Cookie"].partition("=")
        digest, ends_at, nonce, signature = value.split(".")
        forged = [
            f"{digest}.{int(ends_at) + 1}.{nonce}.{signature}",
            f"{digest_of('other')}.{ends_at}.{nonce}.{signature}",
            f"{digest}.{ends_at}.{nonce}.{'0' * 64}",
            f"{digest}.{ends_at}.{nonce}",
            "",
            "x",
            Sessions(b"another key", lambda: 0.0).begin(digest_of(TOKEN)),
        ]
        for value in forged:
            assert served.ask("GET", "/status", headers={"Cookie": f"{name}={value}"}).status == 401
        twice = f"{logged_in['Cookie']}; {name}=x"
        assert served.ask("GET", "/status", headers={"Cookie": twice}).status == 401

    def test_a_wrong_bearer_token_is_not_mended_by_a_cookie(self, served: Window, logged_in: Mapping[str, str]) -> None:
        headers = {**logged_in, "Authorization": "Bearer wrong"}
        assert served.ask("GET", "/status", headers=headers).status == 401

    def test_what_is_remembered_of_ended_ones_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("hostler.web.sessions.ENDED_MOST", 3)
        at = 0.0
        sessions = Sessions(KEY, lambda: at)
        for number in range(5):
            at += 1.0
            made = sessions.found(Headers({"Cookie": f"{sessions.cookie}={sessions.begin(digest_of(str(number)))}"}))
            assert made is not None
            sessions.end(made)
        assert len(sessions.ended.sessions) == 3

    def test_what_is_forgotten_of_ended_ones_is_over_all_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whoever ends sessions of their own by the thousand brings no ended one back."""
        monkeypatch.setattr("hostler.web.sessions.ENDED_MOST", 3)
        at = 1000.0
        sessions = Sessions(KEY, lambda: at)
        first = begun(sessions)
        ended = sessions.found(first)
        assert ended is not None
        sessions.end(ended)
        at += 1.0
        later = begun(sessions)
        for _ in range(4):
            own = sessions.found(begun(sessions))
            assert own is not None
            sessions.end(own)
        assert sessions.found(first) is None
        at += 1.0
        assert sessions.found(begun(sessions)) is not None
        again = Sessions(KEY, lambda: at, sessions.ended)
        assert again.found(first) is None
        assert again.found(later) is None, "it would have ended as early as one that is forgotten"
        assert again.found(begun(sessions)) is not None


def begun(sessions: Sessions) -> Headers:
    """What the browser of a new session sends."""
    return Headers({"Cookie": f"{sessions.cookie}={sessions.begin(digest_of(TOKEN))}"})


class TestForgery:
    @pytest.fixture(autouse=True)
    def job(self, served: Window) -> None:
        submit(served, script())

    def cancel(self, served: Window, headers: Mapping[str, str], body: bytes | None = None) -> int:
        return served.ask("POST", f"{API}/jobs/j1/cancel", body, headers).status

    def test_a_cookie_alone_changes_nothing(self, served: Window, logged_in: Mapping[str, str]) -> None:
        seq = served.desk.status().seq
        assert self.cancel(served, logged_in) == 403
        assert self.cancel(served, {**logged_in, "X-CSRF-Token": ""}) == 403
        assert self.cancel(served, {**logged_in, "X-CSRF-Token": "0" * 64}) == 403
        assert self.cancel(served, {**logged_in, **FORM}, b"csrf=") == 403
        assert self.cancel(served, {**logged_in, **FORM}, b"x=1") == 403
        assert (
            self.cancel(served, {**logged_in, "Content-Type": "text/plain"}, b"csrf=" + csrf_of(logged_in).encode())
            == 403
        )
        assert served.ask("DELETE", f"{API}/tokens/x", headers=logged_in).status == 403
        assert served.ask("POST", "/logout", headers=logged_in).status == 403
        assert served.desk.status().seq == seq

    def test_the_token_of_the_session_proves_it(self, served: Window, logged_in: Mapping[str, str]) -> None:
        assert self.cancel(served, {**logged_in, "X-CSRF-Token": csrf_of(logged_in)}) == 200
        assert served.get(f"{API}/audit").json[0]["who"] == "local"

    def test_csrf_token_is_accepted_as_a_form_field(self, served: Window, logged_in: Mapping[str, str]) -> None:
        body = urlencode({"a": "b", "csrf": csrf_of(logged_in)}).encode()
        assert served.ask("POST", "/logout", body, {**logged_in, **FORM}).status == 303
        assert served.ask("GET", "/status", headers=logged_in).status == 401

    def test_csrf_token_of_another_session_is_refused(self, served: Window, logged_in: Mapping[str, str]) -> None:
        other = {"Cookie": cookie_of(log_in(served))}
        assert self.cancel(served, {**logged_in, "X-CSRF-Token": csrf_of(other)}) == 403

    def test_another_site_is_refused_even_with_it(self, served: Window, logged_in: Mapping[str, str]) -> None:
        headers = {**logged_in, "X-CSRF-Token": csrf_of(logged_in)}
        for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
            assert self.cancel(served, {**headers, "Origin": origin}) == 403
        assert self.cancel(served, {**headers, "Origin": f"http://127.0.0.1:{served.port}"}) == 200

    def test_a_form_beyond_all_measure_is_refused(self, served: Window, logged_in: Mapping[str, str]) -> None:
        assert self.cancel(served, {**logged_in, **FORM}, b"x" * 70_000) == 413


class TestProxy:
    PROXY = Proxy(
        addresses=frozenset({"127.0.0.1"}), header="X-Forwarded-User", scope=Scope.READ, users={"anna": Scope.OPERATE}
    )

    @pytest.fixture
    def behind(self) -> Iterator[Window]:
        with window(entrance={"proxy": self.PROXY, "names": frozenset({"fleet.example"})}) as made:
            yield made

    def csrf(self, user: str) -> str:
        return Sessions(KEY, lambda: 0.0).csrf(f"proxy {user}")

    def test_it_vouches_for_people(self, behind: Window) -> None:
        assert behind.ask("GET", "/status", headers={"X-Forwarded-User": "bob"}).status == 200
        assert behind.ask("GET", "/status", headers={"X-Forwarded-User": "bob", "Host": "fleet.example"}).status == 200
        anna = {"X-Forwarded-User": "anna", "X-CSRF-Token": self.csrf("anna")}
        assert behind.ask("POST", f"{API}/nodes/n/cordon", headers=anna).status == 200
        assert behind.get(f"{API}/audit").json[0]["who"] == "proxy/anna"
        bob = {"X-Forwarded-User": "bob", "X-CSRF-Token": self.csrf("bob")}
        assert behind.ask("POST", f"{API}/nodes/n/resume", headers=bob).status == 403

    def test_its_browsers_prove_their_writes_too(self, behind: Window) -> None:
        assert behind.ask("POST", f"{API}/nodes/n/cordon", headers={"X-Forwarded-User": "anna"}).status == 403

    def test_tokens_of_its_own_that_it_passes_on_do_no_harm(self, behind: Window) -> None:
        headers = {"X-Forwarded-User": "bob", "Authorization": "Bearer of-the-proxy"}
        assert behind.ask("GET", "/status", headers=headers).status == 200
        token = {"X-Forwarded-User": "bob", "Authorization": f"Bearer {TOKEN}"}
        assert behind.ask("POST", f"{API}/nodes/n/cordon", headers=token).status == 200
        assert behind.get(f"{API}/audit").json[0]["who"] == "local"

    @pytest.mark.parametrize("user", ["", "x" * 129, "a\tb"])
    def test_words_that_name_nobody(self, behind: Window, user: str) -> None:
        assert behind.ask("GET", "/status", headers={"X-Forwarded-User": user}).status == 401

    def test_two_words_are_none(self, behind: Window) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", behind.port, timeout=PATIENCE_S)
        connection.putrequest("GET", "/status")
        for user in ("anna", "bob"):
            connection.putheader("X-Forwarded-User", user)
        connection.endheaders()
        assert connection.getresponse().status == 401
        connection.close()

    @pytest.mark.parametrize("extra", [{}, {"X-Forwarded-For": "192.0.2.7"}, {"Forwarded": "for=192.0.2.7"}])
    def test_from_elsewhere_its_word_counts_for_nothing(self, extra: Mapping[str, str]) -> None:
        proxy = Proxy(addresses=frozenset({"192.0.2.7"}), header="X-Forwarded-User", scope=Scope.ADMIN)
        with window(entrance={"proxy": proxy}) as served:
            headers = {"X-Forwarded-User": "anna", **extra}
            assert served.ask("GET", "/status", headers=headers).status == 401
            assert served.get("/status", **headers).status == 200, "a token of one's own still does"

    def test_without_one_nobody_is_believed(self, served: Window) -> None:
        assert served.ask("GET", "/status", headers={"X-Forwarded-User": "anna"}).status == 401


@pytest.mark.parametrize("address", ["", "unix:", "here", "192.0.2.7.1"])
def test_address_that_is_none_is_no_proxy(address: str) -> None:
    assert not _is_one_of(address, frozenset({"127.0.0.1", "", "here"}))


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1", "fe80::1%eth0"])
def test_address_of_a_proxy_is_known_in_each_of_its_forms(address: str) -> None:
    assert _is_one_of(address, frozenset({"127.0.0.1", "fe80::1"}))


@pytest.mark.parametrize("shape", [Door, Proxy, Visitor, Session, Ended])
def test_values_that_access_depends_on_are_made_by_name_and_never_changed(shape: Any) -> None:
    parameters = inspect.signature(shape).parameters.values()
    assert {each.kind for each in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    made = object.__new__(shape)
    for each in dataclasses.fields(shape):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, each.name, None)


def test_secrets_of_the_door_are_not_in_its_text() -> None:
    text = repr(door(key=b"0123456789abcdef"))
    assert TOKEN not in text
    assert "0123456789abcdef" not in text


class TestNames:
    @pytest.mark.parametrize(("host", "status"), [("fleet.example", 200), ("FLEET.example:443", 200), ("other", 403)])
    def test_the_controller_goes_by_those_it_was_given(self, host: str, status: int) -> None:
        with window(entrance={"names": frozenset({"fleet.example"})}) as served:
            assert served.get("/status", Host=host).status == status


def test_under_tls_the_cookie_is_for_tls_alone() -> None:
    with window(CoreDesk(), entrance={"tls": True}) as served:
        assert "; Secure" in log_in(served).headers["set-cookie"]


def test_a_fault_of_ours_is_sealed_too(served: Window) -> None:
    served.desk.broken = RuntimeError("a fault")
    reply = served.get("/status")
    assert reply.status == 500
    assert reply.headers["content-security-policy"]
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_cookies_of_two_controllers_on_one_machine_do_not_meet() -> None:
    names = {Sessions(key, lambda: 0.0).cookie for key in (b"a", b"b")}
    assert len(names) == 2
