"""Whoever connects and is not known: connections are bounded in number, and in time until a request is there."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from hostler.web import connections, session
from hostler.web.connections import most
from tests.patience import PATIENCE_S
from tests.web.core_desk import TOKEN, Window

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


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.2)
    monkeypatch.setattr(session, "FORM_S", 0.2)


@pytest.mark.usefixtures("hasty")
class TestSlowOnes:
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
    def test_those_beyond_the_bound_are_hung_up_on_and_the_rest_is_served(
        self, served: Window, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connections, "MOST", 5)
        monkeypatch.setattr(connections, "HEAD_S", PATIENCE_S)
        with ExitStack() as stack:
            crowd = [stack.enter_context(connected(served)) for _ in range(8)]
            assert [ended(each) for each in crowd[5:]] == [b""] * 3
            crowd[0].sendall(HEAD + b"\r\n")
            assert crowd[0].recv(12) == b"HTTP/1.1 200"

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
