"""Whoever connects and is not known: connections are bounded in number, and in time until a request is there."""

from __future__ import annotations

import http.client
import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from hostler.model.inputs import Submit
from hostler.web import connections, session
from hostler.web.connections import Admission, most
from tests.core.builders import script
from tests.patience import PATIENCE_S
from tests.web.core_desk import TOKEN, Window, window

HEAD = f"GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n".encode()


@contextmanager
def connected(served: Window, *said: bytes) -> Iterator[socket.socket]:
    """A connection; the server's thread makes it, and so cannot see it before what is said is there."""

    def begun() -> socket.socket:
        made = socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S)
        for each in said:
            made.sendall(each)
        return made

    with served.call(begun) as made:
        yield made


def ended(connection: socket.socket) -> bytes:
    """What came before the other side hung up."""
    read = b""
    try:
        while piece := connection.recv(1 << 16):
            read += piece
    except ConnectionResetError:
        pass
    return read


def status_of(connection: socket.socket) -> int:
    """The status of the answer to a request for `/status`."""
    connection.sendall(HEAD + b"\r\n")
    response = http.client.HTTPResponse(connection)
    response.begin()
    response.read()
    return response.status


@contextmanager
def streaming(served: Window) -> Iterator[socket.socket]:
    """The event stream of a person with a token; unlike another connection it may be idle."""
    with connected(served, HEAD.replace(b"/status", b"/api/v1/events") + b"\r\n") as made:
        assert made.recv(12) == b"HTTP/1.1 200"
        yield made


def hears(stream: socket.socket, what: bytes) -> bool:
    """Whether an event stream has a text in it before it ends."""
    read = b""
    while what not in read and (piece := stream.recv(1 << 16)):
        read += piece
    return what in read


@contextmanager
def limited(**limits: float) -> Iterator[Window]:
    """A server with other limits for those without a token."""
    with window(admission=Admission(**{"head_s": PATIENCE_S, **limits})) as made:  # type: ignore[arg-type]
        yield made


class TestSlowOnes:
    @pytest.fixture
    def served(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Window]:
        monkeypatch.setattr(session, "FORM_S", 0.2)
        with limited(head_s=0.2) as made:
            yield made

    @pytest.mark.parametrize("said", [b"", b"G", HEAD])
    def test_who_sends_no_whole_head_is_hung_up_on(self, served: Window, said: bytes) -> None:
        with connected(served, *[said] if said else []) as made:
            assert ended(made) == b""

    def test_connection_with_an_unfinished_second_request_is_closed(self, served: Window) -> None:
        with connected(served, HEAD + b"\r\n") as made:
            assert made.recv(1 << 16).startswith(b"HTTP/1.1 200")
            made.sendall(b"GET /")
            assert b"HTTP/1.1" not in ended(made)

    def test_a_body_that_nobody_wants_is_not_waited_for(self, served: Window) -> None:
        head = b"POST /api/v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999\r\n\r\n"
        with connected(served, head) as made:
            assert made.recv(1 << 16).startswith(b"HTTP/1.1 401")
            made.sendall(b"x")
            ended(made)

    def test_a_form_of_somebody_unknown_comes_soon_or_not_at_all(self, served: Window) -> None:
        form = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 20\r\n\r\ntoken="
        with connected(served, b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n" + form) as made:
            assert made.recv(1 << 16).startswith(b"HTTP/1.1 408")

    def test_an_answer_may_take_its_time(self, served: Window) -> None:
        with connected(served, HEAD.replace(b"/status", b"/api/v1/events") + b"\r\n") as made:
            assert made.recv(1 << 16).startswith(b"HTTP/1.1 200")
            made.settimeout(1.0)
            with pytest.raises(TimeoutError):
                ended(made)


class TestMany:
    def test_of_one_address_the_oldest_without_a_token_are_closed(self) -> None:
        with limited(unauthenticated=5) as served, ExitStack() as stack:
            crowd = [stack.enter_context(connected(served)) for _ in range(8)]
            assert [ended(each) for each in crowd[:3]] == [b""] * 3
            assert [status_of(each) for each in crowd[3:]] == [200] * 5

    def test_connection_that_sent_a_token_is_not_closed_for_others(self) -> None:
        with limited(unauthenticated=3) as served, ExitStack() as stack:
            stream = stack.enter_context(streaming(served))
            crowd = [stack.enter_context(connected(served)) for _ in range(9)]
            assert [ended(each) for each in crowd[:6]] == [b""] * 6
            served.post("/api/v1/jobs", [{"argv": ["true"]}])
            assert hears(stream, b"job.submitted")

    @pytest.mark.parametrize("path", [b"/healthz", b"/login"])
    def test_connection_without_a_token_counts_whatever_it_asks_for(self, path: bytes) -> None:
        with limited(unauthenticated=3) as served, ExitStack() as stack:
            crowd = [stack.enter_context(connected(served)) for _ in range(3)]
            for each in crowd:
                each.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                assert each.recv(12) == b"HTTP/1.1 200"
            stack.enter_context(connected(served))
            ended(crowd[0])

    def test_a_thousand_slow_connections_shut_out_nobody_with_a_token(self) -> None:
        slow = b"GET / HTTP/1.1\r\n"
        with limited() as served, ExitStack() as stack:
            stream = stack.enter_context(streaming(served))
            for number in range(1000):
                made = stack.enter_context(socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S))
                made.sendall(slow)
                if number % 100 == 0:
                    assert served.get("/status").status == 200, "another connection of the same address"
            assert served.post("/api/v1/jobs", [{"argv": ["true"]}]).status == 201
            assert hears(stream, b"job.submitted")

    def test_crowds_of_many_addresses_shut_out_nobody_with_a_token(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connections, "MOST", 12)
        with limited(unauthenticated=4) as served, ExitStack() as stack:
            for number in range(40):
                own = (f"127.0.0.{2 + number // 4}", 0)
                stack.enter_context(socket.create_connection(("127.0.0.1", served.port), PATIENCE_S, own))
            assert served.get("/status").status == 200

    def test_where_all_have_tokens_the_newest_is_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(connections, "MOST", 3)
        with limited() as served, ExitStack() as stack:
            crowd = [stack.enter_context(streaming(served)) for _ in range(3)]
            assert ended(stack.enter_context(connected(served))) == b""
            served.tell(Submit(specs=(script(),)))
            assert all(hears(each, b"job.submitted") for each in crowd)


class TestHeads:
    @pytest.mark.parametrize("whole", [True, False], ids=["whole", "without an end"])
    def test_head_that_is_too_large_is_refused(self, whole: bool) -> None:
        with limited(head_bytes=2048) as served:
            field = b"X-Padding: " + b"x" * 2100
            with connected(served, HEAD + field + b"\r\n\r\n") as made:
                assert made.recv(12) == b"HTTP/1.1 431"
            with connected(served, HEAD + field * 2 + (b"\r\n\r\n" if whole else b"")) as made:
                answer = ended(made)
            assert answer.startswith(b"HTTP/1.1 431")
            problem = json.loads(answer.partition(b"\r\n\r\n")[2])
            assert problem["error"] == "HeadTooLarge"
            assert "2048 bytes (limits.head_bytes)" in problem["message"]
            assert served.get("/status").status == 200

    def test_second_head_is_limited_as_the_first(self) -> None:
        with limited(head_bytes=2048) as served:
            large = HEAD + b"X-Padding: " + b"x" * 4000 + b"\r\n\r\n"
            with connected(served, HEAD + b"\r\n" + large) as made:
                assert b"HTTP/1.1 431" in ended(made)

    def test_large_body_is_no_head(self) -> None:
        with limited(head_bytes=2048) as served:
            assert served.post("/api/v1/jobs", [{"argv": ["true", "x" * 50_000]}]).status == 201

    def test_half_of_the_files_are_left_for_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for files, expected in ((256, 128), (1 << 20, connections.MOST), (resource.RLIM_INFINITY, connections.MOST)):
            monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
            assert most() == expected


def test_what_is_no_http_is_not_logged(served: Window, caplog: pytest.LogCaptureFixture) -> None:
    with connected(served, b"\x16\x03\x01 nonsense\r\n\r\n") as made:
        assert ended(made).startswith(b"HTTP/1.1 400")
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"
    with connected(served, HEAD + upgrade) as made:
        assert made.recv(12) == b"HTTP/1.1 200"
    assert caplog.records == []
